"""How the samples of a group are combined into the group's gradient, and what that says of its variance.

A baseline makes the group's gradient U = Σ_k a_k s_k from rewards r_k and score vectors s_k. It also gives unbiased
estimates, from one group, of Var(U | group) and of the few numbers that predict it for groups of other sizes. Score
vectors enter by their inner products only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

SPLITS = 32  # random halves of a group, where only halves give unbiased terms
SMALLEST_DEVIATION = 1e-4  # added to the standard deviation of a group's rewards


@dataclass(frozen=True)
class GroupTerms:
    """What one group says.

    Attributes:
        weights: `[K]`, U = Σ a_k s_k, the gradient of the group as trained.
        part: `[K]` weights of the group's vector for the terms; other than `weights` where terms are of half groups.
        excess: an unbiased estimate of E|part vector|² − |E[U | group]|², which `part` vectors are to be freed of.
        curve: coefficients of Var(U | group) in the size of the group; `Baseline.basis` are the functions.
    """

    weights: Float[np.ndarray, " K"]
    part: Float[np.ndarray, " K"]
    excess: float
    curve: Float[np.ndarray, " c"]


@dataclass(frozen=True)
class Baseline:
    """One way to form advantages within a group.

    Attributes:
        smallest: the smallest group that its terms can be estimated from.
        fewest: the smallest group that it can train with.
        needs_rewards: whether gradients are score vectors, to be weighted by advantages formed here.
        terms: `(gram [K, K], rewards [K], rng) -> GroupTerms`.
        basis: `(sizes [n], size measured at) -> [n, c]`, with Var(U | group) at a size = basis · curve.
        measured: `(K) -> size` that the terms belong to.
        extrapolates: whether sizes beyond the measured one are predicted by W(k) = W(measured) measured / k only.
    """

    name: str
    smallest: int
    fewest: int
    needs_rewards: bool
    terms: Callable[[np.ndarray, np.ndarray, np.random.Generator], GroupTerms]
    basis: Callable[[np.ndarray, int], np.ndarray]
    measured: Callable[[int], int] = lambda size: size
    extrapolates: bool = False


def independent_terms(gram: Float[np.ndarray, "K K"], rewards: np.ndarray, rng: np.random.Generator) -> GroupTerms:
    """No baseline, or one from outside the group: Var(g | group) = Σ_k |g_k − ḡ|² / (K − 1), over K for the mean.

    Args:
        gram: inner products of the samples' gradients.
        rewards: not used.
        rng: not used.

    Returns:
        The terms of the group; its curve is Var(g | group).
    """
    size = len(gram)
    spread = (np.trace(gram) - gram.sum() / size) / (size - 1)
    mean = np.full(size, 1 / size)
    return GroupTerms(mean, mean, spread / size, np.array([spread]))


def leave_one_out_terms(gram: Float[np.ndarray, "K K"], rewards: np.ndarray, rng: np.random.Generator) -> GroupTerms:
    """Advantages r_k − mean of the others: U is the U-statistic of h(k, l) = (r_k − r_l)(s_k − s_l) / 2.

    With H_k = Σ_l h(k, l), a = Σ_k |H_k|², b = Σ_{k≠l} |h(k, l)|², averages over different samples are
        E|h(1,2)|²       <- b / (K (K − 1))
        E h(1,2)·h(1,3)  <- (a − b) / (K (K − 1)(K − 2))
        |E h|²           <- (|Σ_k H_k|² − 4 a + 2 b) / (K (K − 1)(K − 2)(K − 3))
    A group of three has no two pairs without a common sample. Scores with mean 0 (samples of the policy itself) give
        |E h|²           <- mean over different k, l, m of (r_k − r_m)(r_l − r_m) s_k·s_l

    Args:
        gram: inner products of the score vectors.
        rewards: one per sample.
        rng: not used.

    Returns:
        The terms of the group; its curve is ζ_1 = Cov(h(1,2), h(1,3)) and ζ_2 = Var(h(1,2)).
    """
    size = len(gram)
    gaps = rewards[:, None] - rewards
    weights = gaps.sum(axis=1) / (size * (size - 1))
    combine = (np.diag(gaps.sum(axis=1)) - gaps) / 2  # H_k = Σ_l combine[k, l] s_l
    own = np.diagonal(gram)
    square_sums = np.sum((combine @ gram) * combine)
    pair_squares = np.sum(gaps**2 * (own[:, None] + own - 2 * gram)) / 4
    pairs = size * (size - 1)
    total_sq = float(weights @ gram @ weights)
    if size > 3:
        mean_sq = (total_sq * pairs**2 - 4 * square_sums + 2 * pair_squares) / (pairs * (size - 2) * (size - 3))
    else:
        mean_sq = np.sum(np.einsum("km,kl,lm->klm", gaps, gram, gaps) * (1 - np.eye(size))[:, :, None])
        mean_sq /= pairs * (size - 2)
    one = (square_sums - pair_squares) / (pairs * (size - 2)) - mean_sq
    two = pair_squares / pairs - mean_sq
    return GroupTerms(weights, weights, total_sq - mean_sq, np.array([one, two]))


def standardized_terms(gram: Float[np.ndarray, "K K"], rewards: np.ndarray, rng: np.random.Generator) -> GroupTerms:
    """Advantages (r_k − mean) / (standard deviation + 1e-4), with K − 1, as GRPO has them.

    U is no average over pairs, so its variance is measured between random disjoint halves of the group: the terms are
    those of groups of K/2 samples.

    Args:
        gram: inner products of the score vectors.
        rewards: one per sample.
        rng: draws the halves.

    Returns:
        The terms; the curve is Var(U | group) at half the size.
    """
    size = len(gram)
    half = size // 2
    order = np.argsort(rng.random((SPLITS, size)), axis=1)[:, : 2 * half].reshape(SPLITS, 2, half)
    weights = np.zeros((SPLITS, 2, size))
    np.put_along_axis(weights, order, standardized(rewards[order]) / half, axis=2)
    products = weights @ gram
    squares = np.einsum("shk,shk->", products, weights) / (2 * SPLITS)
    mean_sq = np.einsum("sk,sk->", products[:, 0], weights[:, 1]) / SPLITS
    part = weights.mean(axis=(0, 1))
    within = float(squares - mean_sq)
    return GroupTerms(standardized(rewards) / size, part, float(part @ gram @ part) - mean_sq, np.array([within]))


def standardized(rewards: Float[np.ndarray, "... K"]) -> Float[np.ndarray, "... K"]:
    """(r − mean) / (standard deviation + 1e-4) within each group, with K − 1.

    Args:
        rewards: one per sample, groups along the last axis.

    Returns:
        Advantages of the same shape.
    """
    centred = rewards - rewards.mean(axis=-1, keepdims=True)
    return centred / (rewards.std(axis=-1, ddof=1, keepdims=True) + SMALLEST_DEVIATION)


def _inverse(sizes: np.ndarray, measured: int) -> np.ndarray:
    return 1 / sizes[:, None]


def _inverse_of_measured(sizes: np.ndarray, measured: int) -> np.ndarray:
    return measured / sizes[:, None]


def _leave_one_out(sizes: np.ndarray, measured: int) -> np.ndarray:
    pairs = sizes * (sizes - 1)
    return np.stack([4 * (sizes - 2) / pairs, 2 / pairs], axis=1)


BASELINES = {
    baseline.name: baseline
    for baseline in (
        Baseline("none", 2, 1, False, independent_terms, _inverse),
        Baseline("rloo", 3, 2, True, leave_one_out_terms, _leave_one_out),
        Baseline("mean", 3, 2, True, leave_one_out_terms, _leave_one_out),  # (K − 1) / K of the above, undone
        Baseline(
            "grpo", 4, 2, True, standardized_terms, _inverse_of_measured, lambda size: size // 2, extrapolates=True
        ),
    )
}
