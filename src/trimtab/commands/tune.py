"""`trimtab tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.answers import print_json
from trimtab.commands.shared import (
    Output,
    add_source,
    config_from,
    filled,
    numbered,
    parser,
)
from trimtab.config import Config


def tune(argv: list[str]) -> int:
    from trimtab.studies.study import Where, begin
    from trimtab.studies.tune import SHORT, Tune, TuneOptions

    made = parser("tune", TuneOptions, Output, Where, Config)
    add_source(made)
    made.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/tune-ENV-K)")
    given = made.parse(argv)
    options, output = filled(TuneOptions, given), filled(Output, given)
    config = config_from(given)
    if not hasattr(given, "total_timesteps"):
        config = config.replace(total_timesteps=min(config.total_timesteps, SHORT))
    study = Tune(config, options, command := f"trimtab tune {' '.join(argv)}")
    out = Path(given.run_dir) if given.run_dir else numbered(f"tune-{config.env_id.replace('/', '-')}")
    return finish_tuning(begin(study, out, filled(Where, given), command, output.quiet or output.json), output)


def finish_tuning(result: dict[str, Any], output: Output) -> int:
    result["config"] = str(Path(result["run"]) / "tuned.yaml")
    if output.json:
        print_json(result)
    else:
        from trimtab.report.tune import print_tuning

        print_tuning(result)
    return 0
