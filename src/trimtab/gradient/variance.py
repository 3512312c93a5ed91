"""The variance of a batch gradient, split into the variance of single samples and the covariance along rows.

Everything follows from one number per row and lag, and from inner products between row sums, of the centred
gradients x_t = g_t − μ_t. Gradients can therefore arrive in chunks of rows:

    positions = position_sums(chunk_1) + position_sums(chunk_2) + ...          first pass, keeps [T, P]
    moments = [row_moments(chunk, positions) for chunk in chunks]              second pass, keeps [rows, P]
    decompose_rows(row_statistics(moments, positions.mean), num_envs)

The first pass needs no per-sample gradients: its totals are gradients of objectives summed over rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy import fft

from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved
from trimtab.gradient.bootstrap import (
    MIN_ROWS,
    bootstrap_weights,
    positive_estimate,
    ratio_estimate,
    resample,
    studentized,
)
from trimtab.gradient.inner_products import BlockProducts, Products
from trimtab.gradient.squared_means import SquareErrors

CHUNK_ELEMENTS = 1 << 22  # gradients centred at once
LONG_ROW = 512  # steps from which an FFT is faster than the products of all pairs of a row


@dataclass(frozen=True)
class PositionSums:
    """Sums over rows at every position: what the position means μ_t and the gradient G follow from."""

    total: Float[np.ndarray, "T P"]
    count: Float[np.ndarray, " T"]
    num_rows: int

    def __add__(self, other: PositionSums) -> PositionSums:
        num_rows = self.num_rows + other.num_rows
        return PositionSums(self.total + other.total, self.count + other.count, num_rows)

    @property
    def mean(self) -> Float[np.ndarray, " P"]:
        """G = Σ g / number of valid samples."""
        return np.asarray(self.total.sum(axis=0) / self.count.sum())


@dataclass(frozen=True)
class RowMoments:
    """What is kept of each row: Σ_t x_t, Σ_t x_t·x_{t+k} at every lag k, and its number of valid samples."""

    residual: Float[np.ndarray, "rows P"]
    lag_products: Float[np.ndarray, "rows T"]
    steps: Float[np.ndarray, " rows"]


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """All that estimates and their bootstrap over rows need; no axis of parameters is left.

    Rows of one stratum are identically distributed, and strata are equal, consecutive runs of rows.
    """

    residuals: Products | BlockProducts
    along_mean: Float[np.ndarray, " rows"]
    mean_sq: float
    individual: Float[np.ndarray, " rows"]
    lag_products: Float[np.ndarray, "rows lags"]
    mean_steps: float
    num_strata: int = 1
    num_masked: int = 0

    def __post_init__(self):
        if self.num_rows < 2 * self.num_strata:
            raise ValueError(f"rows: {self.num_rows} given, a variance needs at least 2")

    @property
    def num_rows(self) -> int:
        """Rows that are independent of each other (of whole iterations: iterations)."""
        return len(self.individual)

    @property
    def rows_per_batch(self) -> int | None:
        """Rows of the batches that were measured; None where rows are independent and any number makes a batch."""
        return None

    def variance_terms(self, num_envs: int) -> Float[np.ndarray, " rows"]:
        """One number per row whose mean is T² Var(G_B), of a batch of num_envs rows."""
        return self.row_terms / num_envs

    @property
    def between_terms(self) -> Float[np.ndarray, " rows"] | None:
        """One number per row whose mean is T² C, the covariance of two rows of a batch; None where it is unknown."""
        return None

    @property
    def row_terms(self) -> Float[np.ndarray, " rows"]:
        """One number per row whose mean is Tr Cov(S), with M − 1 (per stratum)."""
        return self._unbiased(self.residuals.diagonal)

    @property
    def individual_terms(self) -> Float[np.ndarray, " rows"]:
        """One number per row whose mean is Σ_t Tr Cov(g_t), with M − 1."""
        return self._unbiased(self.individual)

    @property
    def lag_terms(self) -> Float[np.ndarray, "rows lags"]:
        """One number per row and lag whose mean is C_k, with M − 1.

        Where samples are masked, per sample that counts, as the variance: Σ (1 − k/T) C_k is still T Var(G_B) N.
        """
        lags = self.lag_products.shape[1]
        return self._unbiased(self.lag_products) / (lags - np.arange(lags)) * (lags / self.mean_steps) ** 2

    def _unbiased(self, squares: Float[np.ndarray, "rows ..."]) -> Float[np.ndarray, "rows ..."]:
        """Mean times c/(c−1), spread times √((c−1)/(c−2)) (right for Gaussian rows), c rows in a stratum."""
        size = self.num_rows // self.num_strata
        terms = squares * size / (size - 1)
        mean = terms.mean(axis=0)
        return mean + (terms - mean) * np.sqrt((size - 1) / max(size - 2, 1))


@dataclass(frozen=True)
class Decomposition:
    """Var(G_B) = individual + covariance + between_rows, effective sample size, |G|², the covariance at every lag.

    `covariance` is the covariance within rows. `between_rows` is that between the rows of a batch, known where whole
    iterations were measured; `variance_floor` is what remains of Var(G_B) with ever more rows.
    """

    variance: Estimate
    individual: Estimate
    covariance: Estimate
    ess: Estimate
    grad_sq: Estimate
    lag_covariance: Float[np.ndarray, " lags"]
    lag_interval: Float[np.ndarray, "lags 2"]
    num_masked: int
    between_rows: Estimate = UNRESOLVED
    variance_floor: Estimate = UNRESOLVED

    def __repr__(self) -> str:
        names = ("variance", "individual", "covariance", "between_rows", "ess")
        terms = ", ".join(f"{name} {getattr(self, name)}" for name in names)
        return f"<Decomposition: {terms}, grad_sq {self.grad_sq}, {len(self.lag_covariance)} lags>"


def position_sums(gradients: ArrayLike, mask: ArrayLike | None = None) -> PositionSums:
    """Sums over a chunk of rows, gradients [rows, T, P], mask [rows, T] true where a sample is valid."""
    gradients, valid = _checked(gradients, mask)
    total = np.asarray(np.sum(gradients, axis=0, where=valid[:, :, None], dtype=np.float64))
    return PositionSums(total, valid.sum(axis=0, dtype=np.float64), len(gradients))


def row_moments(gradients: ArrayLike, positions: PositionSums, mask=None, gradient=None) -> RowMoments:
    """Moments of a chunk of rows about the position means of all rows of their stratum.

    x_t = valid_t (g_t − G) − its mean over rows; lag products of long rows by FFT, T log T.
    `gradient` is G over all strata, where there is more than one.
    """
    gradients, valid = _checked(gradients, mask)
    gradient = positions.mean if gradient is None else gradient
    centred = _centre(gradients, valid, positions, gradient)
    return RowMoments(centred.sum(axis=1), lag_products(centred), valid.sum(axis=1, dtype=np.float64))


def lag_products(centred: Float[np.ndarray, "rows T P"]) -> Float[np.ndarray, "rows T"]:
    """Σ_t x_t·x_{t+k} of every row at every lag k."""
    num_steps = centred.shape[1]
    if num_steps <= LONG_ROW:
        return _diagonal_sums(centred @ centred.transpose(0, 2, 1))
    length = fft.next_fast_len(2 * num_steps - 1, real=True)
    power = np.sum(np.abs(fft.rfft(centred, length, axis=1, workers=-1)) ** 2, axis=2)
    return fft.irfft(power, length, axis=1)[:, :num_steps]


def row_statistics(moments: Sequence[RowMoments], gradient: np.ndarray, num_strata: int = 1) -> RowStatistics:
    """Join the moments of all chunks, in the order of their rows."""
    joined = moments[0]
    if len(moments) > 1:
        joined = RowMoments(*(np.concatenate(parts) for parts in zip(*(vars(chunk).values() for chunk in moments))))
    residual, products, steps = joined.residual, joined.lag_products, joined.steps
    if not (np.isfinite(residual).all() and np.isfinite(gradient).all()):
        raise ValueError("gradients: not all numbers are finite")
    return RowStatistics(
        residuals=Products.of(residual),
        along_mean=residual @ np.asarray(gradient, residual.dtype),
        mean_sq=float(gradient @ gradient),
        individual=products[:, 0],
        lag_products=products,
        mean_steps=float(steps.mean()),
        num_strata=num_strata,
        num_masked=int(products.size - steps.sum()),
    )


def gradient_statistics(gradients: ArrayLike, mask: ArrayLike | None = None) -> RowStatistics:
    """Row statistics of gradients [rows, T, P] in memory, chunk by chunk: no second such array is made."""
    gradients, valid = _checked(gradients, mask)
    size = max(1, CHUNK_ELEMENTS // (gradients.shape[1] * gradients.shape[2]))
    chunks = [slice(start, start + size) for start in range(0, len(gradients), size)]
    positions = position_sums(gradients, valid)
    moments = [row_moments(gradients[rows], positions, valid[rows]) for rows in chunks]
    return row_statistics(moments, positions.mean)


def mean_statistics(rows: Float[np.ndarray, "rows P"]) -> RowStatistics:
    """Row statistics of rows that are one vector each, whose mean is what counts."""
    mean = rows.mean(axis=0, dtype=np.float64)
    residual = rows - mean.astype(rows.dtype)
    own = np.einsum("mp,mp->m", residual, residual, dtype=np.float64)
    return row_statistics([RowMoments(residual, own[:, None], np.ones(len(rows)))], mean)


def gram_statistics(gram: ArrayLike, num_rows: int, num_steps: int) -> RowStatistics:
    """Row statistics from the inner products of all samples, [rows T, rows T], sample (m, t) at m T + t."""
    gram = np.asarray(gram, dtype=np.float64).reshape(2 * (num_rows, num_steps))
    half = gram - gram.mean(axis=0)
    both = half - half.mean(axis=2, keepdims=True)
    products = _diagonal_sums(np.einsum("mtms->mts", both))
    return RowStatistics(
        residuals=Products(None, both.sum(axis=(1, 3))),
        along_mean=half.mean(axis=(2, 3)).sum(axis=1),
        mean_sq=float(gram.mean()),
        individual=products[:, 0],
        lag_products=products,
        mean_steps=float(num_steps),
    )


def summed_gram_statistics(row_gram: ArrayLike, position_gram: ArrayLike, num_steps: int) -> RowStatistics:
    """Row statistics, without lags, from K = Σ_{t,s} g_{m,t}·g_{m',s} and Q = Σ_t g_{m,t}·g_{m',t}."""
    row_gram = np.asarray(row_gram, dtype=np.float64)
    position_gram = np.asarray(position_gram, dtype=np.float64)
    means, position_means = row_gram.mean(axis=0), position_gram.mean(axis=0)
    return RowStatistics(
        residuals=Products(None, row_gram - means - means[:, None] + means.mean()),
        along_mean=(means - means.mean()) / num_steps,
        mean_sq=float(means.mean()) / num_steps**2,
        individual=np.diagonal(position_gram) - 2 * position_means + position_means.mean(),
        lag_products=np.empty((len(row_gram), 0)),
        mean_steps=float(num_steps),
    )


def carry_statistics(gradients: ArrayLike, mask: ArrayLike | None = None) -> RowStatistics:
    """Row statistics of [replicates, N, T, P]: means by environment and position; environments are strata."""
    gradients = np.asarray(gradients)
    replicates, num_envs = gradients.shape[:2]
    if replicates < MIN_ROWS:
        raise ValueError(f"replicates: {replicates} given, carried states need at least {MIN_ROWS}")
    valid = np.ones(gradients.shape[:3], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    sums = [position_sums(gradients[:, n], valid[:, n]) for n in range(num_envs)]
    gradient = sum(sums[1:], start=sums[0]).mean
    moments = [row_moments(gradients[:, n], sums[n], valid[:, n], gradient) for n in range(num_envs)]
    return row_statistics(moments, gradient, num_strata=num_envs)


@dataclass(frozen=True)
class IterationMoments:
    """What is kept of each of K iterations of N rows: Σ_r S_r, Σ_r |S_r|², the products of x at every lag summed over
    rows, those of Σ_r x_r, and the number of valid samples."""

    residual: Float[np.ndarray, "K P"]
    row_squares: Float[np.ndarray, " K"]
    lag_products: Float[np.ndarray, "K T"]
    shared_products: Float[np.ndarray, "K T"]
    steps: Float[np.ndarray, " K"]


@dataclass(frozen=True, eq=False)
class IterationStatistics(RowStatistics):
    """Statistics of K independent iterations of N rows that may share something.

    An iteration takes the place of a row: `residuals` are means over its rows, `lag_products` are sums. Of any
    quadratic q, with W the variance within iterations and B that of means over rows,

        W = mean_k [Σ_r q(x_kr) − q(Σ_r x_kr)/N] / (N − 1),   B = Σ_k q(Σ_r x_kr) / (N² (K − 1))
        Cov(R_r, R_s) = C = B − W/N,   Var(R) = W + C
    """

    num_envs: int = 1
    row_squares: Float[np.ndarray, " K"] | None = None
    shared_products: Float[np.ndarray, "K lags"] | None = None

    @property
    def rows_per_batch(self) -> int:
        return self.num_envs

    @property
    def row_terms(self) -> Float[np.ndarray, " K"]:
        return self._of_rows(self.row_squares, self.residuals.diagonal * self.num_envs**2)

    @property
    def individual_terms(self) -> Float[np.ndarray, " K"]:
        assert self.shared_products is not None
        return self._of_rows(self.individual, self.shared_products[:, 0])

    @property
    def lag_terms(self) -> Float[np.ndarray, "K lags"]:
        lags = self.lag_products.shape[1]
        products = self._of_rows(self.lag_products, self.shared_products)
        return products / (lags - np.arange(lags)) * (lags / self.mean_steps) ** 2

    @property
    def between_terms(self) -> Float[np.ndarray, " K"] | None:
        if self.num_envs == 1:
            return None
        means = self.residuals.diagonal
        return self._unbiased(means) - self._within(self.row_squares, means * self.num_envs**2) / self.num_envs

    def variance_terms(self, num_envs: int) -> Float[np.ndarray, " K"]:
        if num_envs == 1:
            return self.row_terms
        if self.between_terms is None:
            raise ValueError(f"num_envs: {num_envs} given, but iterations of one row do not tell what rows share")
        return self.row_terms / num_envs + (1 - 1 / num_envs) * self.between_terms

    def _of_rows(self, own, shared) -> Float[np.ndarray, "K ..."]:
        """One number per iteration whose mean is W + C."""
        means = self._unbiased(shared / self.num_envs**2)
        return means if self.num_envs == 1 else means + (1 - 1 / self.num_envs) * self._within(own, shared)

    def _within(self, own, shared) -> Float[np.ndarray, "K ..."]:
        """One number per iteration whose mean is W."""
        return (own - shared / self.num_envs) / (self.num_envs - 1)


def iteration_statistics(gradients: ArrayLike, mask: ArrayLike | None = None) -> IterationStatistics:
    """Statistics of independent iterations of one policy, from gradients [K, N, T, P]."""
    gradients = np.asarray(gradients)
    valid = np.ones(gradients.shape[:3], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    sums = [position_sums(*pair) for pair in zip(gradients, valid)]
    positions = sum(sums[1:], start=sums[0])
    kept = []
    for rows, counted in zip(gradients, valid):
        centred = _centre(rows, counted, positions, positions.mean)
        own, shared = lag_products(centred).sum(axis=0), lag_products(centred.sum(axis=0)[None])[0]
        squares = np.sum(centred.sum(axis=1) ** 2)
        kept.append((centred.sum(axis=(0, 1)), squares, own, shared, float(counted.sum())))
    moments = IterationMoments(*(np.array(part) for part in zip(*kept)))
    return statistics_of_iterations(moments, positions.mean, gradients.shape[1])


def statistics_of_iterations(moments: IterationMoments, gradient: np.ndarray, num_envs: int) -> IterationStatistics:
    """Statistics of iterations of num_envs rows whose moments are about the means over all of them."""
    means, steps = moments.residual / num_envs, moments.steps / num_envs
    common = row_statistics([RowMoments(means, moments.lag_products, steps)], gradient)
    return IterationStatistics(
        **vars(common) | {"num_masked": int(num_envs * (moments.lag_products.shape[1] * len(steps) - steps.sum()))},
        num_envs=num_envs,
        row_squares=moments.row_squares,
        shared_products=moments.shared_products,
    )


@lru_cache(maxsize=2)
def decompose_rows(rows: RowStatistics, num_envs: int, seed: int = 0) -> Decomposition:
    """Estimates for a batch of num_envs rows, with intervals from a bootstrap over rows within strata.

    Var(G_B) = Tr Cov(S) / (N T²) + (N − 1)/N C,   Term 1 = Σ_t Tr Cov(g_t) / (N T²),   ESS = N T Term 1 / Var
    C, the covariance of two rows of a batch, is 0 where rows are independent.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs: {num_envs} given, at least 1 needed")
    weights = bootstrap_weights(rows.num_rows, seed, rows.num_strata)
    own = rows.individual_terms / (num_envs * rows.mean_steps**2)
    total = rows.variance_terms(num_envs) / rows.mean_steps**2
    shared = np.zeros_like(total) if rows.between_terms is None else rows.between_terms / rows.mean_steps**2
    within = total - own - (1 - 1 / num_envs) * shared
    terms = np.column_stack([own, total, total - own, within, shared, rows.lag_terms])
    columns = resample(terms, weights, rows.num_strata)
    lo, hi = studentized(*columns)
    known = rows.num_rows >= MIN_ROWS
    variance, individual = (positive_estimate(columns, column, rows.num_rows) for column in (1, 0))
    covariance, floor = (Estimate(float(columns.mean[c]), float(lo[c]), float(hi[c]), known) for c in (3, 4))
    ess = ratio_estimate(columns, rows.num_rows, num_envs * rows.mean_steps)
    lag_interval = np.stack([lo[5:], hi[5:]], axis=1)
    if rows.mean_sq == 0 and not rows.residuals.diagonal.any():  # every gradient is 0: nothing was seen
        variance = individual = unresolved(0.0)
    if rows.lag_products.shape[1] == 1:  # one step has no covariance, not even one of rounding errors
        covariance = Estimate(0.0, 0.0, 0.0, covariance.resolved)
    if math.isnan(variance.lo) or math.isnan(individual.lo):  # a few rows carry it all: nothing made of them is known
        covariance, ess, lag_interval = unresolved(covariance.value), unresolved(ess.value), lag_interval * math.nan
        floor = unresolved(floor.value)
    floor = UNRESOLVED if rows.between_terms is None else floor
    return Decomposition(
        variance=variance,
        individual=individual,
        covariance=covariance,
        ess=ess,
        grad_sq=squared_mean(rows, seed).estimate(),
        lag_covariance=columns.mean[5:],
        lag_interval=lag_interval,
        num_masked=rows.num_masked,
        between_rows=_between_rows(rows, floor, num_envs),
        variance_floor=floor,
    )


