"""Statistics for comparing runs: means over seeds, tests and effects over environments, how many seeds are enough.

Strata are environments; what is compared within one is never mixed with another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved

Values = Sequence[float] | np.ndarray  # one number for each seed
ALTERNATIVES = ("two-sided", "greater", "less")


class VanElteren(NamedTuple):
    """The normal score of the test (positive when the first group is larger) and its p-value."""

    z: float
    p: float


def van_elteren(strata: Sequence[tuple[Values, Values]], alternative: str = "two-sided") -> VanElteren:
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
        _, place, ties = np.unique(values, return_inverse=True, return_counts=True)
        midranks = np.cumsum(ties) - (ties - 1) / 2
        rank_sum = midranks[place][: len(x)].sum()
        correction = np.sum(ties**3 - ties) / (total * (total - 1))
        score += (rank_sum - len(x) * (total + 1) / 2) / (total + 1)
        variance += len(x) * len(y) / 12 * (total + 1 - correction) / (total + 1) ** 2
    z = score / np.sqrt(variance) if variance > 0 else 0.0
    p = {"two-sided": 2 * special.ndtr(-abs(z)), "greater": special.ndtr(-z), "less": special.ndtr(z)}
    return VanElteren(float(z), float(p[alternative]))


def max_attainable_z(strata: Sequence[tuple[Values, Values]]) -> float:
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


def z_needed(level: float, comparisons: int = 1) -> float:
    """The Z above which a one-sided test is significant at `level` among so many comparisons (Bonferroni)."""
    return float(-special.ndtri(level / comparisons))


def bonferroni(p: float, comparisons: int) -> float:
    """The p-value of one of several hypotheses, as if it had been picked for being the smallest: min(1, m p)."""
    return min(1.0, comparisons * float(p))


# Effects over environments ---------------------------------------------------------------------------------


def probability_of_improvement(
    strata: Sequence[tuple[Values, Values]], confidence: float = 0.95, num_resamples: int = 2000, seed: int = 0
) -> Estimate:
    """P(x > y) + P(x = y) / 2 of a seed of each kind, averaged over strata [(x, y), ...]; bootstrap interval."""
    groups = [group for pair in _groups(strata) for group in pair]
    return stratified_bootstrap(groups, _mean_superiority, confidence, num_resamples, seed)


def _mean_superiority(groups: Sequence[np.ndarray]) -> float:
    """Mean over consecutive pairs (x, y) of the share of pairs of seeds with x above y, ties counting half."""
    gaps = (np.sign(np.subtract.outer(x, y)) for x, y in zip(groups[::2], groups[1::2]))
    return float(np.mean([(1 + gap.mean()) / 2 for gap in gaps]))


def _check_confidence(*shares: float) -> None:
    for share in shares:
        if not 0 < share < 1:
            raise ValueError(f"confidence, power: {share} given, a share between 0 and 1 needed, for example 0.95")


class Ablation(NamedTuple):
    """Final normalized returns of one environment's seeds, at the largest batch and at a smaller one."""

    original_largest: Values
    original_smaller: Values
    ablated_largest: Values
    ablated_smaller: Values


def effect_size(environments: Sequence[Ablation], confidence: float = 0.95) -> Estimate:
    """How much more an ablation loses by a smaller batch: the effect size of Hilton et al. 2021, Table 5.

    mean over environments of (largest − smaller)_ablated − (largest − smaller)_original

    At the largest batch an ablation may change nothing: the same runs then stand on both sides, and cancel.
    """
    groups, weights = [], []
    for one in environments:
        shared = list(one.original_largest) == list(one.ablated_largest)
        groups += [one.original_smaller, one.ablated_smaller]
        weights += [1.0, -1.0]
        if not shared:
            groups += [one.original_largest, one.ablated_largest]
            weights += [-1.0, 1.0]
    return contrast(groups, np.divide(weights, max(len(environments), 1)), confidence)


def contrast(groups: Sequence[Values], weights: Values, confidence: float = 0.95) -> Estimate:
    """Σ_j c_j mean_j of independent groups with unlike spreads: ± t_ν √(Σ c_j² s_j² / n_j), ν by Welch–Satterthwaite.

    ν = (Σ u_j)² / Σ u_j² / (n_j − 1),   u_j = c_j² s_j² / n_j.   Not resolved with a group of one.
    """
    arrays, factors = [np.asarray(group, dtype=float) for group in groups], np.asarray(weights, dtype=float)
    if not arrays or not all(map(len, arrays)):
        raise ValueError("groups: none given, or an empty one")
    value = float(factors @ [group.mean() for group in arrays])
    _check_confidence(confidence)
    sizes = np.array([len(group) for group in arrays])
    if sizes.min() < 2 or not np.isfinite(value):
        return unresolved(value)
    parts = factors**2 * [group.var(ddof=1) for group in arrays] / sizes
    if not parts.any():
        return Estimate(value, value, value)
    freedom = float(parts.sum() ** 2 / np.sum(parts**2 / (sizes - 1)))
    half = float(special.stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(parts.sum()))
    return Estimate(value, value - half, value + half, freedom=freedom)


