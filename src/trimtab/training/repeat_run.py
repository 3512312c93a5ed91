"""Running a configuration again, to compare every metric bit for bit."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.config.device_shares import with_devices
from trimtab.core.writing import numbered_path
from trimtab.training import device
from trimtab.training.loop import resume, train
from trimtab.training.records import RunDir
from trimtab.training.run import Run
from trimtab.training.warm_start import StartCheckpoint, devices_of, segments_of


def repeat(path: str | PathLike[str], run_dir: str | PathLike[str] | None = None, quiet: bool = True) -> dict[str, Any]:
    """Run a configuration again, segment by segment as it ran, and compare every metric outside time/, bit for bit."""
    first = RunDir.open(path)
    config = configuration.from_dict(first.config())
    target = Path(run_dir) if run_dir else numbered_path(first.path.parent, f"{first.path.name}-repeat")
    again = _again(first, config, target, quiet)
    was, now = first.metrics(), again.files.metrics()
    compared = 0
    for a, b in zip(was, now):
        for name in sorted(a.keys() | b.keys()):
            if name.startswith("time/"):
                continue
            compared += 1
            if a.get(name) != b.get(name):
                difference = {
                    "metric": name,
                    "iteration": a["iteration"],
                    "was": a.get(name),
                    "now": b.get(name),
                }
                return {"identical": False, "first_difference": difference, "run": str(again.path)}
    if len(was) != len(now):
        difference = {
            "metric": "number of iterations",
            "iteration": min(len(was), len(now)),
            "was": len(was),
            "now": len(now),
        }
        return {"identical": False, "first_difference": difference, "run": str(again.path)}
    return {"identical": True, "compared": compared, "iterations": len(was), "run": str(again.path)}


def _again(first: RunDir, config: Config, target: Path, quiet: bool) -> Run:
    """The same segments once more; a run that began with another's parameters has them in its first checkpoint."""
    segments = segments_of(first, config)
    lengths = [segment["total_timesteps"] for segment in segments]
    stops = [*(segment["step"] for segment in segments[1:]), None]
    begun_from = first.manifest().get("started_from")
    start = StartCheckpoint.from_run(first.path, 0, "optimizer state" in begun_from["taken"]) if begun_from else None
    devices = [devices_of(segment) for segment in segments]
    device.prepare(devices=max(devices))
    config = with_devices(config.replace(total_timesteps=lengths[0]), devices[0])
    run = train(config, target, quiet=quiet, start=start, until=stops[0], say=_silent)
    for length, count, stop in zip(lengths[1:], devices[1:], stops[1:]):
        run = resume(target, total_timesteps=length, devices=count, quiet=quiet, until=stop, say=_silent)
    return run


def _silent(text: str) -> None:
    pass
