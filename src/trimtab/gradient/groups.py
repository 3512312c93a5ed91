"""Samples in groups (completions of a prompt): what varies between groups, what within, and the best size of a group.

Group j of J has K_j exchangeable samples, and its gradient U_j estimates m_j = E[U | group]. The batch averages groups:

    Var(G) = (B + W(K)) / J,    B = Var_j(m_j) between groups,    W(K) = E Var(U | group) within them

Samples that share a baseline are coupled, so W(K) is not a variance over K; `group_baselines` knows what it is. All
terms are means over groups of one number per group, so intervals come from a bootstrap over groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from trimtab.core.errors import UserError
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.gradient.bootstrap import (
    MIN_ROWS,
    Resampled,
    bootstrap_weights,
    correlation,
    positive_estimate,
    ratio_estimate,
    resample,
    studentized,
)
from trimtab.gradient.group_baselines import BASELINES, Baseline, GroupTerms
from trimtab.gradient.noise import quotient
from trimtab.gradient.variance import RowStatistics, squared_mean, summed_gram_statistics

LARGEST = 64  # group size up to which the best one is looked for


class GroupError(UserError, ValueError):
    """Groups that cannot be measured; the message names the argument and what would do."""


@dataclass(frozen=True)
class Groups:
    """The variance of a batch of J groups, and what another number of groups or of samples would change.

    Attributes:
        num_groups: J.
        group_size: K, the mean size of a group.
        advantages: how samples of a group were weighted.
        variance: Var(G) of the batch as trained.
        grad_sq: |G|² without bias.
        between: B, the variance between groups.
        within: W, the variance of a group's gradient given the group, at `terms_size`.
        terms_size: samples per group that `between` and `within` belong to: K, or K/2 with "grpo".
        noise_scale: samples at which noise equals signal, at this K: K J Var(G) / |G|².
        noise_scale_groups: the same in groups.
        best_size: the samples per group that minimize Var(G) at equal cost, with its interval.
        double_samples: Var(G) with twice the samples in every group, over Var(G).
        double_groups: the same with twice the groups: 1/2.
        progress_of_double_samples: progress of a step with twice the samples per group, over that of a step now, with
            progress in proportion to |G|² / (|G|² + Var(G)).
        progress_of_double_groups: the same with twice the groups.
        no_signal: groups whose advantages are all 0.
        notes: what to keep in mind, in words.
    """

    num_groups: int
    group_size: float
    advantages: str
    variance: Estimate
    grad_sq: Estimate
    between: Estimate
    within: Estimate
    terms_size: float
    noise_scale: Estimate
    noise_scale_groups: Estimate
    best_size: Estimate
    double_samples: Estimate
    double_groups: Estimate
    progress_of_double_samples: Estimate
    progress_of_double_groups: Estimate
    no_signal: int
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        size, best = self.group_size, self.best_size
        if not best.resolved:
            return (
                f"The best group size is inconclusive with {self.num_groups} groups of {size:g}; measure more groups."
            )
        way = "keep" if best.lo <= size <= best.hi else "use more" if best.lo > size else "use fewer"
        return f"{way} samples per group: {size:g} now, best {best.value:g} ({best.lo:g} to {best.hi:g}).".capitalize()


def groups(
    gradients: ArrayLike,
    group: ArrayLike,
    advantages: str = "none",
    cost: tuple[float, float] = (0.0, 1.0),
    *,
    rewards: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    largest: int = LARGEST,
    gram: bool = False,
    seed: int = 0,
) -> Groups:
    """Measure samples in groups.

    Args:
        gradients: `[samples, P]`. With `advantages="none"` the gradients of the samples' terms of the objective,
            advantages included. Otherwise the score vectors ∇ log π of the samples, without advantages.
        group: `[samples]`, which group a sample belongs to: numbers or names.
        advantages: "none" (no baseline, or one from outside the group), "rloo" (reward minus the mean of the others),
            "mean" (minus the mean of all: (K − 1) / K of "rloo", which is undone), "grpo" (also divided by the standard
            deviation of the group: another target, so compare only Var(G) / |G|²).
        cost: `(c_g, c_s)`, cost of a group and of a sample; a group of K samples costs c_g + K c_s.
        rewards: `[samples]`, needed except for "none".
        lengths: `[samples]` numbers of tokens, for the loss that averages over tokens of a sample first
            (sequence-mean): each gradient, summed over its tokens, is divided by its length. Another target.
        largest: the largest group size to consider.
        gram: whether `gradients` are the inner products of all samples, `[samples, samples]`.
        seed: of the bootstrap.

    Returns:
        The terms, noise scales, the best size and what doubling would buy, with 95% intervals.
    """
    baseline = _baseline(advantages, rewards)
    vectors, members, reward = _checked(gradients, group, rewards, lengths, gram)
    smallest = min(len(own) for own in members)
    if smallest < baseline.smallest:
        raise GroupError(f"group: {smallest} samples in one; {advantages!r} needs at least {baseline.smallest} in each")
    if len(members) < 2:
        raise GroupError("group: 1 group given, a variance between groups needs at least 2")
    if largest < baseline.fewest:
        raise GroupError(f"largest: {largest} given, {advantages!r} trains with at least {baseline.fewest}")
    if min(cost) < 0 or max(cost) <= 0:
        raise GroupError(f"cost: {cost} given; both costs must be at least 0 and one above")
    rng = np.random.default_rng(seed)
    terms = [baseline.terms(vectors.inner(own), reward[own], rng) for own in members]
    trained, parts = (vectors.combined(members, [getattr(t, name) for t in terms]) for name in ("weights", "part"))
    return _Measured(baseline, members, terms, trained, parts, seed).result(cost, largest, reward)


@dataclass(frozen=True)
class _Vectors:
    """Gradients of samples, or their inner products."""

    values: Float[np.ndarray, "samples P"]
    are_products: bool

    def inner(self, own: Int[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        """Inner products of the samples of one group."""
        return self.values[np.ix_(own, own)] if self.are_products else self.values[own] @ self.values[own].T

    def combined(self, members: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> RowStatistics:
        """Statistics of one weighted sum per group."""
        if self.are_products:
            mix = np.zeros((len(members), len(self.values)))
            for j, (own, share) in enumerate(zip(members, weights)):
                mix[j, own] = share
            products = mix @ self.values @ mix.T
        else:
            sums = np.stack([share @ self.values[own] for own, share in zip(members, weights)])
            products = sums @ sums.T
        return summed_gram_statistics(products, products, num_steps=1)


@dataclass(frozen=True)
class _Measured:
    """The groups as one number each."""

    baseline: Baseline
    members: list[np.ndarray]
    terms: list[GroupTerms]
    trained: RowStatistics
    parts: RowStatistics
    seed: int

    def result(self, cost: tuple[float, float], largest: int, reward: np.ndarray) -> Groups:
        sizes = np.array([len(own) for own in self.members])
        size = float(sizes.mean())
        num_groups = len(sizes)
        measured = np.array([self.baseline.measured(int(k)) for k in sizes])
        now = self._within(measured, measured)
        between = self.parts.row_terms - np.array([t.excess for t in self.terms])
        doubled = between + self._within(2 * sizes, measured)
        as_is = between + self._within(sizes, measured)
        basic = self._resample(np.column_stack([now, self.trained.row_terms / num_groups, between]))
        within, variance = (positive_estimate(basic, column, num_groups) for column in (0, 1))
        lo, hi = studentized(*basic)
        ratio = ratio_estimate(self._resample(np.column_stack([doubled, as_is, as_is - doubled])), num_groups, 1.0)
        square = squared_mean(self.trained, self.seed)
        grad_sq = square.estimate()
        noise = quotient(variance, grad_sq, correlation(basic.means[:, 1], square.at_estimate))
        half = Estimate(0.5, 0.5, 0.5)
        return Groups(
            num_groups=num_groups,
            group_size=size,
            advantages=self.baseline.name,
            variance=variance,
            grad_sq=grad_sq,
            between=Estimate(float(basic.mean[2]), float(lo[2]), float(hi[2]), num_groups >= MIN_ROWS),
            within=within,
            terms_size=float(measured.mean()),
            noise_scale=noise.times(size * num_groups),
            noise_scale_groups=noise.times(num_groups),
            best_size=self._best_size(between, measured, cost, largest),
            double_samples=ratio,
            double_groups=half,
            progress_of_double_samples=_progress(noise, ratio),
            progress_of_double_groups=_progress(noise, half),
            no_signal=sum(self._is_silent(own, reward) for own in self.members),
            notes=self._notes(sizes),
        )

    def _resample(self, columns: Float[np.ndarray, "J q"]) -> Resampled:
        return resample(columns, bootstrap_weights(len(columns), self.seed))

    def _within(self, sizes: Int[np.ndarray, " J"], measured: Int[np.ndarray, " J"]) -> Float[np.ndarray, " J"]:
        """What every group says of Var(U | group) at its entry of `sizes`."""
        rows = zip(sizes, measured, self.terms)
        return np.array([float(self.baseline.basis(np.array([k]), int(at))[0] @ t.curve) for k, at, t in rows])

    def _best_size(self, between, measured, cost: tuple[float, float], largest: int) -> Estimate:
        """Minimize f(K) = (B + W(K)) (c_g + K c_s) over whole K.

        f is linear in what is averaged over groups, so f(K + 1) − f(K) has a bootstrap-t interval. A size is too small
        if that of the step after it lies below 0, too large if that of the step before it lies above 0.
        """
        sizes = np.arange(self.baseline.fewest, largest + 1)
        within = np.array([self.baseline.basis(sizes, int(at)) @ t.curve for at, t in zip(measured, self.terms)])
        prices = (between[:, None] + within) * (cost[0] + sizes * cost[1])
        best = int(sizes[np.argmin(prices.mean(axis=0))])
        if len(sizes) == 1:
            return Estimate(best, best, best)
        lo, hi = studentized(*self._resample(np.diff(prices, axis=1)))
        falls, rises = np.append(hi < 0, False), np.append(False, lo > 0)
        possible = sizes[~falls & ~rises]
        if not len(possible):
            return UNRESOLVED
        ends = min(float(possible[0]), best), max(float(possible[-1]), best)
        return Estimate(best, *ends, len(self.terms) >= MIN_ROWS and ends != (sizes[0], sizes[-1]))

    def _is_silent(self, own: np.ndarray, reward: np.ndarray) -> bool:
        """Whether all rewards are equal, so that a baseline within the group leaves nothing."""
        return self.baseline.needs_rewards and bool(np.ptp(reward[own]) == 0)

    def _notes(self, sizes: np.ndarray) -> tuple[str, ...]:
        notes = []
        if self.baseline.extrapolates:
            notes.append(
                f"terms are those of groups of half the size; beyond {sizes.mean() / 2:g} samples per group the "
                "variance within groups is assumed to fall as 1/K and the target to stay"
            )
        if np.ptp(sizes):
            notes.append(f"groups have {sizes.min()} to {sizes.max()} samples; each group counts the same")
        return tuple(notes)


def _progress(noise: Estimate, ratio: Estimate) -> Estimate:
    """(1 + x) / (1 + ρ x) for x = Var(G) / |G|² and the variance ratio ρ: rises with x where ρ < 1, falls with ρ."""
    if not (noise.resolved and ratio.resolved):
        return UNRESOLVED
    gain = lambda x, rho: (1 + x) / (1 + rho * x)
    low = noise.lo if ratio.hi <= 1 else noise.hi
    return Estimate(gain(noise.value, ratio.value), gain(low, ratio.hi), gain(noise.hi, ratio.lo))


def _baseline(name: str, rewards: ArrayLike | None) -> Baseline:
    if name not in BASELINES:
        raise GroupError(f"advantages: {name!r} given; one of {', '.join(BASELINES)}")
    if BASELINES[name].needs_rewards and rewards is None:
        raise GroupError(f"rewards: needed with advantages={name!r}, and gradients of log-probabilities only")
    return BASELINES[name]


def _checked(gradients, group, rewards, lengths, gram: bool) -> tuple[_Vectors, list[np.ndarray], np.ndarray]:
    """Arrays of matching shapes with finite numbers; members of every group, in the order of its first sample."""
    values = np.asarray(gradients, dtype=np.float64)
    if values.ndim != 2 or (gram and values.shape[0] != values.shape[1]):
        wanted = "[samples, samples]" if gram else "[samples, parameters]"
        raise GroupError(f"gradients: shape {values.shape} given, {wanted} needed")
    count = len(values)
    reward = np.zeros(count) if rewards is None else np.asarray(rewards, dtype=np.float64)
    length = np.ones(count) if lengths is None else np.asarray(lengths, dtype=np.float64)
    labels = np.asarray(group)
    for name, array in (("group", labels), ("rewards", reward), ("lengths", length)):
        if array.shape != (count,):
            raise GroupError(f"{name}: shape {array.shape} given, ({count},) needed")
    for name, array in (("gradients", values), ("rewards", reward)):
        if not np.isfinite(array).all():
            raise GroupError(f"{name}: not all numbers are finite")
    if not (length > 0).all():
        raise GroupError("lengths: all must be above 0")
    if lengths is not None:
        values = values / np.outer(length, length) if gram else values / length[:, None]
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return _Vectors(values, gram), [np.flatnonzero(number == j) for j in order], reward
