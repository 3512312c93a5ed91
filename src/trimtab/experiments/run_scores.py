"""The learning curve of a run as studies score it: of the whole training, also where the run broke down in it."""

from __future__ import annotations

import numpy as np

from trimtab.core.errors import RunError
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.training.run import Curve, learning_curve
from trimtab.training.run_dir import RunDir

BROKEN = (
    "A run whose numbers stop being finite counts with its curve up to there and with the return it began with from "
    "there on; other failures are left out and listed."
)


def course(outcome: Outcome) -> Curve | None:
    """The curve of a training job; None where no episode ended, or it failed for another reason than its numbers.

    A run that stopped because its numbers were not finite any more has, from there on, the return it began with: left
    out, it would flatter whatever broke it.
    """
    try:
        run = RunDir.open(outcome.path)
        rows, episodes = run.metrics(), run.episodes()
    except (OSError, RunError):
        return None
    if not rows or not (outcome.done or rows[-1].not_finite):
        return None
    stop = rows[-1].step
    assert isinstance(outcome.job, Train)
    whole = stop if outcome.done else max(stop, outcome.job.config.total_timesteps)
    curve = learning_curve(episodes["step"].to_numpy(), episodes["return"].to_numpy(), whole)
    if not curve.ended.any():
        return None
    return curve._replace(value=np.where(curve.step < stop, curve.value, curve.value[0]))
