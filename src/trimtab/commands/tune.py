"""`trimtab tune`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.commands.shared import (
    Output,
    add_source,
    config_from,
    filled,
    numbered,
    parser,
)
from trimtab.config import Config
from trimtab.runs.records import RunError

SHORT = 100_000  # steps of a trial, unless asked for more


def tune(argv: list[str]) -> int:
    from trimtab.studies.tune import TuneOptions, check
    from trimtab.studies.tune import tune as work

    made = parser("tune", TuneOptions, Output, Config)
    add_source(made)
    made.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/tune-ENV-K)")
    given = made.parse(argv)
    options, output = filled(TuneOptions, given), filled(Output, given)
    config = config_from(given)
    if not hasattr(given, "total_timesteps"):
        config = config.replace(total_timesteps=min(config.total_timesteps, SHORT))
    check(options)
    out = Path(given.run_dir) if given.run_dir else numbered(f"tune-{config.env_id.replace('/', '-')}")
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} already exists and is not empty; give another --run-dir, or resume it")
    return finish_tuning(
        work(config, out, options, output.quiet or output.json, f"trimtab tune {' '.join(argv)}"), output
    )


def finish_tuning(result: dict[str, Any], output: Output) -> int:
    if output.json:
        print(json.dumps(result))
    else:
        from trimtab.report.tune import print_tuning

        print_tuning(result)
    return 0
