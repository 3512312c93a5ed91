"""What a study would cost: its runs, their environment steps, and hours from a short calibration on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from trimtab.config import Config
from trimtab.studies.declared import Declared
from trimtab.studies.executor import Inline, Queue
from trimtab.studies.job import Job, Train
from trimtab.studies.store import Store
from trimtab.studies.study import Where

CALIBRATED = 4  # iterations of each shape that are timed
ASSUMED = 2  # machines of how many cores the hours are given for, when nothing else is asked for


def cost_of(study: Declared, where: Where) -> dict[str, Any]:
    """Runs and steps of every shape of training, and the hours they would take at the speed measured here."""
    jobs = list(Queue(study.jobs()).waiting.values())
    shapes: dict[tuple, list[Job]] = {}
    for job in jobs:
        shapes.setdefault(_shape(job), []).append(job)
    rows = [_row(same, timed=len(shapes) <= 12) for same in shapes.values()]
    slow = [r["seconds_per_step"] for r in rows if r["seconds_per_step"]]
    usual = sum(slow) / len(slow) if slow else 0.0
    for row in rows:
        row["hours"] = (row["seconds_per_step"] or usual) * row["steps"] / 3600
    hours, workers = sum(row["hours"] for row in rows), where.workers or ASSUMED
    return {
        "study": study.kind,
        "size": study.size,
        "jobs": len(jobs),
        "steps": sum(job.steps for job in jobs),
        "hours": hours,
        "workers": workers,
        "hours_with_workers": hours / workers,
        "rows": sorted(rows, key=lambda r: -r["hours"]),
    }


def _shape(job: Job) -> tuple:
    config = getattr(job, "config", None)
    if isinstance(job, Train) and isinstance(config, Config):
        return job.kind, config.env_id, config.algo, config.num_envs, config.num_steps, config.minibatches
    return (job.kind, config.env_id if isinstance(config, Config) else "")


def _row(jobs: list[Job], timed: bool) -> dict[str, Any]:
    first = jobs[0]
    seconds = _measured(first) if timed and isinstance(first, Train) else None
    words = " ".join(map(str, _shape(first)[:3])) + (
        f" {first.config.num_envs}x{first.config.num_steps}" if isinstance(first, Train) else ""
    )
    return {"what": words, "jobs": len(jobs), "steps": sum(j.steps for j in jobs), "seconds_per_step": seconds}


def _measured(job: Train) -> float | None:
    """Seconds of one environment step of such a run: a few iterations, compiling not counted."""
    config = job.config.replace(
        total_timesteps=job.config.batch * max(CALIBRATED, 2 * job.config.policy_iterations * job.config.is_ppg)
    )
    with tempfile.TemporaryDirectory() as folder:
        outcome = next(iter(Inline().run([Train(config, checkpoints=1)], Store(Path(folder)))))
    return 1.0 / outcome.result["fps"] if outcome.done and outcome.result["fps"] else None


def print_cost(cost: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "jobs", "steps", "hours on one core", box=None, pad_edge=False)
    for row in cost["rows"]:
        table.add_row(row["what"], f"{row['jobs']:,}", f"{row['steps']:,}", f"{row['hours']:,.2f}")
    console = Console(highlight=False)
    console.print(f"\n{cost['study']} ({cost['size']}): {cost['jobs']:,} jobs, {cost['steps']:,} environment steps\n")
    console.print(table)
    console.print(
        f"\nabout {cost['hours']:,.1f} hours of one core at the speed measured here, "
        f"{cost['hours_with_workers']:,.1f} with {cost['workers']} workers"
    )
