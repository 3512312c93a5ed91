"""Iterations of training, one after the other: one pass, bounded memory.

The policy changes between iterations, so each is centred by itself: its N rows give an unbiased variance and an
unbiased |G|² of that policy, and both are averaged over a window of iterations. What is kept of an iteration are the
inner products of its N rows and one number per row and lag, never a gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from trimtab.gradient.inner_products import BlockProducts
from trimtab.gradient.noise import NoiseScale, noise_scale
from trimtab.gradient.variance import (
    Decomposition,
    RowStatistics,
    decompose_rows,
    gradient_statistics,
    gram_statistics,
    summed_gram_statistics,
)

WINDOW = 32  # iterations


def pooled_statistics(iterations: Sequence[RowStatistics]) -> RowStatistics:
    """Row statistics of iterations as strata that have no direction in common.

    Row r of iteration k counts as (0, ..., r, ..., 0), its vector in place k. Variances are means over iterations, and
    the squared mean of all rows is Σ_k |G_k|² / K², the mean of |G_k|² over K.

    Args:
        iterations: statistics of K iterations with the same number of rows and of lags.

    Returns:
        Statistics with K strata.
    """
    rows = {statistics.num_rows for statistics in iterations}
    lags = {statistics.lag_products.shape[1] for statistics in iterations}
    if len(rows) != 1 or len(lags) != 1:
        raise ValueError(f"iterations: {sorted(rows)} rows and {sorted(lags)} lags given, they must be equal in all")
    count = len(iterations)
    joined = lambda name: np.concatenate([getattr(statistics, name) for statistics in iterations])
    every = np.eye(rows.pop())
    return RowStatistics(
        residuals=BlockProducts(np.stack([statistics.residuals.times(every) for statistics in iterations])),
        along_mean=joined("along_mean") / count,
        mean_sq=sum(statistics.mean_sq for statistics in iterations) / count**2,
        individual=joined("individual"),
        lag_products=joined("lag_products"),
        mean_steps=float(np.mean([statistics.mean_steps for statistics in iterations])),
        num_strata=count,
        num_masked=sum(statistics.num_masked for statistics in iterations),
    )


@dataclass(frozen=True)
class Pooled:
    """Estimates over a window of iterations: means of the variance terms and of |G|² of each."""

    statistics: RowStatistics

    @property
    def num_iterations(self) -> int:
        return self.statistics.num_strata

    def decompose(self, num_envs: int | None = None, seed: int = 0) -> Decomposition:
        """Variance, its terms and |G|², where rows of one iteration are independent given the policy.

        Args:
            num_envs: rows of the batch; those of an iteration by default.
            seed: of the bootstrap over rows.

        Returns:
            Means over the iterations, with intervals.
        """
        parts = decompose_rows(self.statistics, num_envs or self._num_rows, seed)
        return replace(parts, grad_sq=parts.grad_sq.times(self.num_iterations))

    def noise_scale(self, seed: int = 0) -> NoiseScale:
        """Noise scales: mean variance over mean |G|².

        Args:
            seed: of the bootstrap over rows.

        Returns:
            Noise scales in samples and in rows, with intervals.
        """
        found, count = noise_scale(self.statistics, seed), self.num_iterations
        scales = {name: getattr(found, name).times(1 / count) for name in ("simple", "trajectory", "environments")}
        return replace(found, **scales, grad_sq=found.grad_sq.times(count))

    @property
    def _num_rows(self) -> int:
        return self.statistics.num_rows // self.num_iterations


class IterationStream:
    """Takes one iteration after the other and keeps the statistics of the newest `window` of them."""

    def __init__(self, window: int = WINDOW):
        """
        Args:
            window: iterations to keep.
        """
        if window < 1:
            raise ValueError(f"window: {window} given, at least 1 needed")
        self._kept: deque[RowStatistics] = deque(maxlen=window)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, gradients: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Add an iteration.

        Args:
            gradients: per-sample gradients, or their sketches, `[rows, T, P]`.
            mask: `[rows, T]`, true where a sample is valid.
        """
        self.add_statistics(gradient_statistics(gradients, mask))

    def add_gram(self, gram: ArrayLike, num_rows: int, num_steps: int) -> None:
        """Add an iteration by the inner products of its samples.

        Args:
            gram: `[rows T, rows T]`, sample (m, t) at m T + t.
            num_rows: rows.
            num_steps: T.
        """
        self.add_statistics(gram_statistics(gram, num_rows, num_steps))

    def add_row_sums(self, row_gram: ArrayLike, position_gram: ArrayLike, num_steps: int) -> None:
        """Add an iteration by inner products of rows, without lags.

        Args:
            row_gram: `[rows, rows]`, Σ_{t,s} g_{m,t}·g_{m',s}.
            position_gram: `[rows, rows]`, Σ_t g_{m,t}·g_{m',t}.
            num_steps: T.
        """
        self.add_statistics(summed_gram_statistics(row_gram, position_gram, num_steps))

    def add_statistics(self, statistics: RowStatistics) -> None:
        """Add an iteration by its row statistics; all must have as many rows.

        Args:
            statistics: from any function of `trimtab.anatomy` that makes them.
        """
        if self._kept and self._kept[0].num_rows != statistics.num_rows:
            self._kept.clear()
        self._kept.append(statistics)

    def pooled(self) -> Pooled:
        """What the window says.

        Returns:
            Estimates over all iterations that are kept; at least one must have been added.
        """
        if not self._kept:
            raise ValueError("no iteration was added")
        return Pooled(pooled_statistics(self._kept))