def _between_rows(rows: RowStatistics, floor: Estimate, num_envs: int) -> Estimate:
    """(N − 1)/N C: 0 for a batch of one row, unknown where rows were drawn independently."""
    if rows.rows_per_batch is None:
        return UNRESOLVED
    return floor.times(1 - 1 / num_envs) if num_envs > 1 else Estimate(0.0, 0.0, 0.0)


@lru_cache(maxsize=3)  # several quantities of one probe are made of it
def squared_mean(rows: RowStatistics, seed: int) -> SquareErrors:
    """|G|² without bias, |mean|² − Tr Cov(S) / (M T²), and its errors."""
    return square_errors(rows, bootstrap_weights(rows.num_rows, seed, rows.num_strata))


def square_errors(rows: RowStatistics, weights: Float[np.ndarray, "resamples rows"]) -> SquareErrors:
    """The same in given resamples."""
    residuals, along_mean = rows.residuals.scaled(1 / rows.mean_steps), rows.along_mean / rows.mean_steps
    return SquareErrors(residuals, along_mean, rows.mean_sq, weights, rows.num_strata)


def decompose(
    gradients: ArrayLike, num_envs: int, seed: int = 0, mask: ArrayLike | None = None, iterations: int | None = None
) -> Decomposition:
    """Decompose the variance of a batch of num_envs rows.

    Args:
        gradients: per-sample gradients `[rows, T, P]` of independent rows; or, with `iterations`, of K N rows, the N
            rows of iteration 0 first.
        num_envs: N, the rows of the batch.
        seed: of the bootstrap.
        mask: `[rows, T]`, true where a sample is valid.
        iterations: K. Rows of one iteration may share something (environments that reset together are at the same
            phase of their episodes), iterations are independent of each other and have the same policy.

    Returns:
        The variance and its terms; `between_rows` only with `iterations`.
    """
    if iterations is None:
        return decompose_rows(gradient_statistics(gradients, mask), num_envs, seed)
    gradients, valid = _checked(gradients, mask)
    if len(gradients) % iterations:
        raise ValueError(f"iterations: {iterations} given, they must divide the {len(gradients)} rows")
    by_iteration = lambda x: x.reshape(iterations, -1, *x.shape[1:])
    return decompose_rows(iteration_statistics(by_iteration(gradients), by_iteration(valid)), num_envs, seed)


