"""The square of a mean without its bias, with an interval that holds near 0 and when noise is strong along the mean.

U = Σ_{m≠m'} x_m·x_m' / (M (M − 1)) is an unbiased |μ|² of iid rows x_m. Its error is 2 μ·δ + (a quadratic form in δ),
where δ is the noise of the mean: its spread depends on |μ|² and on the direction of μ, and both are known only through
the noisy mean. The interval is therefore the set of θ = |μ|² that the data do not reject. Every θ gets the mean it
would most plausibly have (`_plausible_means`), the bootstrap draws errors under that mean, and each is divided by the
standard error that its own resample would report (bootstrap-t): estimates that come out low also look too certain.

Rows enter by inner products only: residuals r_m·r_m' and r_m·mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from trimtab.core.estimate import Estimate
from trimtab.gradient.bootstrap import MIN_ROWS, percentile
from trimtab.gradient.inner_products import BlockProducts, Products

NUM_DIRECTIONS = 4  # in which plausible means may differ from the measured one
NUM_CANDIDATES = 256  # values of θ that are tested
SMALLEST = 1.0  # length² of a mean whose direction counts, in standard errors of its square
FARTHEST = 6.0  # largest θ tested, in standard errors of the mean


@dataclass(frozen=True)
class Directions:
    """Orthogonal directions: the measured mean, its image under the noise covariance Σ of the mean, and so on.

    They are turned so that Σ is diagonal in them; `components` are those of every row's residual.
    """

    mean: Float[np.ndarray, " k"]
    variances: Float[np.ndarray, " k"]
    components: Float[np.ndarray, "rows k"]


class SquareErrors:
    """Errors of U in bootstrap resamples, and the standard errors these would report, whatever the mean.

    Weights w draw row m w_m times. If the mean were μ, with δ = Σ_m (w_m − 1) r_m / M,

        error = 2 μ·δ + Σ_{m≠m'} (w_m − 1)(w_m' − 1) r_m·r_m' / M²
        reported² = 4 Var_w(r_m·μ + r_m·δ_{−m}) / M + tr Σ²,   δ_{−m}: the noise of all other rows

    No row meets itself, nor its own copies: that takes out the offset between |mean|² and U.
    """

    def __init__(
        self,
        residuals: Products | BlockProducts,
        along_mean: Float[np.ndarray, " rows"],
        mean_sq: float,
        weights: Float[np.ndarray, "resamples rows"],
        num_strata: int = 1,
    ):
        num_rows, own = len(residuals), residuals.diagonal
        unbiased = num_rows / (num_rows - num_strata)
        excess = weights - 1
        across = (residuals.times(excess) - excess * own) / num_rows
        quadratic = unbiased * np.einsum("rm,rm->r", across, excess) / num_rows

        self._mean_variance = unbiased * own.sum() / num_rows**2
        self.value = mean_sq - self._mean_variance
        self.num_rows = num_rows
        self.directions = _directions(residuals, along_mean, mean_sq, unbiased)
        self._noise = unbiased**2 * max(residuals.sum_of_squares - own @ own, 0.0) / num_rows**4  # tr Σ²
        own = (own - own.mean()) / num_rows
        self.reported = math.sqrt(4 * unbiased * np.sum((along_mean - own) ** 2) / num_rows**2 + self._noise)
        self._quadratic = quadratic - quadratic.mean()
        self._linear = math.sqrt(unbiased) * excess @ self.directions.components / num_rows
        self._moments = _weighted_moments(self.directions.components, across - own, weights)

    def under(self, means: Float[np.ndarray, "c k"]) -> tuple[np.ndarray, np.ndarray]:
        """(errors, reported) [resamples, c] if the mean were each of `means`, given by components."""
        squares, cross, own = self._moments
        i, j = np.triu_indices(means.shape[1])
        along = squares @ (means[:, i] * means[:, j]).T + 2 * cross @ means.T + own[:, None]
        reported = np.sqrt(4 * np.maximum(along, 0) / self.num_rows + self._noise)
        return 2 * self._linear @ means.T + self._quadratic[:, None], reported

    @property
    def at_estimate(self) -> Float[np.ndarray, " resamples"]:
        """Errors if |μ|² were what was measured."""
        return self.under(self._start[None])[0][:, 0]

    def estimate(self) -> Estimate:
        """U and its interval; resolved if all of it is above 0.

        lo: U = θ + q_hi(θ),   hi: max(U, 0) = θ + q_lo(θ),   q(θ): quantile of (error / reported) × what U reports
        Below 0 only the quadratic part is left. An estimate below 0 reaches up as far as one at 0.
        """
        return self._estimate

    @cached_property
    def _estimate(self) -> Estimate:
        if self.reported == 0:
            return Estimate(self.value, self.value, self.value, self.value > 0 and self.num_rows >= MIN_ROWS)
        widest = 3 * math.sqrt(self.directions.variances.max()) + math.sqrt(np.abs(self._quadratic).max())
        root = np.linspace(0, math.sqrt(max(self.value, 0)) + FARTHEST * widest, NUM_CANDIDATES)
        spread = self._mean_variance / self.num_rows
        errors, reported = self.under(_plausible_means(root, self._start, self.directions.variances + spread))
        low, high = percentile(errors / reported)
        above = self.value - high * self.reported - root**2  # positive where θ is rejected as too low
        below = max(self.value, 0) - low * self.reported - root**2  # negative where θ is rejected as too high
        lo = _zero(root**2, above, int(np.argmax(above <= 0)) - 1) if above[0] > 0 else above[0]
        hi = _zero(root**2, below, int(np.flatnonzero(below > 0)[-1])) if below.max() > 0 else below[0]
        return Estimate(self.value, float(lo), float(hi), bool(lo > 0) and self.num_rows >= MIN_ROWS)

    @property
    def _start(self) -> Float[np.ndarray, " k"]:
        """The measured mean, shortened to the measured |μ|² (but to no less than SMALLEST standard errors of it)."""
        mean = self.directions.mean
        mean_sq = float(mean @ mean)
        return mean * math.sqrt(max(self.value, SMALLEST * self.reported) / mean_sq) if mean_sq > 0 else mean


def _directions(residuals: Products | BlockProducts, along_mean, mean_sq: float, unbiased: float) -> Directions:
    """Lanczos from the mean, where a vector is (a, b): a mean + Σ_m b_m r_m, and Σ = unbiased Σ_m r_m r_m' / M²."""
    num_rows = len(residuals)
    scale = unbiased / num_rows**2
    if mean_sq <= 0:
        return Directions(np.zeros(1), np.zeros(1), np.zeros((num_rows, 1)))
    length = math.sqrt(mean_sq)
    basis, components = [(1 / length, np.zeros(num_rows))], [along_mean / length]
    for _ in range(NUM_DIRECTIONS - 1):
        a, b = 0.0, scale * components[-1]
        for (a_old, b_old), row in 2 * list(zip(basis, components)):  # twice against rounding
            overlap = a * (a_old * mean_sq + along_mean @ b_old) + b @ row
            a, b = a - overlap * a_old, b - overlap * b_old
        row = a * along_mean + residuals.times(b)
        norm_sq = a * a * mean_sq + a * (along_mean @ b) + b @ row
        if norm_sq <= 1e-12 * (scale * residuals.diagonal.sum()) ** 2:
            break
        norm = math.sqrt(norm_sq)
        basis.append((a / norm, b / norm))
        components.append(row / norm)
    rows = np.stack(components, axis=1)
    variances, turn = np.linalg.eigh(scale * rows.T @ rows)
    return Directions(length * turn[0], np.maximum(variances, 0), rows @ turn)


