"""Successive iterations visit the phases of episodes in order: how alike the gradients of one and the next are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.gradient.bootstrap import bootstrap_weights, percentile

FEWEST_PAIRS = 8


def phase_autocorrelation(
    means: Float[np.ndarray, "K P"], phases: Sequence[int | None], num_steps: int, limit: int, seed: int = 0
) -> Estimate:
    """Correlation of the gradients of one iteration and the next, through their phases.

    Cov(E[G_B | phase], E[G_B | phase + T]) / Var(G_B), the covariance from pairs of independent replicates whose phases
    follow each other and |E G_B|² from all pairs. Negative where errors cancel over a cycle.

    Args:
        means: mean gradients of K independent iterations.
        phases: steps into the cycle at which each started.
        num_steps: T.
        limit: steps of the cycle.
        seed: of the bootstrap over iterations.

    Returns:
        The correlation with its interval; unresolved with fewer than FEWEST_PAIRS pairs.
    """
    if any(phase is None for phase in phases):
        return UNRESOLVED
    at = np.array(phases, int)
    follows = ((at[:, None] + num_steps - at[None, :]) % limit == 0) & ~np.eye(len(at), dtype=bool)
    if follows.sum() < FEWEST_PAIRS:
        return UNRESOLVED
    gram, others = means @ means.T, ~np.eye(len(at), dtype=bool)

    def correlation(weight: Float[np.ndarray, " K"]) -> float:
        pairs = weight[:, None] * weight[None, :]
        mean = lambda chosen: float((pairs * gram)[chosen].sum() / max(pairs[chosen].sum(), 1e-300))
        square = mean(others)
        variance = float(weight @ np.diagonal(gram) / weight.sum()) - square
        return (mean(follows) - square) / variance if variance > 0 else 0.0

    lo, hi = percentile([correlation(weight) for weight in bootstrap_weights(len(at), seed)])
    return Estimate(correlation(np.ones(len(at))), float(lo), float(hi))
