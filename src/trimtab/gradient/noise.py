"""Noise scales, and what the variance of a gradient becomes at other numbers of steps and in minibatches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.gradient.bootstrap import bootstrap_weights, combined, correlation, positive_estimate, resample
from trimtab.gradient.variance import RowStatistics, decompose_rows, gradient_statistics, squared_mean


@dataclass(frozen=True)
class NoiseScale:
    """Batch sizes at which noise and signal are equal, and the numbers they are quotients of.

    `simple` and `trajectory` count samples, `environments` counts rows of the measured length. `floor` is the noise
    that no number of environments removes, relative to |G|²; known where whole iterations were measured.
    """

    simple: Estimate
    trajectory: Estimate
    environments: Estimate
    sample_variance: Estimate
    row_variance: Estimate
    grad_sq: Estimate
    floor: Estimate = UNRESOLVED


def noise_scale(rows: RowStatistics | ArrayLike, seed: int = 0) -> NoiseScale:
    """Noise scales at the measured T, of iid rows [rows, T, P]; inconclusive when the interval of |G|² touches 0.

    Of whole iterations, at the N of each: where rows share something, they depend on N.

    simple = (1/T) Σ_t Tr Cov(g_t) / |G|²          if samples were independent
    trajectory = N T Var(G_B) / |G|²,   environments = N Var(G_B) / |G|²
    `sample_variance` is the numerator of the first, `row_variance` = N T Var(G_B) that of the second.
    floor = C / |G|²,   Var(G_B) -> C for N -> infinity
    """
    rows = rows if isinstance(rows, RowStatistics) else gradient_statistics(rows)
    steps = rows.mean_steps
    weights = bootstrap_weights(rows.num_rows, seed, rows.num_strata)
    square = squared_mean(rows, seed)
    grad_sq = square.estimate()
    num_envs = rows.rows_per_batch or 1
    terms = np.stack([rows.individual_terms / steps, num_envs * rows.variance_terms(num_envs) / steps], axis=1)
    columns = resample(terms, weights, rows.num_strata)
    sample, row = (positive_estimate(columns, column, rows.num_rows) for column in (0, 1))
    simple, trajectory = (
        quotient(top, grad_sq, correlation(columns.means[:, column], square.at_estimate))
        for column, top in enumerate((sample, row))
    )
    floor = _relative(decompose_rows(rows, num_envs, seed).variance_floor, grad_sq)
    return NoiseScale(simple, trajectory, trajectory.times(1 / steps), sample, row, grad_sq, floor)


def _relative(top: Estimate, bottom: Estimate) -> Estimate:
    """top / bottom where the top may be below 0: the ends are those of all quotients, so the interval is wide."""
    if not (top.resolved and bottom.resolved):
        return UNRESOLVED
    ends = [end / other for end in (top.lo, top.hi) for other in (bottom.lo, bottom.hi)]
    return Estimate(top.value / bottom.value, min(ends), max(ends))


def quotient(top: Estimate, bottom: Estimate, rho: float) -> Estimate:
    """top / bottom, whose errors have correlation ρ: the distances to the ends of their logarithms combine."""
    if not bottom.resolved or top.lo <= 0:
        return UNRESOLVED
    value = top.value / bottom.value
    below = combined(math.log(top.value / top.lo), math.log(bottom.hi / bottom.value), -rho)
    above = combined(math.log(top.hi / top.value), math.log(bottom.value / bottom.lo), -rho)
    return Estimate(value, value * math.exp(-below), value * math.exp(above), top.resolved)


@dataclass(frozen=True)
class Prediction:
    """A variance computed from lag covariances; extrapolated where it lies beyond the measured rows."""

    value: float
    extrapolated: bool


def predict_variance(lag_covariance: ArrayLike, num_envs: int, num_steps: int) -> Prediction:
    """Var(G_B) at num_steps: 1/(N T) [C_0 + 2 Σ_{k<T} (1 − k/T) C_k], with C_k = 0 beyond the measured lags.

    At the measured T this is an identity. A smaller T moves the cut of the advantages, so it is refused:
    cut the rows with split_blocks and compute the advantages anew.
    """
    lag_covariance = np.asarray(lag_covariance, dtype=np.float64)
    measured = len(lag_covariance)
    if num_steps < measured:
        raise ValueError(f"num_steps: {num_steps} is below the measured {measured}; cut the rows into blocks")
    taper = 2 * (1 - np.arange(measured) / num_steps)
    taper[0] = 1
    return Prediction(float(taper @ lag_covariance) / (num_envs * num_steps), num_steps > measured)


def split_blocks(rows: Shaped[np.ndarray, "rows T ..."], num_steps: int) -> Shaped[np.ndarray, "blocks rows ..."]:
    """Cut rows into [blocks, rows, num_steps, ...]; rows of one block are independent, blocks are not."""
    if rows.shape[1] % num_steps:
        raise ValueError(f"num_steps: {num_steps} does not divide the measured {rows.shape[1]}")
    blocks = rows.reshape(len(rows), -1, num_steps, *rows.shape[2:])
    return np.moveaxis(blocks, 1, 0)


def subsampling_variance(gram: ArrayLike, minibatch_size: int) -> float:
    """Variance of the mean of a minibatch drawn without replacement, from the Gram matrix of the batch.

    (1 − b/B) / b · Σ_i |g_i − ḡ|² / (B − 1), for b of B samples (the finite-population formula)
    """
    gram = np.asarray(gram, dtype=np.float64)
    batch = len(gram)
    if not 1 <= minibatch_size <= batch:
        raise ValueError(f"minibatch_size: {minibatch_size} is not between 1 and the batch of {batch}")
    spread = (np.trace(gram) - gram.sum() / batch) / (batch - 1)
    return float((1 - minibatch_size / batch) / minibatch_size * spread)


def row_subsampling_variance(gram: ArrayLike, num_envs: int, num_minibatches: int) -> float:
    """The same where minibatches are whole rows, or pieces of one where there are more of them than rows.

    (1 − k/R) / k · Σ_r |ḡ_r − ḡ|² / (R − 1), for k of R row means ḡ_r; sample (n, t) is at n T + t.
    """
    gram = np.asarray(gram, dtype=np.float64)
    rows = num_envs * max(1, num_minibatches // num_envs)
    length = len(gram) // rows
    means = gram.reshape(rows, length, rows, length).mean(axis=(1, 3))
    return 0.0 if rows == 1 else subsampling_variance(means, max(1, rows // num_minibatches))
