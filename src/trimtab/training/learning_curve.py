"""The learning curve of a run and the area under it: one definition, used wherever either is shown or compared.

J(s) is the expected return of the policy after s environment steps; the area is the mean of J over training. Two
measures of J exist, and every curve says which one it is:

- *evaluated*: fresh episodes of the current policy at equally spaced steps. It does not depend on N.
- *credited*: the returns of training episodes, each credited to the steps in which it was earned. An episode of L steps
  in one of N environments spans L × N steps of the run. It smears a change of the policy over that span, so it serves
  only where no evaluations exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from trimtab.core.estimate import Estimate
from trimtab.training.records import Evaluation

if TYPE_CHECKING:
    import polars as pl

BINS = 50
Measure = Literal["evaluated", "credited"]


@dataclass(frozen=True)
class LearningCurve:
    """Returns over training.

    Args:
        step: environment steps, [K] in increasing order.
        value: J at those steps [K]; NaN everywhere where nothing is known.
        seen: whether data lie at a step [K]; where not, the value before it is repeated.
        measure: evaluated or credited.
    """

    step: Float[np.ndarray, " K"]
    value: Float[np.ndarray, " K"]
    seen: Bool[np.ndarray, " K"]
    measure: Measure

    @property
    def area(self) -> float | None:
        """The mean of J over training: by the trapezoid rule for evaluations, over bins for credited returns."""
        if not self.seen.any():
            return None
        if self.measure == "credited" or len(self.step) == 1:
            return float(self.value.mean())
        return float(np.trapezoid(self.value, self.step) / (self.step[-1] - self.step[0]))

    def final(self, share: float) -> float | None:
        """The mean of J over the last `share` of training; at least its last point."""
        if not self.seen.any():
            return None
        last = self.value[self.step > (1 - share) * self.step[-1]]
        return float(last.mean() if len(last) else self.value[-1])

    def broken_at(self, stop: float, end: float) -> LearningCurve:
        """The curve of a run that broke down at step `stop` of `end`: from there on its return is the first one."""
        kept = self.step < stop
        rest = np.array([stop, end], float)
        if self.measure == "credited":  # bins of the same width
            width = stop / len(self.step)
            rest = np.arange(stop + width / 2, end, width)
        step = np.concatenate([self.step[kept], rest])
        value = np.concatenate([self.value[kept], np.full(len(rest), self.value[0])])
        return LearningCurve(step, value, np.ones(len(step), bool), self.measure)

    @property
    def unseen(self) -> float:
        """The share of training for which the curve repeats an earlier value."""
        return float(1 - self.seen.mean())


def curve_of(evaluations: Sequence[Evaluation], episodes: pl.DataFrame, num_envs: int, steps: int) -> LearningCurve:
    """The learning curve of a run.

    Args:
        evaluations: those that training made.
        episodes: finished training episodes (step, return, length).
        num_envs: N.
        steps: environment steps of the run so far.

    Returns:
        The evaluated curve where evaluations cover training from its start; else the credited one.
    """
    known = [row for row in evaluations if row.sampled_reward is not None]
    if len(known) > 1 and known[0].step == 0:
        return evaluated_curve([row.step for row in known], [row.sampled_reward or 0.0 for row in known])
    ends, lengths, returns = (episodes[name].to_numpy() for name in ("step", "length", "return"))
    return credited_curve(ends, lengths, returns, num_envs, steps)


def evaluated_rise(evaluations: Sequence[Evaluation]) -> Estimate | None:
    """How much more the policy returned in the last quarter of its evaluations than in the first, ± 3 standard errors.

    Args:
        evaluations: those that training made.

    Returns:
        The rise; None where training was not evaluated from its start.
    """
    known = [row for row in evaluations if row.sampled_reward is not None and row.sampled_std is not None]
    if len(known) < 2 or known[0].step != 0:
        return None
    first, last = known[:1], known[-max(1, len(known) // 4) :]
    means = [float(np.mean([row.sampled_reward or 0.0 for row in part])) for part in (first, last)]
    errors = [np.mean([(row.sampled_std or 0.0) ** 2 for row in part]) for part in (first, last)]
    counts = [sum(max((row.episodes or 1) - 1, 1) for row in part) for part in (first, last)]
    error = 3 * math.sqrt(sum(square / count for square, count in zip(errors, counts)))
    rise = means[1] - means[0]
    return Estimate(rise, rise - error, rise + error)


def evaluated_curve(steps: ArrayLike, means: ArrayLike) -> LearningCurve:
    """The curve of evaluations.

    Args:
        steps: environment steps at which the policy was evaluated [K].
        means: mean return of the policy as it acts (sampled actions) at each [K].

    Returns:
        The curve, in order of steps.
    """
    order = np.argsort(np.asarray(steps, float), kind="stable")
    values = np.asarray(means, float)[order]
    return LearningCurve(np.asarray(steps, float)[order], values, np.ones(len(values), bool), "evaluated")


def credited_curve(
    ends: ArrayLike, lengths: ArrayLike, returns: ArrayLike, num_envs: int, steps: int, bins: int = BINS
) -> LearningCurve:
    """The curve of training episodes, each credited to the steps in which it was played.

    An episode from step a to step b contributes its return with density 1/(b - a) to [a, b], and J of a bin is the
    weighted mean. The weights undo that long episodes cover more steps, so for a policy that does not change every bin
    expects the mean return per episode, whatever N. The curve repeats its last value where only episodes that have not
    ended were played.

    Args:
        ends: environment steps of the whole run at which episodes ended [E].
        lengths: their lengths in steps of one environment [E].
        returns: their returns [E].
        num_envs: N.
        steps: environment steps of the run so far.
        bins: equal bins of the curve.

    Returns:
        The curve at the middle of each bin. Cost is linear in E.
    """
    b, worth = np.asarray(ends, float), np.asarray(returns, float)
    a = np.maximum(b - np.asarray(lengths, float) * num_envs, 0.0)
    steps = max(int(steps), 1)
    bins = min(bins, steps)
    edges = np.arange(bins + 1) * (steps / bins)
    density = 1.0 / np.maximum(b - a, 1e-9)
    weight = _covered(a, b, density, edges)
    total = _covered(a, b, density * worth, edges)
    seen = weight > 1e-9 * max(float(weight.max(initial=0.0)), 1e-300)
    value = np.full(bins, np.nan)
    value[seen] = total[seen] / weight[seen]
    if seen.any():
        last = np.maximum.accumulate(np.where(seen, np.arange(bins), -1))
        value = value[np.where(last < 0, seen.argmax(), last)]
    return LearningCurve((edges[:-1] + edges[1:]) / 2, value, seen, "credited")


def _covered(
    a: Float[np.ndarray, " E"], b: Float[np.ndarray, " E"], density: Float[np.ndarray, " E"], edges: np.ndarray
) -> Float[np.ndarray, " bins"]:
    """Σ over episodes of density × |[a, b] ∩ bin|, for every bin.

    An episode adds density to the slope of the running integral at a and takes it away at b. What happens inside a bin
    is corrected by the distance to the bin's right edge.
    """
    bins, width = len(edges) - 1, edges[1] - edges[0]
    slope, partial = np.zeros(bins), np.zeros(bins)
    for points, sign in ((a, 1.0), (b, -1.0)):
        inside = points < edges[-1]
        where = np.clip((points[inside] / width).astype(int), 0, bins - 1)
        signed = sign * density[inside]
        slope += np.bincount(where, signed, bins)
        partial += np.bincount(where, signed * (edges[where + 1] - points[inside]), bins)
    before = np.concatenate([[0.0], np.cumsum(slope)[:-1]])
    return before * width + partial
