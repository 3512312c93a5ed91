"""A run with what the doctor says of it: what pages and comparisons are made from."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.advise import solved
from trimtab.advise.diagnosis import Diagnosis, diagnose
from trimtab.config import Config
from trimtab.training.records import Evaluation, Manifest, MetricsRow
from trimtab.training.run import Run


@dataclass(frozen=True)
class RunView:
    """A run's records and diagnosis, whichever library trained it."""

    name: str
    path: str
    config: Config
    diagnosis: Diagnosis
    metrics: list[MetricsRow]
    evaluations: list[Evaluation]
    checkpoints: tuple[int, ...] = ()
    """Their environment steps."""
    manifest: Manifest | None = None
    area: float | None = None
    """Under the learning curve."""
    next: tuple[str, str] | None = None
    """A command and what it is for, where it is not the usual one."""

    @property
    def steps(self) -> int:
        """Environment steps taken."""
        return self.metrics[-1].step if self.metrics else 0

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last 100 episodes."""
        return self.metrics[-1].mean_return if self.metrics else None

    @property
    def fps(self) -> float:
        """Environment steps per second of training."""
        return round(self.metrics[-1].fps, 1) if self.metrics else 0.0

    @property
    def is_solved(self) -> bool:
        """Whether it reached the target return of its environment."""
        return any(finding.verdict == "solved" for finding in self.diagnosis.findings)

    @property
    def goal(self) -> float | None:
        """The target return of its environment."""
        goal = solved.goal(self.config)
        return goal.threshold if goal else None


def describe(run: Run, name: str | None = None) -> RunView:
    """A run's records and diagnosis.

    Args:
        run: a run, finished or not.
        name: what to call it, if not by the last part of its path.

    Returns:
        What pages show of it.
    """
    return RunView(
        name=name or run.path.name,
        path=str(run.path),
        config=run.config,
        diagnosis=diagnose(run),
        metrics=run.files.metrics(),
        evaluations=run.files.all_evaluations(),
        checkpoints=tuple(checkpoint.step for checkpoint in run.checkpoints),
        manifest=run.files.manifest(),
        area=run.area,
    )
