"""`trimtab eval`."""

from __future__ import annotations

from trimtab.core.answers import print_json
from trimtab.operations.shared import Output, filled, parser


def eval(argv: list[str]) -> int:
    command_parser = parser("eval", Output, positional="run", help="run directory")
    command_parser.add_argument("--episodes", type=int, default=10, help="episodes, one per environment (default: 10)")
    command_parser.add_argument(
        "--at", type=int, default=None, metavar="STEP", help="checkpoint to evaluate (default: the last)"
    )
    command_parser.add_argument(
        "--seed", type=int, default=None, help="seed of the episodes (default: 1000000 + the run's seed)"
    )
    arguments = command_parser.parse(argv)
    output = filled(Output, arguments)
    from trimtab.operations.python_runs import evaluate

    result = {"run": arguments.run, **evaluate(arguments.run, arguments.episodes, at=arguments.at, seed=arguments.seed)}
    if output.json:
        print_json(result)
    else:
        print(
            f"{result['eval/episodes']} episodes at step {result['step']:,}: mean {result['eval/mean_reward']:.4g}, "
            f"median {result['eval/median_reward']:.4g}, "
            f"IQR {result['eval/iqr_low']:.4g} to {result['eval/iqr_high']:.4g}"
        )
    return 0
