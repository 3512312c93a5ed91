"""Noise scales, and what the variance of a gradient becomes at other numbers of steps and in minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped
from numpy.typing import ArrayLike

from trimtab.anatomy.estimate import (
    UNRESOLVED,
    Estimate,
    Resampled,
    bootstrap_weights,
    positive_estimate,
    resample,
)
from trimtab.anatomy.variance import RowStatistics, squared_mean, squared_mean_errors


@dataclass(frozen=True)
class NoiseScale:
    """Batch sizes at which noise and signal are equal, and the numbers they are quotients of.

    `simple` and `trajectory` count samples, `environments` counts rows of the measured length.
    """

    simple: Estimate
    trajectory: Estimate
    environments: Estimate
    sample_variance: Estimate
    row_variance: Estimate
    grad_sq: Estimate


def noise_scale(rows: RowStatistics, seed: int = 0) -> NoiseScale:
    """Noise scales at the measured T; not resolved when the interval of |G|² touches 0.

    simple = (1/T) Σ_t Tr Cov(g_t) / |G|²          if samples were independent
    trajectory = N T Var(G_B) / |G|²,   environments = N Var(G_B) / |G|²
    `sample_variance` is the numerator of the first, `row_variance` = N T Var(G_B) that of the second.
    """
    steps = rows.mean_steps
    weights = bootstrap_weights(rows.num_rows, seed, rows.num_strata)
    grad_sq, errors = squared_mean(rows, weights), squared_mean_errors(rows, weights)
    sample, row = rows.individual_terms / steps, rows.row_terms / steps
    columns = resample(np.stack([sample, row], axis=1), weights, rows.num_strata)
    per_sample = _quotient(columns, 1, grad_sq, errors)
    return NoiseScale(
        simple=_quotient(columns, 0, grad_sq, errors),
        trajectory=per_sample,
        environments=_rescaled(per_sample, 1 / steps),
        sample_variance=positive_estimate(columns, 0, rows.num_rows),
        row_variance=positive_estimate(columns, 1, rows.num_rows),
        grad_sq=grad_sq,
    )


def _rescaled(estimate: Estimate, scale: float) -> Estimate:
    return Estimate(estimate.value * scale, estimate.lo * scale, estimate.hi * scale, estimate.resolved)


def _quotient(columns: Resampled, column: int, grad_sq: Estimate, errors) -> Estimate:
    """A mean over rows / |G|²: where u − B v = 0 is not rejected, as Fieller's interval, by bootstrap.

    That set is a percentile interval of (u − error of u*) / (v − error of v*).
    """
    if not grad_sq.resolved:
        return UNRESOLVED
    linear, quadratic = errors
    mean = columns.mean[column]
    numerator = 2 * mean - columns.means[:, column]
    denominator = grad_sq.value - 2 * np.sqrt(grad_sq.value) * linear - quadratic
    ratios = np.full_like(numerator, np.inf)
    np.divide(numerator, denominator, out=ratios, where=denominator > 0)
    lo, hi = np.quantile(ratios, [0.025, 0.975], method="inverted_cdf")  # an end may be infinite
    return Estimate(float(mean / grad_sq.value), float(lo), float(hi))


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
