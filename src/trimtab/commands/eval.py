"""`trimtab eval`."""

from __future__ import annotations

import json

from trimtab.commands.shared import Output, filled, parser
from trimtab.config import ConfigError


def eval(argv: list[str]) -> int:
    made = parser("eval", Output, positional="run", help="run directory")
    made.add_argument("--episodes", type=int, default=10, help="episodes, one per environment (default: 10)")
    made.add_argument("--at", type=int, default=None, metavar="STEP", help="checkpoint to evaluate (default: the last)")
    made.add_argument("--seed", type=int, default=None, help="seed of the episodes (default: 1000000 + the run's seed)")
    given = made.parse(argv)
    if given.episodes < 1:
        raise ConfigError("episodes", given.episodes, "must be at least 1; nearest: 1")
    if given.seed is not None and given.seed < 0:
        raise ConfigError("seed", given.seed, "must be at least 0; nearest: 0")
    output = filled(Output, given)
    from trimtab.runs.evaluate import evaluate_run

    result = {"run": given.run, **evaluate_run(given.run, given.episodes, given.at, given.seed)}
    if output.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['eval/episodes']} episodes at step {result['step']:,}: mean {result['eval/mean_reward']:.4g}, "
            f"median {result['eval/median_reward']:.4g}, "
            f"IQR {result['eval/iqr_low']:.4g} to {result['eval/iqr_high']:.4g}"
        )
    return 0
