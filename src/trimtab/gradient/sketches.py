"""Random projections of gradients, which keep inner products up to a known error.

A sketch of width w multiplies by a random matrix of independent signs over √w. With x and y fixed,

    E (S x)·(S y) = x·y,    Var (S x)·(S y) <= (|x|² |y|² + (x·y)²) / w

so a squared length has a relative standard error of at most √(2 / w).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from trimtab.core.estimate import Estimate
from trimtab.gradient.bootstrap import combined
from trimtab.gradient.variance import Decomposition

BLOCK = 4096  # parameters projected at once
NORMAL_95 = 1.959964


def sketch(gradients: ArrayLike, width: int, seed: int = 0) -> Float[np.ndarray, "... width"]:
    """Project gradients with a matrix of random signs that is never held as a whole.

    Args:
        gradients: `[..., P]`.
        width: w; the relative error of a squared length is √(2 / w).
        seed: of the matrix. Only sketches of one seed and width can be compared.

    Returns:
        `[..., width]`, linear in the gradients.
    """
    gradients = np.asarray(gradients)
    if width < 1:
        raise ValueError(f"width: {width} given, at least 1 needed")
    total = np.zeros((*gradients.shape[:-1], width))
    for number, start in enumerate(range(0, gradients.shape[-1], BLOCK)):
        part = gradients[..., start : start + BLOCK]
        signs = np.random.default_rng((seed, number)).integers(0, 2, (part.shape[-1], width), dtype=np.int8)
        total += part @ (2.0 * signs - 1.0)
    return total / math.sqrt(width)


def relative_error(width: int) -> float:
    """Standard error of a squared length in a sketch, over that length.

    Args:
        width: w.

    Returns:
        √(2 / w).
    """
    return math.sqrt(2 / width)


def with_sketch_error(parts: Decomposition, width: int) -> Decomposition:
    """The same estimates with intervals that hold the error of the sketch too.

    The covariance is a difference of two squared lengths, so its error is one of the variance; |G|² is what remains of
    a mean that also holds noise, so its error is one of both. Effective samples are a quotient whose errors mostly
    cancel; they are treated as independent.

    Args:
        parts: from sketched gradients.
        width: of the sketch.

    Returns:
        Estimates with wider intervals; |G|² may become unresolved.
    """
    error = NORMAL_95 * relative_error(width)
    scale = parts.variance.value
    signal = max(parts.grad_sq.value, 0.0) + scale
    grad_sq = _widened(parts.grad_sq, error * signal)
    return replace(
        parts,
        variance=_widened(parts.variance, error * scale, positive=True),
        individual=_widened(parts.individual, error * parts.individual.value, positive=True),
        covariance=_widened(parts.covariance, error * scale),
        ess=_widened(parts.ess, math.sqrt(2) * error * parts.ess.value, positive=True),
        grad_sq=replace(grad_sq, resolved=grad_sq.resolved and grad_sq.lo > 0),
        lag_interval=parts.lag_interval
        + np.array([-1.0, 1.0]) * error * np.abs(parts.lag_covariance[:1]).max(initial=0.0),
    )


def _widened(estimate: Estimate, error: float, positive: bool = False) -> Estimate:
    """Both distances to the ends joined with an independent error."""
    if not estimate.known:
        return estimate
    below = combined(estimate.value - estimate.lo, error, 0.0)
    above = combined(estimate.hi - estimate.value, error, 0.0)
    lo = max(estimate.value - below, 0.0) if positive else estimate.value - below
    return replace(estimate, lo=lo, hi=estimate.value + above)
