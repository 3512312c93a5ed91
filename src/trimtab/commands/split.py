"""`trimtab split`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.answers import print_json
from trimtab.commands import flags
from trimtab.commands.shared import (
    Output,
    filled,
    layered_config,
    numbered,
    own_num_envs,
    parser,
    refuse_two_environments,
)
from trimtab.config import Config, ConfigError


def split(argv: list[str]) -> int:
    from trimtab.studies.split import Split, SplitOptions, effort, longest, shortened
    from trimtab.studies.study import Where, begin

    made = parser("split", SplitOptions, Output, Where, Config, positional="env", help="environment id")
    made.add_argument("--batch", required=True, metavar="B", help="samples per iteration, N × T in every split")
    made.add_argument("--preset", metavar="NAME", help="preset to start from (default: the environment's own)")
    made.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset")
    made.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/split-ENV-K)")
    given = made.parse(argv)
    refuse_two_environments(given)
    given.env_id = given.env
    for name in ("num_envs", "num_steps"):
        if hasattr(given, name):
            raise ConfigError(name, getattr(given, name), "is what a split varies; use --splits")
    batch = flags.parse("batch", int, given.batch)
    options, output = effort(flags.values(SplitOptions, given)), filled(Output, given)
    first = longest(batch, options.splits)
    if options.run:
        config = _config_of_run(given, options.run)
        own, config = config.num_envs, config.replace(num_envs=first[0], num_steps=first[1])
    else:
        own = own_num_envs(given)
        given.num_envs, given.num_steps = map(str, first)
        config = layered_config(given)
    if not hasattr(given, "total_timesteps"):
        config = shortened(config, batch, options.quick)
    study = Split(config, batch, own, options, command := "trimtab split " + " ".join(argv))
    out = Path(given.run_dir) if given.run_dir else numbered(f"split-{given.env_id.replace('/', '-')}")
    return finish_split(begin(study, out, filled(Where, given), command, output.quiet or output.json), output)


def finish_split(result: dict[str, Any], output: Output) -> int:
    if output.json:
        print_json(result)
    else:
        from trimtab.report.split.tables import print_split

        print_split(result)
    return 0


def _config_of_run(given, path: str) -> Config:
    """A run's own configuration: what is probed is also what is trained. Only its length may be another."""
    from trimtab.runs.run import load
    from trimtab.studies.split import refuse_other_fields

    config = load(path).config
    refuse_other_fields(config, path, flags.values(Config, given))
    for name in ("preset", "config"):
        if getattr(given, name):
            raise ConfigError(name, getattr(given, name), "a run brings its own configuration; leave out one of them")
    return config.replace(total_timesteps=flags.values(Config, given).get("total_timesteps", config.total_timesteps))
