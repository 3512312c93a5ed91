"""`trimtab tune`."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.core.options import part
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Configured, describe_preset
from trimtab.operations.studying import Studying
from trimtab.studies.tune_result import TuneResult
from trimtab.studies.tune_study import Tune, TuneOptions, shortened


@dataclass(frozen=True)
class TuneSpec(TuneOptions, Configured, Studying):
    """What to tune."""

    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the results (default: runs/tune-ENV-K)."""


def _show(result: TuneResult, call: Call) -> None:
    show_tuning(result, call.json)


def show_tuning(result: TuneResult, as_json: bool) -> None:
    """Print the best configuration, and how it compares with the start."""
    if as_json:
        print_json(result)
        return
    from trimtab.show.tune_page import print_tuning

    print_tuning(result)


@operation("tune", TuneSpec, _show, before_help=describe_preset)
def tune(options: TuneSpec) -> TuneResult:
    """Tune by the playbook, one field at a time, and compare the best with the start on new seeds.

    Returns:
        The trials, the comparison, and the configuration that was tuned.
    """
    config = options.configuration()
    own_steps = config.total_timesteps
    if "total_timesteps" not in options.fields:
        config = shortened(config)
    command = options.source_command("tune")
    study = Tune(config, part(options, TuneOptions), command, own_steps)
    return options.carry_out(study, f"tune-{config.env_id}", options.run_dir)
