"""Squares of means without their bias: |bias|² of a batch gradient, |G|², and the mean squared error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trimtab.core.estimate import Estimate
from trimtab.gradient.bootstrap import bootstrap_weights, combined, correlation
from trimtab.gradient.variance import (
    RowStatistics,
    carry_statistics,
    decompose_rows,
    gradient_statistics,
    mean_statistics,
    squared_mean,
    summed_gram_statistics,
)


def squared_norm_of_mean(gram: ArrayLike, seed: int = 0) -> Estimate:
    """|E row|² from the Gram matrix [rows, rows] of iid rows, with its interval (squares.py).

    (|Σ_m D_m|² − Σ_m |D_m|²) / (M (M − 1)): pairs of different rows only
    """
    return squared_mean_of(summed_gram_statistics(gram, gram, num_steps=1), seed)


def squared_mean_of(rows: RowStatistics, seed: int = 0) -> Estimate:
    """|E row|² of rows with these statistics."""
    return squared_mean(rows, seed).estimate()


def bias_sq(differences: RowStatistics | ArrayLike, seed: int = 0) -> Estimate:
    """|E[G_B] − G_T|² from paired differences [rows, P]: D_m = mean over row m of (A − A_ref) ∇ log π."""
    if not isinstance(differences, RowStatistics):
        differences = difference_statistics(differences)
    return squared_mean_of(differences, seed)


def difference_statistics(differences: ArrayLike) -> RowStatistics:
    """Row statistics of the paired differences [rows, P].

    Rows that start from a run's own states are alike only within an environment: [replicates, N, P].
    """
    differences = np.asarray(differences)
    return carry_statistics(differences[:, :, None, :]) if differences.ndim == 3 else mean_statistics(differences)


def mse(
    rows: RowStatistics | ArrayLike, differences: RowStatistics | ArrayLike, num_envs: int, seed: int = 0
) -> Estimate:
    """MSE(G_B) = Var(G_B) + |bias|², both from the same rows [rows, T, P], paired differences [rows, P] and resamples.

    An error is above 0: an interval that reaches below resolves nothing.
    """
    rows = rows if isinstance(rows, RowStatistics) else gradient_statistics(rows)
    differences = differences if isinstance(differences, RowStatistics) else difference_statistics(differences)
    weights = bootstrap_weights(rows.num_rows, seed)
    square = squared_mean(differences, seed)
    variance, bias = decompose_rows(rows, num_envs, seed).variance, square.estimate()
    rho = correlation(weights @ rows.variance_terms(num_envs), square.at_estimate)
    below = combined(variance.value - variance.lo, bias.value - bias.lo, rho)
    above = combined(variance.hi - variance.value, bias.hi - bias.value, rho)
    value = variance.value + bias.value
    return Estimate(value, value - below, value + above, variance.resolved and value > below)
