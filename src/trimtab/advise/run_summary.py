"""A run as one plain dictionary, with what the doctor says of it: what pages of runs are made from."""

from __future__ import annotations

from typing import Any

from trimtab.advise import solved
from trimtab.advise.diagnosis import diagnose
from trimtab.training.run import Run


def described(run: Run, name: str | None = None) -> dict[str, Any]:
    """Name, path, configuration, records, findings (each with its series), summary, goal."""
    diagnosis, goal = diagnose(run), solved.goal(run.config)
    return {
        "name": name or run.path.name,
        "path": str(run.path),
        "config": run.config.as_dict(),
        "manifest": run.files.manifest().as_dict(),
        "metrics": [row.as_dict() for row in run.files.metrics()],
        "evaluations": [evaluation.as_dict() for evaluation in run.files.all_evaluations()],
        "checkpoints": [checkpoint.step for checkpoint in run.checkpoints],
        "findings": [finding.as_dict() | {"series": finding.series} for finding in diagnosis.findings],
        "sentence": diagnosis.sentence,
        "command": diagnosis.command,
        "summary": run.summary().as_dict(),
        "goal": goal.threshold if goal else None,
    }
