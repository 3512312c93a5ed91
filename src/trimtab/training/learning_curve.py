"""The learning curve of a run and the area under it: one definition, used wherever either is shown or compared.

Training is cut into equal bins of environment steps. A bin's value is the mean return of the episodes that end in it,
so that nothing lags, and no more with more environments. Where no episode ends in a bin, it has the value of the bin
before (of the first that has one, at the start). The area is the mean over bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trimtab.core.estimate import Estimate
from trimtab.math import stats

BINS = 50
QUARTER = 8  # episodes that a quarter of a run must have to say whether returns rose


class Curve(NamedTuple):
    """The middle of every bin, its value, and whether an episode ended in it."""

    step: np.ndarray
    value: np.ndarray
    ended: np.ndarray

    @property
    def area(self) -> float | None:
        """The mean over bins; None where no episode ended at all."""
        return float(self.value.mean()) if self.ended.any() else None

    @property
    def staircase(self) -> bool:
        """Whether most bins only repeat the one before: episodes end together, or seldom."""
        return bool(self.ended.mean() < 0.5)


def rise(returns: np.ndarray) -> Estimate | None:
    """How much more the last quarter of the episodes returned than the first, ± 3 standard errors.

    None where they are too few to say: of two or three episodes three errors are no bound at all.
    """
    quarter = len(returns) // 4
    return None if quarter < QUARTER else stats.difference(returns[:quarter], returns[-quarter:])


def learning_curve(ends: ArrayLike, returns: ArrayLike, steps: int, bins: int = BINS) -> Curve:
    """The curve of episodes that ended at these environment steps with these returns, in a run of `steps` so far."""
    ends, returns = np.asarray(ends), np.asarray(returns, dtype=float)
    steps = max(int(steps), 1)
    bins = min(bins, steps)
    where = np.clip((ends - 1) * bins // steps, 0, bins - 1).astype(int)
    count = np.bincount(where, minlength=bins)
    ended = count > 0
    value = np.full(bins, np.nan)
    value[ended] = np.bincount(where, returns, bins)[ended] / count[ended]
    if ended.any():
        last = np.maximum.accumulate(np.where(ended, np.arange(bins), -1))
        value = value[np.where(last < 0, ended.argmax(), last)]
    return Curve((np.arange(bins) + 0.5) * steps / bins, value, ended)
