"""`trimtab split`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.operations import flags
from trimtab.operations.shared import (
    Output,
    as_typed,
    filled,
    layered_config,
    numbered,
    own_sizes,
    parser,
    refuse_two_environments,
)

if TYPE_CHECKING:
    from trimtab.studies.split_result import SplitResult


def split(argv: list[str]) -> int:
    from trimtab.studies.split_study import Split, SplitOptions, effort, longest, shortened
    from trimtab.studies.study_engine import ExecutionOptions, run_study

    command_parser = parser("split", SplitOptions, Output, ExecutionOptions, Config)
    command_parser.add_argument("env", nargs="?", help="environment id (default: that of --run or --config)")
    command_parser.add_argument(
        "--batch", metavar="B", help="samples per iteration, N × T in every split (default: as it has)"
    )
    command_parser.add_argument(
        "--preset", metavar="NAME", help="preset to start from (default: the environment's own)"
    )
    command_parser.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset")
    command_parser.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/split-ENV-K)")
    arguments = command_parser.parse(argv)
    if arguments.env is not None:
        refuse_two_environments(arguments)
        arguments.env_id = arguments.env
    for name in ("num_envs", "num_steps"):
        if hasattr(arguments, name):
            raise ConfigError(name, getattr(arguments, name), "is what a split varies; use --splits")
    options, output = effort(flags.values(SplitOptions, arguments)), filled(Output, arguments)
    run = _config_of_run(arguments, options.run) if options.run else None
    own = (run.num_envs, run.num_steps) if run else own_sizes(arguments)
    batch = flags.parse("batch", int, arguments.batch) if arguments.batch else math.prod(own)
    num_envs, num_steps = longest(batch, options.splits)
    if run:
        config = run.replace(num_envs=num_envs, num_steps=num_steps)
    else:
        arguments.num_envs, arguments.num_steps = str(num_envs), str(num_steps)
        config = layered_config(arguments)
    if not hasattr(arguments, "total_timesteps"):
        config = shortened(config, batch, options.quick)
    study = Split(config, batch, own[0], options, command := as_typed("split", argv))
    out = Path(arguments.run_dir) if arguments.run_dir else numbered(f"split-{config.env_id.replace('/', '-')}")
    return finish_split(
        run_study(study, out, filled(ExecutionOptions, arguments), command, output.quiet or output.json), output
    )


def finish_split(result: SplitResult, output: Output) -> int:
    if output.json:
        print_json(result)
    else:
        from trimtab.show.split_tables import print_split

        print_split(result)
    return 0


def _config_of_run(arguments, path: str) -> Config:
    """A run's own configuration: what is probed is also what is trained. Only its length may be another."""
    from trimtab.studies.split_study import refuse_other_fields
    from trimtab.training.run import load

    config = load(path).config
    refuse_other_fields(config, path, flags.values(Config, arguments))
    for name in ("preset", "config"):
        if getattr(arguments, name):
            raise ConfigError(
                name, getattr(arguments, name), "a run brings its own configuration; leave out one of them"
            )
    return config.replace(
        total_timesteps=flags.values(Config, arguments).get("total_timesteps", config.total_timesteps)
    )
