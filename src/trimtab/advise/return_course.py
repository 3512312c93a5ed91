"""How returns went over training: what they gained since the start, and whether they fell again.

Single episodes are compared where they are recorded. Where a log has only running means over the last 100 episodes,
neighbors share episodes, so means that share none are compared.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trimtab.core.estimate import Estimate
from trimtab.math import stats
from trimtab.training.run import QUARTER

WINDOW = 100  # episodes of a running mean
FEWEST_MEANS = 4  # that share no episode
START, FEWEST_AT_START = 0.1, 100  # of the episodes; at least so many, where a quarter has as many
PARTS = 10  # of training, whose best is compared with the last
COLLAPSE = 0.5  # of what was gained
ERRORS = 3.0  # standard errors
TREND = 1.645  # normal score of a rise


class ReturnCourse(NamedTuple):
    """Returns at the start, at their best and at the end, with ± three standard errors."""

    start: float
    best: float
    end: float
    gain: Estimate
    """The last quarter minus the start."""
    fall: Estimate
    """The end minus the best part of training."""
    spread: float
    """Standard deviation of single episodes."""
    of_means: bool = False
    """Whether only running means are recorded."""
    trend: bool = False
    """Whether these rise by Mann and Kendall's test."""

    @property
    def collapsed(self) -> bool:
        """Whether at least half of what was gained was lost again, significantly."""
        return self.fall.hi < 0 and self.end < self.best - COLLAPSE * (self.best - self.start)

    @property
    def improves(self) -> bool:
        """Whether returns rose significantly and stayed up."""
        return (self.gain.lo > 0 or (self.trend and self.gain.value > 0)) and not self.collapsed


def course_of_episodes(returns: np.ndarray) -> ReturnCourse | None:
    """The course of single returns.

    Args:
        returns: of finished episodes, in order.

    Returns:
        The first tenth (100 episodes if a quarter has as many) against the last quarter; None below 32 episodes.
    """
    count, quarter = len(returns), len(returns) // 4
    if quarter < QUARTER:
        return None
    start, last = returns[: min(quarter, max(FEWEST_AT_START, int(START * count)))], returns[-quarter:]
    parts = np.array_split(returns, max(4, min(PARTS, count // QUARTER)))
    best = max(parts, key=lambda part: float(part.mean()))
    fall = Estimate(0.0, 0.0, 0.0) if best is parts[-1] else stats.difference(best, parts[-1])
    spread = float(np.sqrt((start.var(ddof=1) + last.var(ddof=1)) / 2))
    means = (float(start.mean()), float(best.mean()), float(parts[-1].mean()))
    return ReturnCourse(*means, stats.difference(start, last), fall, spread)


def course_of_means(means: np.ndarray, episodes: np.ndarray) -> ReturnCourse | None:
    """The course of running means.

    The error of one mean comes from the differences of neighbors that share no episode: 1.48 median |Δ| / √2 for the
    gain, √(mean Δ²/2) for a fall. Learning adds to both, so they are too large rather than too small.

    Args:
        means: over the last 100 episodes, in order [K].
        episodes: that had finished by then, about [K].

    Returns:
        The first against the last quarter of such means; None for fewer than four.
    """
    thin = means[_apart(episodes)]
    if len(thin) < FEWEST_MEANS:
        return None
    moves = np.abs(np.diff(thin)) / np.sqrt(2)
    most = float(np.sqrt(np.mean(moves**2)))
    error = max(1.4826 * float(np.median(moves)), most / 2)
    quarter = len(thin) // 4
    parts = [float(part.mean()) for part in np.array_split(thin, min(len(thin), PARTS))]
    start, best, end = float(thin[0]), max(parts), parts[-1]
    gain = _within(float(thin[-quarter:].mean()) - start, error * np.sqrt(1 + 1 / quarter))
    fall = _within(end - best, most * np.sqrt(2 / max(1, len(thin) // PARTS)))
    return ReturnCourse(start, best, end, gain, fall, float(most * np.sqrt(WINDOW)), True, _rises(thin))


def _rises(values: np.ndarray) -> bool:
    """Mann and Kendall's test of a rise, one-sided at 5%: S = Σ_{i<j} sign(m_j − m_i), Var S = n (n − 1)(2n + 5)/18."""
    count = len(values)
    score = sum(float(np.sign(values[k + 1 :] - values[k]).sum()) for k in range(count - 1))
    return (score - 1) / math.sqrt(count * (count - 1) * (2 * count + 5) / 18) > TREND


def _apart(episodes: np.ndarray) -> list[int]:
    """Places from the last to the first, each at least a window of episodes before the next; then in order."""
    places: list[int] = []
    for k in range(len(episodes) - 1, -1, -1):
        if not places or episodes[places[-1]] - episodes[k] >= WINDOW:
            places.append(k)
    return places[::-1]


def _within(value: float, error: float) -> Estimate:
    return Estimate(value, value - ERRORS * float(error), value + ERRORS * float(error))