def stratified_bootstrap(
    groups: Sequence[Values],
    statistic: Callable[[Sequence[np.ndarray]], float],
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A statistic of lists of seeds, one list per environment, with its percentile interval; seeds stay in their list.

    Each resample draws n − 1 of n seeds with replacement: drawing n makes the variance of a mean too small by
    (n − 1) / n, a third with three seeds (Rao and Wu, 1988). Not resolved where a list has one seed.
    """
    arrays = [np.asarray(group, dtype=float) for group in groups]
    _check_confidence(confidence)
    value = float(statistic(arrays))
    if min(map(len, arrays)) < 2 or not all(np.isfinite(group).all() for group in arrays):
        return unresolved(value)
    rng = np.random.default_rng(seed)
    picks = [rng.integers(0, len(group), (num_resamples, len(group) - 1)) for group in arrays]
    resampled = [statistic([group[rows[k]] for group, rows in zip(arrays, picks)]) for k in range(num_resamples)]
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(resampled, [tail, 1 - tail])
    return Estimate(value, float(lo), float(hi))


def iqm(x: Values | Sequence[Values]) -> float:
    """Interquartile mean of all values together: the mean of what is left when ⌊n/4⌋ are cut off at either end."""
    values = np.sort(np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in x]))
    cut = len(values) // 4
    return float(values[cut : len(values) - cut].mean())


# Shares ----------------------------------------------------------------------------------------------------


def wilson(count: int, total: int, confidence: float = 0.95) -> Estimate:
    """Wilson's interval of a share: (p + z²/2n ± z √(p (1 − p)/n + z²/4n²)) / (1 + z²/n).

    Args:
        count: how many of them.
        total: of how many; 0 gives an unresolved share.
        confidence: of the interval.

    Returns:
        The share p = count / total with its interval.
    """
    _check_confidence(confidence)
    if not total:
        return UNRESOLVED
    z, share = float(special.ndtri((1 + confidence) / 2)), count / total
    middle, half = share + z**2 / (2 * total), z * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    scale = 1 + z**2 / total
    return Estimate(share, max(0.0, float(middle - half) / scale), min(1.0, float(middle + half) / scale))


# Means over seeds ------------------------------------------------------------------------------------------


def difference(first: Values, last: Values, errors: float = 3.0) -> Estimate:
    """mean(last) − mean(first) ± so many standard errors √(s₁²/n₁ + s₂²/n₂): episodes of two parts of one run.

    Three errors, not two: episodes near each other are more alike than independent ones.
    """
    first, last = np.asarray(first, dtype=float), np.asarray(last, dtype=float)
    if min(len(first), len(last)) < 2:
        raise ValueError(f"first, last: sizes {len(first)} and {len(last)} given, at least two each needed")
    change = float(last.mean() - first.mean())
    half = errors * float(np.sqrt(first.var(ddof=1) / len(first) + last.var(ddof=1) / len(last)))
    return Estimate(change, change - half, change + half)


def mean_interval(values: Values, confidence: float = 0.95) -> Estimate:
    """Student's interval of a mean over seeds: mean ± t_{n−1} s / √n; inconclusive below two.

    Not a bootstrap: with three to ten seeds that is too narrow, and t is exact for Gaussian values.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"values: shape {values.shape} given, a list needed")
    return contrast([values], [1.0], confidence) if len(values) else UNRESOLVED


def seeds_needed(spread: float, difference: float, confidence: float = 0.95, power: float = 0.8) -> int:
    """Seeds in each of two groups for their difference to be resolved with probability `power` (Student's t).

    `spread` is the standard deviation over seeds, in both groups; `difference` is that of the means. The smallest n
    with P(|t'| > t_{2n−2}) ≥ power, where t' has noncentrality difference / (spread √(2/n)).
    """
    _check_confidence(confidence, power)
    if not (spread >= 0 and np.isfinite(spread) and np.isfinite(difference) and difference):
        raise ValueError(f"spread, difference: {spread}, {difference} given, spread ≥ 0 and a difference needed")
    if spread == 0:
        return 2
    from scipy import stats  # takes most of a second

    reach = abs(difference) / spread

    def short(n: int) -> bool:
        edge, noncentrality = special.stdtrit(2 * n - 2, (1 + confidence) / 2), reach * np.sqrt(n / 2)
        power_at_n = stats.nct.sf(edge, 2 * n - 2, noncentrality) + stats.nct.cdf(-edge, 2 * n - 2, noncentrality)
        return bool(power_at_n < power)

    high = 2
    while short(high):
        high *= 2
    low = high // 2  # too few, unless 2 were enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return max(high, 2)
