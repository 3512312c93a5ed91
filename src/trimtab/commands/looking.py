"""Commands that only look: eval, show, repeat, envs, presets."""

from __future__ import annotations

import json

import yaml

from trimtab import presets as preset_files
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
    from trimtab.training import evaluate_run

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


def show(argv: list[str]) -> int:
    made = parser("show", Output, positional="run", help="run directory")
    made.add_argument("--save", metavar="FILE", help="also save the learning curve (.png, .svg, .pdf or .html)")
    given = made.parse(argv)
    from trimtab.report.terminal import show_run

    return show_run(given.run, filled(Output, given).json, given.save)


def repeat(argv: list[str]) -> int:
    made = parser("repeat", Output, positional="run", help="run directory")
    made.add_argument("--run-dir", metavar="DIR", help="where the repetition goes (default: beside the run)")
    given = made.parse(argv)
    output = filled(Output, given)
    from trimtab.training import repeat as repeat_run

    result = repeat_run(given.run, given.run_dir, quiet=output.quiet or output.json)
    if output.json:
        print(json.dumps(result))
    elif result["identical"]:
        print(f"identical, bit for bit: {result['compared']} metrics over {result['iterations']} iterations")
    else:
        first = result["first_difference"]
        print(
            f"not identical: {first['metric']} differs first, at iteration {first['iteration']}: "
            f"{first['was']} then {first['now']}"
        )
    return 0 if result["identical"] else 1


def envs(argv: list[str]) -> int:
    made = parser("envs", Output)
    made.add_argument("filter", nargs="?", default="", help="only ids that contain this")
    made.add_argument("--backend", default=None, help="only this backend")
    given = made.parse(argv)
    from trimtab.envs import BACKENDS, catalogue, nearest

    if given.backend not in (None, *BACKENDS):
        close = nearest(given.backend, BACKENDS) or BACKENDS
        raise ConfigError("backend", given.backend, f"no such backend; nearest: {', '.join(close)}")
    rows = [
        row
        for row in catalogue()
        if given.filter.lower() in row.env_id.lower() and given.backend in (None, row.backend)
    ]
    if filled(Output, given).json:
        print(json.dumps([row._asdict() for row in rows]))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("environment", "backend", "available")
    for row in rows:
        table.add_row(row.env_id, row.backend, "yes" if row.available else f"no: {row.reason}")
    Console().print(table)
    return 0


def presets(argv: list[str]) -> int:
    made = parser("presets")
    made.add_argument("name", nargs="?", help="print this preset")
    given = made.parse(argv)
    if given.name:
        print(yaml.safe_dump(preset_files.load(given.name), sort_keys=False), end="")
    else:
        print("\n".join(preset_files.names()))
    return 0
