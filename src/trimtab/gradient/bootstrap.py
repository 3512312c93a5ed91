"""The bootstrap over rows that gives measured numbers their intervals."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved

CONFIDENCE = 0.95
NUM_RESAMPLES = 1000
MIN_ROWS = 8  # below this many rows a bootstrap interval means nothing
WIDEST = 100.0  # an interval that reaches this many times its value resolves nothing: a few rows carry it all


def percentile(resampled, confidence: float = CONFIDENCE):
    """Ends of the percentile interval along the first axis: (q_lo, q_hi) of the resampled values."""
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(np.asarray(resampled), [tail, 1 - tail], axis=0)
    return lo, hi


@lru_cache(maxsize=2)
def bootstrap_weights(
    num_rows: int, seed: int, num_strata: int = 1, num_resamples: int = NUM_RESAMPLES
) -> Float[np.ndarray, "resamples rows"]:
    """How often each row is drawn in each resample; strata are equal, consecutive runs of rows. Kept, so read-only."""
    rng = np.random.default_rng(seed)
    size = num_rows // num_strata
    indices = rng.integers(0, size, (num_resamples, num_strata, size))
    indices += size * np.arange(num_strata)[:, None] + num_rows * np.arange(num_resamples)[:, None, None]
    counts = np.bincount(indices.ravel(), minlength=num_resamples * num_rows)
    weights = counts.reshape(num_resamples, num_rows).astype(np.float64)
    weights.flags.writeable = False
    return weights


class Resampled(NamedTuple):
    """Means over rows of some columns and their squared standard errors, as measured and in each resample."""

    mean: Float[np.ndarray, " q"]
    error_sq: Float[np.ndarray, " q"]
    means: Float[np.ndarray, "resamples q"]
    errors_sq: Float[np.ndarray, "resamples q"]


def resample(terms: Float[np.ndarray, "rows q"], weights, num_strata: int = 1) -> Resampled:
    """Resample the means of all columns at once."""
    mean, error_sq = mean_and_error(terms, np.ones((1, len(terms))), num_strata)
    return Resampled(mean[0], error_sq[0], *mean_and_error(terms, weights, num_strata))


def mean_and_error(
    terms: Float[np.ndarray, "rows q"], weights: Float[np.ndarray, "resamples rows"], num_strata: int = 1
) -> tuple[Float[np.ndarray, "resamples q"], Float[np.ndarray, "resamples q"]]:
    """Per resample: the mean of the terms, and its squared standard error within strata.

    mean = Σ_m w_m y_m / M,   se² = Σ_strata Σ_m w_m (y_m − ȳ_stratum)² / M²
    """
    num_rows, size = len(terms), len(terms) // num_strata
    shift = terms.mean(axis=0)
    total, squares = np.zeros(1), np.zeros(1)
    for start in range(0, num_rows, size):
        rows = slice(start, start + size)
        centred = terms[rows] - shift
        first = weights[:, rows] @ centred / size
        total = total + first
        squares = squares + np.maximum(weights[:, rows] @ centred**2 / size - first**2, 0)
    return shift + total / num_strata, squares / (num_strata * num_rows)


def studentized(value, error_sq, means, errors_sq, confidence: float = CONFIDENCE):
    """Ends of the studentized (bootstrap-t) interval of a mean.

    t = (mean* − mean) / se*,   [value − t_hi se, value − t_lo se]
    Second-order accurate: skewed terms cost it less coverage than they cost a percentile interval.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (means - value) / np.sqrt(errors_sq)
    t = np.where(errors_sq > 1e-24 * error_sq, t, 0.0)
    lo, hi = percentile(t, confidence)
    return value - hi * np.sqrt(error_sq), value - lo * np.sqrt(error_sq)


def positive_estimate(columns: Resampled, column: int, num_rows: int) -> Estimate:
    """A positive mean, with the bootstrap-t interval of its logarithm: se of log ū = se of ū / ū.

    Not resolved where a few rows carry it all.
    """
    value = float(columns.mean[column])
    if value <= 0:
        return Estimate(0.0, 0.0, 0.0)
    positive = columns.means[:, column] > 0
    if not _nearly_all(positive):
        return unresolved(value)
    log = [
        (np.log(mean), error_sq / mean**2)
        for mean, error_sq in (
            (columns.mean[column], columns.error_sq[column]),
            (columns.means[positive, column], columns.errors_sq[positive, column]),
        )
    ]
    with np.errstate(over="ignore"):
        lo, hi = np.exp(studentized(*log[0], *log[1]))
    return Estimate(value, float(lo), float(hi), num_rows >= MIN_ROWS and bool(hi <= WIDEST * value))


def _nearly_all(positive) -> bool:
    """Whether so few resamples are lost that a 95% interval does not notice."""
    return bool(np.mean(positive) > 0.99)


def ratio_estimate(columns: Resampled, num_rows: int, scale: float) -> Estimate:
    """scale ū / v̄, where columns 0 to 2 are u, v and v − u, with the bootstrap-t interval of its logarithm.

    se² of log(ū / v̄) = var u / ū² + var v / v̄² − 2 cov(u, v) / (ū v̄)
    """
    positive = (columns.means[:, :2] > 0).all(axis=1)
    if not (columns.mean[:2] > 0).all() or not _nearly_all(positive):
        return UNRESOLVED
    log = []
    for mean, error_sq in ((columns.mean, columns.error_sq), (columns.means[positive], columns.errors_sq[positive])):
        u, v = mean[..., 0], mean[..., 1]
        var_u, var_v, var_difference = error_sq[..., 0], error_sq[..., 1], error_sq[..., 2]
        joint = var_u / u**2 + var_v / v**2 - (var_u + var_v - var_difference) / (u * v)
        log.append((np.log(u / v), np.maximum(joint, 0)))
    lo, hi = np.exp(studentized(*log[0], *log[1]))
    value = float(columns.mean[0] / columns.mean[1])
    return Estimate(scale * value, scale * float(lo), scale * float(hi), num_rows >= MIN_ROWS)


def combined(a: float, b: float, rho: float) -> float:
    """Distance to the end of a sum's interval, from those of its parts, whose errors have correlation ρ.

    √(a² + b² + 2 ρ a b), the method of variance estimates recovery.
    """
    return math.sqrt(max(a * a + b * b + 2 * rho * a * b, 0.0))


def correlation(x, y) -> float:
    """Pearson's, 0 where nothing varies."""
    spread = float(np.std(x) * np.std(y))
    return float(np.mean((x - np.mean(x)) * (y - np.mean(y)))) / spread if spread > 0 else 0.0
