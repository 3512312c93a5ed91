"""`trimtab resume`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trimtab.config import ConfigError
from trimtab.core.errors import RunError
from trimtab.core.fields import Place, option
from trimtab.core.options import given
from trimtab.envs.own_environments import Constructor
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.sources import Progressing, run_of
from trimtab.operations.train import ExecutionIfGiven, HostFlags, refuse_for_one_run, show_trained
from trimtab.studies.study_engine import ExecutionOptions, began
from trimtab.training.run import Run
from trimtab.training.run_dir import RunDir

EARLIER = ("split.json", "tune.json")  # what marked the directory of a split or tuning before there were studies
OF_RUNS = ("tensorboard", "track", "checkpoints")


@dataclass(frozen=True)
class Resume(Progressing):
    """What to resume."""

    run: Run | Place
    """Directory of a run or a study; in Python a Run or its directory."""
    _: KW_ONLY
    env: Constructor | None = option(None, shown=False)
    """Makes the environment, where the run was given one that no other process can import."""
    total_timesteps: int | None = None
    """New length of a run, in environment steps (default: as it was). From its last checkpoint on, annealing follows
    the new length."""
    devices: int | None = None
    """New number of devices of a run (default: as it was); the results are then not the same bit for bit."""
    checkpoints: int | None = option(None, low=1)
    """Checkpoints over the run, evenly spaced; if not given 20, or fewer where they would take more than 512 MB."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases (WANDB_MODE=offline works)."""


@dataclass(frozen=True)
class ResumeFlags(HostFlags, ExecutionIfGiven):
    """Where a run or study is resumed."""


def _command(declared: Operation, call: Call) -> int | None:
    """The command also resumes studies, and shares a run between processes."""
    options, place = call.options(), call.given["run"]
    for name in ("total_timesteps", "devices"):
        if (value := getattr(options, name)) is not None and not RunDir.began(place) and Path(place).exists():
            raise ConfigError(name, value, "only a run can be given another; leave it out")
    if began(place):
        asked = {name: getattr(options, name) for name in OF_RUNS} | {"hosts": call.flags.hosts}
        for name, value in asked.items():
            if value:
                raise ConfigError(name, value, "is for a run; a study resumes as it started: leave it out")
        return _resume_study(Path(place), call)
    _refuse_earlier(Path(place))
    refuse_for_one_run(call.flags)
    return call.flags.share(partial(_resume_and_show, options, call))


def _resume_and_show(options: Resume, call: Call, speaks: bool) -> None:
    say: dict[str, Any] = {} if speaks else {"say": lambda text: None, "quiet": True}
    run = _resume(options, call.given["run"], **say)
    if speaks:
        show_trained(run, call)


def _resume_study(path: Path, call: Call) -> int:
    from trimtab.experiments import catalogue
    from trimtab.operations.study import show_study

    where = ExecutionOptions(**given(call.flags, ExecutionOptions))
    return show_study(catalogue.resume(path, where, call.quiet), call.json)


def _refuse_earlier(path: Path) -> None:
    """A split or tuning of an earlier version: finished ones can be looked at, others have to be run again."""
    if any((path / name).is_file() for name in EARLIER):
        done = f"it is finished: look at {path / 'page.html'}" if (path / "result.json").is_file() else "run it again"
        raise RunError(f"{path} was made by an earlier version; {done} (its runs open as they are)")


@operation("resume", Resume, show_trained, flags=ResumeFlags, command=_command)
def resume(options: Resume) -> Run:
    """Resume a run from its newest checkpoint.

    Returns:
        The run.
    """
    return _resume(options, run_of(options.run).path)


def _resume(options: Resume, path: Place, **more: Any) -> Run:
    from trimtab.training import loop

    chosen = {"quiet": options.silent, "checkpoints": options.checkpoints}
    chosen |= {"tensorboard": options.tensorboard, "track": options.track}
    return loop.resume(
        path, options.env, total_timesteps=options.total_timesteps, devices=options.devices, **chosen | more
    )
