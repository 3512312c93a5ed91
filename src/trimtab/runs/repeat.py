"""Running a configuration again, to compare every metric bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab import config as configuration
from trimtab.runs.loop import train
from trimtab.runs.records import RunDir, new_path


def repeat(path: str | Path, run_dir: str | Path | None = None, quiet: bool = True) -> dict[str, Any]:
    """Run a configuration again and compare every metric outside time/, bit for bit."""
    first = RunDir.open(path)
    config = configuration.from_dict(first.config())
    target = Path(run_dir) if run_dir else new_path(first.path.parent, "", f"{first.path.name}-repeat", config.seed)
    again = train(config, target, quiet=quiet)
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
