"""`trimtab resume`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trimtab.config import ConfigError
from trimtab.core.errors import RunError
from trimtab.operations import flags
from trimtab.operations.host_processes import HostFlags, asked, together
from trimtab.operations.shared import Output, filled, parser
from trimtab.operations.train import finish, refuse_for_one_run, refuse_no_checkpoints
from trimtab.studies.study_engine import ExecutionOptions, began
from trimtab.training.run_dir import RunDir

EARLIER = ("split.json", "tune.json")  # what marked the directory of a split or tuning before there were studies


def resume(argv: list[str]) -> int:
    command_parser = parser(
        "resume", HostFlags, Output, ExecutionOptions, positional="run", help="directory of a run or a study"
    )
    command_parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    command_parser.add_argument("--track", action="store_true", help="also log to Weights & Biases")
    command_parser.add_argument("--checkpoints", type=int, default=None, help="checkpoints over the run, as in train")
    command_parser.add_argument(
        "--total-timesteps",
        metavar="INT",
        help="make a run this long; from its last checkpoint on, annealing follows the new length",
    )
    command_parser.add_argument(
        "--devices", metavar="INT", help="go on with a run on this many devices (not bit for bit)"
    )
    arguments = command_parser.parse(argv)
    devices = flags.parse("devices", int, arguments.devices)
    total = flags.parse("total_timesteps", int, arguments.total_timesteps)
    output, where = filled(Output, arguments), filled(ExecutionOptions, arguments)
    refuse_no_checkpoints(arguments.checkpoints)
    for name, value in (("total_timesteps", total), ("devices", devices)):
        if value is not None and not RunDir.began(arguments.run) and Path(arguments.run).exists():
            raise ConfigError(name, value, "only a run can be given another; leave it out")
    if began(arguments.run):
        for name in ("tensorboard", "track", "checkpoints", "hosts"):
            if value := getattr(arguments, name, None):
                raise ConfigError(name, value, "is for a run; a study goes on as it was begun: leave it out")
        return _resume_study(Path(arguments.run), where, output)
    _refuse_earlier(Path(arguments.run))
    refuse_for_one_run(arguments)
    hosts, work = asked(arguments), partial(_resume_one, arguments, total, devices, output)
    return together(hosts, work) if hosts.hosts else work(True)


def _silent(text: str) -> None:
    """What another process says already."""


def _resume_one(arguments, total: int | None, devices: int | None, output: Output, speaks: bool) -> int:
    from trimtab.training import loop

    run = loop.resume(
        arguments.run,
        total_timesteps=total,
        devices=devices,
        quiet=output.quiet or output.json or not speaks,
        checkpoints=arguments.checkpoints,
        tensorboard=arguments.tensorboard,
        track=arguments.track,
        say=loop.to_stderr if speaks else _silent,
    )
    return finish(run, output) if speaks else 0


def _resume_study(path: Path, where: ExecutionOptions, output: Output) -> int:
    from trimtab.experiments import catalogue
    from trimtab.operations.study import finish_study

    return finish_study(catalogue.resume(path, where, output.quiet or output.json), output)


def _refuse_earlier(path: Path) -> None:
    """A split or tuning of an earlier version: finished ones are looked at, others begun again."""
    if any((path / name).is_file() for name in EARLIER):
        done = f"it is finished: look at {path / 'page.html'}" if (path / "result.json").is_file() else "begin it again"
        raise RunError(f"{path} was made by an earlier version; {done} (its runs open as they are)")
