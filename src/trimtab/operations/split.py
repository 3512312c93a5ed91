"""`trimtab split`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.core.options import given, if_given
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Configured, describe_preset
from trimtab.operations.studying import Studying
from trimtab.studies.split_result import SplitResult
from trimtab.studies.split_study import Split, SplitOptions, effort, longest, refuse_other_fields, shortened
from trimtab.training.run import Run, load

if TYPE_CHECKING:
    Effort = SplitOptions
else:
    Effort = if_given(SplitOptions)


@dataclass(frozen=True)
class SplitSpec(Effort, Configured, Studying):
    """What to split."""

    batch: int | None = option(None, metavar="B")
    """Samples per iteration, N × T in every split (default: as the configuration has)."""
    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the results (default: runs/split-ENV-K)."""


def _show(result: SplitResult, call: Call) -> None:
    show_split(result, call.json)


def show_split(result: SplitResult, as_json: bool) -> None:
    """Print which splits are eliminated, why, and which remain."""
    if as_json:
        print_json(result)
        return
    from trimtab.show.split_tables import print_split

    print_split(result)


@operation("split", SplitSpec, _show, before_help=describe_preset)
def split(options: SplitSpec) -> SplitResult:
    """How should a batch be split into environments × steps?

    Returns:
        Which splits are eliminated, why, and which remain; `.sentence` says it.
    """
    fields = options.fields
    for name in ("num_envs", "num_steps"):
        if name in fields:
            raise ConfigError(name, fields[name], "is what a split varies; use splits (--splits)")
    probed = {"run": str(options.source.path)} if isinstance(options.source, Run) else {}
    chosen = effort(given(options, SplitOptions) | probed)
    own = _config_of_run(options, chosen.run, fields) if chosen.run else None
    sizes = own.split if own else options.own_sizes()
    batch = math.prod(sizes) if options.batch is None else options.batch
    num_envs, num_steps = longest(batch, chosen.splits)
    if own:
        length = fields.get("total_timesteps", own.total_timesteps)
        config = own.replace(num_envs=num_envs, num_steps=num_steps, total_timesteps=length)
    else:
        config = options.configuration(num_envs=num_envs, num_steps=num_steps)
    if "total_timesteps" not in fields:
        config = shortened(config, batch, chosen.quick)
    study = Split(config, batch, sizes[0], chosen, options.source_command("split"))
    return options.carry_out(study, f"split-{config.env_id}", options.run_dir)


def _config_of_run(options: SplitSpec, path: str, fields: dict[str, Any]) -> Config:
    """A run's own configuration: what is probed is also what is trained."""
    config = load(path).config
    refuse_other_fields(config, path, fields)
    for name in ("preset", "config"):
        if value := getattr(options, name):
            raise ConfigError(name, value, "a run brings its own configuration; leave out one of them")
    return config