def decompose_gram(gram: ArrayLike, num_rows: int, num_steps: int, num_envs: int, seed: int = 0) -> Decomposition:
    """As decompose, from the inner products of all samples [rows T, rows T] only."""
    return decompose_rows(gram_statistics(gram, num_rows, num_steps), num_envs, seed)


def decompose_carry(gradients: ArrayLike, seed: int = 0, mask: ArrayLike | None = None) -> Decomposition:
    """Decompose for rows that start from a run's own states, from gradients [replicates, N, T, P]."""
    return decompose_rows(carry_statistics(gradients, mask), np.shape(gradients)[1], seed)


def _diagonal_sums(grams: Float[np.ndarray, "rows T T"]) -> Float[np.ndarray, "rows T"]:
    """Σ_t x_t·x_{t+k} for every lag k."""
    return np.stack([np.trace(grams, k, axis1=1, axis2=2) for k in range(grams.shape[1])], axis=1)


def _checked(gradients, mask) -> tuple[Float[np.ndarray, "rows T P"], Bool[np.ndarray, "rows T"]]:
    gradients = np.asarray(gradients)
    if gradients.ndim != 3 or gradients.size == 0:
        raise ValueError(f"gradients: shape {gradients.shape} given, [rows, T, parameters] needed")
    valid = np.ones(gradients.shape[:2], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if valid.shape != gradients.shape[:2]:
        raise ValueError(f"mask: shape {valid.shape} given, {gradients.shape[:2]} needed")
    if not valid.any():
        raise ValueError("mask: no sample is valid")
    return gradients, valid


def _centre(gradients, valid, positions: PositionSums, gradient) -> Float[np.ndarray, "rows T P"]:
    """x_t = valid_t (g_t − G) − its mean over rows; what stands at masked samples never enters."""
    means = (positions.total - positions.count[:, None] * gradient) / positions.num_rows
    return np.where(valid[:, :, None], gradients - gradient, 0.0) - means
