"""Running a configuration again, to compare every metric bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab.config.device_shares import with_devices
from trimtab.core.json_values import JsonMapping, to_json
from trimtab.core.writing import numbered_path
from trimtab.training import device
from trimtab.training.loop import resume, train
from trimtab.training.records import MetricsRow
from trimtab.training.run import Run
from trimtab.training.run_dir import RunDir
from trimtab.training.warm_start import WarmStart


@dataclass(frozen=True)
class Difference:
    """The first number that differs between two runs; None where a run has none."""

    metric: str
    iteration: int
    was: float | list[str] | None
    now: float | list[str] | None


@dataclass(frozen=True, eq=False)
class Repetition(JsonMapping):
    """A run and its repetition, compared."""

    identical: bool
    run: str
    """Directory of the repetition."""
    first_difference: Difference | None = None
    compared: int = 0
    """Numbers that were compared and found equal."""
    iterations: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: what was compared, or the first difference."""
        if self.identical:
            return {"identical": True, "compared": self.compared, "iterations": self.iterations, "run": self.run}
        return {"identical": False, "first_difference": to_json(self.first_difference), "run": self.run}


def repeat(path: str | PathLike[str], run_dir: str | PathLike[str] | None = None, quiet: bool = True) -> Repetition:
    """Run a configuration again, segment by segment as it ran, and compare every metric outside time/, bit for bit.

    Args:
        path: the run.
        run_dir: where the repetition goes; a new directory beside the run if None.
        quiet: show no progress.

    Returns:
        Whether they are identical, or where they differ first.
    """
    first = RunDir.open(path)
    target = Path(run_dir) if run_dir else numbered_path(first.path.parent, f"{first.path.name}-repeat")
    again = _train_again(first, target, quiet)
    was, now = first.metrics(), again.files.metrics()
    compared = 0
    for a, b in zip(was, now):
        then, here = _comparable(a), _comparable(b)
        for name in sorted(then.keys() | here.keys()):
            compared += 1
            if then.get(name) != here.get(name):
                difference = Difference(name, a.iteration, then.get(name), here.get(name))
                return Repetition(False, str(again.path), difference)
    if len(was) != len(now):
        difference = Difference("number of iterations", min(len(was), len(now)), len(was), len(now))
        return Repetition(False, str(again.path), difference)
    return Repetition(True, str(again.path), None, compared, len(was))


def _comparable(row: MetricsRow) -> dict[str, float | list[str]]:
    """The entries of a row that must be equal."""
    return {name: value for name, value in row.as_dict().items() if not name.startswith("time/")}


def _train_again(first: RunDir, target: Path, quiet: bool) -> Run:
    """The same segments once more; a run that began with another's parameters has them in its first checkpoint."""
    config, manifest = first.config(), first.manifest()
    segments = manifest.segments_of(config)
    stops = [*(segment.step for segment in segments[1:]), None]
    start = None
    if manifest.started_from:
        start = WarmStart.from_run(first.path, 0, "optimizer state" in manifest.started_from.taken)
    device.prepare(devices=max(segment.devices for segment in segments))
    length, count = segments[0].total_timesteps, segments[0].devices
    config = with_devices(config.replace(total_timesteps=length), count)
    run = train(config, target, quiet=quiet, start=start, until=stops[0], say=_ignore)
    for segment, stop in zip(segments[1:], stops[1:]):
        length, count = segment.total_timesteps, segment.devices
        run = resume(target, total_timesteps=length, devices=count, quiet=quiet, until=stop, say=_ignore)
    return run


def _ignore(text: str) -> None:
    pass
