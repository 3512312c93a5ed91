"""`trimtab tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.config import Config
from trimtab.core.answers import print_json
from trimtab.operations.shared import Output, add_source, as_typed, config_from, filled, numbered, parser

if TYPE_CHECKING:
    from trimtab.studies.tune_result import TuneResult


def tune(argv: list[str]) -> int:
    from trimtab.studies.study_engine import ExecutionOptions, run_study
    from trimtab.studies.tune_study import Tune, TuneOptions, shortened

    command_parser = parser("tune", TuneOptions, Output, ExecutionOptions, Config)
    add_source(command_parser)
    command_parser.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/tune-ENV-K)")
    arguments = command_parser.parse(argv)
    options, output = filled(TuneOptions, arguments), filled(Output, arguments)
    config = config_from(arguments)
    own_steps = config.total_timesteps
    if not hasattr(arguments, "total_timesteps"):
        config = shortened(config)
    study = Tune(config, options, command := as_typed("tune", argv), own_steps)
    out = Path(arguments.run_dir) if arguments.run_dir else numbered(f"tune-{config.env_id.replace('/', '-')}")
    return finish_tuning(
        run_study(study, out, filled(ExecutionOptions, arguments), command, output.quiet or output.json), output
    )


def finish_tuning(result: TuneResult, output: Output) -> int:
    if output.json:
        print_json(result)
    else:
        from trimtab.show.tune_page import print_tuning

        print_tuning(result)
    return 0
