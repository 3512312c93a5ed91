"""The learning curve of a run as studies score it: of the whole training, also where the run broke down in it."""

from __future__ import annotations

from trimtab.core.errors import RunError
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.training.learning_curve import LearningCurve
from trimtab.training.run_dir import RunDir

BROKEN = (
    "A run whose numbers stop being finite counts with its curve up to there and with the return it began with from "
    "there on; other failures are left out and listed."
)


def course(outcome: Outcome) -> LearningCurve | None:
    """The curve of a training job; None where no return is known, or it failed for other reasons than its numbers.

    A run that stopped because its numbers were not finite any more has, from there on, the return it began with: left
    out, it would flatter whatever broke it.
    """
    try:
        run = RunDir.open(outcome.path)
        rows, curve = run.metrics(), run.learning_curve()
    except (OSError, RunError):
        return None
    if not rows or not (outcome.done or rows[-1].not_finite):
        return None
    stop = rows[-1].step
    assert isinstance(outcome.job, Train)
    if not curve.seen.any():
        return None
    return curve if outcome.done else curve.broken_at(stop, max(stop, outcome.job.config.total_timesteps))
