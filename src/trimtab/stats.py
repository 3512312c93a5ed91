"""Statistics for comparing runs: van Elteren's test, interquartile means, intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

ALTERNATIVES = ("two-sided", "greater", "less")


class VanElteren(NamedTuple):
    """The normal score of the test (positive when the first group is larger) and its p-value."""

    z: float
    p: float


class Interval(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    lo: float
    hi: float


def van_elteren(strata: Sequence[tuple[ArrayLike, ArrayLike]], alternative: str = "two-sided") -> VanElteren:
    """Wilcoxon's rank-sum test over strata [(x, y), ...], for example environments (van Elteren, 1960).

    Z = Σ w (R − m (N+1)/2) / √(Σ w² V),   w = 1/(N+1),   V = m n / 12 [(N+1) − Σ(t³ − t) / (N (N−1))]
    R: rank sum of x, of size m; y of size n; N = m + n; midranks; t: sizes of groups of equal values.
    """
    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative: {alternative!r} is not one of {', '.join(ALTERNATIVES)}")
    score, variance = 0.0, 0.0
    for x, y in _groups(strata):
        total = len(x) + len(y)
        values = np.concatenate([x, y])
        ties = np.unique(values, return_counts=True)[1].astype(float)
        rank_sum = stats.rankdata(values)[: len(x)].sum()
        correction = np.sum(ties**3 - ties) / (total * (total - 1))
        score += (rank_sum - len(x) * (total + 1) / 2) / (total + 1)
        variance += len(x) * len(y) / 12 * (total + 1 - correction) / (total + 1) ** 2
    z = score / np.sqrt(variance) if variance > 0 else 0.0
    p = {"two-sided": 2 * stats.norm.sf(abs(z)), "greater": stats.norm.sf(z), "less": stats.norm.cdf(z)}
    return VanElteren(float(z), float(p[alternative]))


def max_attainable_z(strata: Sequence[tuple[ArrayLike, ArrayLike]]) -> float:
    """The Z of van_elteren if every x were above every y, without ties: the most these sizes can show.

    Σ w m n / 2 / √(Σ w² m n (N+1) / 12)
    """
    sizes = np.array([(len(x), len(y)) for x, y in _groups(strata)], dtype=float)
    product, rank_range = sizes.prod(axis=1), sizes.sum(axis=1) + 1
    return float(np.sum(product / rank_range) / 2 / np.sqrt(np.sum(product / rank_range) / 12))


def _groups(strata) -> list[tuple[np.ndarray, np.ndarray]]:
    """The strata as arrays; refuses what has no ranks."""
    groups = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in strata]
    if not groups:
        raise ValueError("strata: none given, at least one (x, y) needed")
    for k, (x, y) in enumerate(groups):
        if x.ndim != 1 or y.ndim != 1 or not len(x) or not len(y):
            raise ValueError(f"strata: stratum {k} has sizes {x.shape} and {y.shape}, two non-empty lists needed")
        if np.isnan(x).any() or np.isnan(y).any():
            raise ValueError(f"strata: stratum {k} contains NaN")
    return groups


def iqm(x: ArrayLike) -> float:
    """Interquartile mean: the mean of what is left when ⌊n/4⌋ values are cut off at either end."""
    return float(stats.trim_mean(np.asarray(x, dtype=float), 0.25, axis=None))


def bootstrap_interval(
    x: ArrayLike,
    statistic: Callable[[np.ndarray], float],
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic of [seeds] or [seeds, tasks]; resampled task by task."""
    x = np.asarray(x, dtype=float)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(x), (num_resamples, *x.shape))
    resampled = [statistic(np.take_along_axis(x, rows, axis=0)) for rows in drawn]
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(resampled, [tail, 1 - tail])
    return Interval(float(statistic(x)), float(lo), float(hi))


def difference(first: ArrayLike, last: ArrayLike, errors: float = 3.0) -> Interval:
    """mean(last) − mean(first) ± so many standard errors √(s₁²/n₁ + s₂²/n₂): episodes of two parts of one run.

    Three errors, not two: episodes near each other are more alike than independent ones.
    """
    first, last = np.asarray(first, dtype=float), np.asarray(last, dtype=float)
    if min(len(first), len(last)) < 2:
        raise ValueError(f"first, last: sizes {len(first)} and {len(last)} given, at least two each needed")
    change = float(last.mean() - first.mean())
    half = errors * float(np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last)))
    return Interval(change, change - half, change + half)


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student's interval of a mean over seeds: mean ± t_{n−1} s / √n.

    Not a bootstrap: with three to ten seeds that is too narrow, and t is exact for Gaussian values.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"values: shape {values.shape} given, a list of at least two needed")
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values)
    return Interval(float(values.mean()), float(values.mean() - half), float(values.mean() + half))