def _plausible_means(
    root: Float[np.ndarray, " c"], start: Float[np.ndarray, " k"], variances: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "c k"]:
    """For each length in `root`, the mean of that length: `start` made shorter, or made longer where noise is strong.

    The nearest mean of a greater length, in the metric Σ⁻¹, is start_j / (1 − η v_j): if the truth is larger than what
    was measured, noise has hidden it, most likely noise along the directions that have most of it.
    """
    share = variances / variances.max() if variances.max() > 0 else np.ones_like(variances)
    left, right = np.full(len(root), -60.0), np.zeros(len(root))  # of log(1 − η v_max), by bisection

    def stretched(log_gap):
        return start / (1 - share + np.exp(log_gap)[:, None] * share)

    for _ in range(50):
        middle = (left + right) / 2
        long = np.sum(stretched(middle) ** 2, axis=1) > root**2
        left, right = np.where(long, middle, left), np.where(long, right, middle)
    length = math.sqrt(float(start @ start))
    shorter = np.outer(root / length, start) if length > 0 else np.zeros((len(root), len(start)))
    return np.where((root <= length)[:, None], shorter, stretched(right))


def _weighted_moments(components, across, weights):
    """Variances and covariances over the rows of each resample: of components by pairs, with `across`, of `across`."""
    num_rows = len(components)
    i, j = np.triu_indices(components.shape[1])
    mean, weighted = weights @ components / num_rows, weights * across
    mean_across = weighted.sum(axis=1, keepdims=True) / num_rows
    squares = weights @ (components[:, i] * components[:, j]) / num_rows - mean[:, i] * mean[:, j]
    cross = weighted @ components / num_rows - mean_across * mean
    own = np.einsum("rm,rm->r", weighted, across) / num_rows - mean_across[:, 0] ** 2
    return squares * np.where(i == j, 1.0, 2.0), cross, own


def _zero(x, y, at: int) -> float:
    """Where the line through points `at` and at + 1 (the last two, if there are no more) crosses 0."""
    at = min(int(at), len(x) - 2)
    return x[at] - y[at] * (x[at + 1] - x[at]) / (y[at + 1] - y[at])
