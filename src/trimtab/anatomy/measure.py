"""Streaming moments of per-sample gradients: two passes over replicates, each replicate the same compiled program.

Nothing of size [samples, parameters] is kept: per replicate the first pass leaves sums over rows at every position,
the second one sum and T numbers per row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from trimtab.algos.gradients import PerSample, Samples, chunked_vectors
from trimtab.anatomy.sampling import Rows
from trimtab.anatomy.variance import PositionSums, RowMoments, RowStatistics, row_statistics
from trimtab.nets.agent import Params


class First(NamedTuple):
    """Sums over rows at every position; by environment too, where rows start from a run's own states."""

    total: Float[Array, "T ... width"]
    count: Float[Array, "T ..."]


class Second(NamedTuple):
    """Per row: centred sum, products at every lag, valid samples, and the paired difference to the reference."""

    residual: Float[Array, "N width"]
    lag_products: Float[Array, "N T"]
    steps: Float[Array, " N"]
    difference: Float[Array, "N width"] | None


class Measurer:
    """The two compiled passes for one way of computing per-sample gradients."""

    def __init__(self, per_sample: PerSample, params: Params, by_env: bool = False):
        self.per_sample, self.params, self.by_env = per_sample, params, by_env
        self._first, self._second = jax.jit(self._first_pass), jax.jit(self._second_pass)

    def _first_pass(self, params: Params, rows: Rows) -> First:
        """Σ over rows of valid g_t, position by position."""

        def position(inputs):
            samples, valid = inputs
            weight = valid.astype(jnp.float32)
            vectors = chunked_vectors(self.per_sample, params, samples)
            return (vectors * weight[:, None], weight) if self.by_env else (weight @ vectors, weight.sum())

        total, count = jax.lax.map(position, (rows.samples, rows.valid))
        return First(total, count)

    def _second_pass(self, params: Params, rows: Rows, means: Float[Array, "*N T width"], gradient) -> Second:
        """x_t = valid_t (g_t - G) - μ_t; row by row."""
        by_row = lambda x: jnp.swapaxes(x, 0, 1)

        def row(inputs):
            samples, reference, valid, mean = inputs
            weight = valid.astype(jnp.float32)[:, None]
            vectors = chunked_vectors(self.per_sample, params, samples)
            centred = weight * (vectors - gradient[None]) - (means if mean is None else mean)
            difference = None
            if reference is not None:
                gap = samples._replace(advantage=samples.advantage - reference)
                difference = (weight * chunked_vectors(self.per_sample, params, gap)).sum(0) / weight.sum()
            return Second(centred.sum(0), lag_sums(centred @ centred.T), weight.sum(), difference)

        samples = jax.tree.map(by_row, rows.samples)
        reference = None if rows.reference is None else by_row(rows.reference)
        return jax.lax.map(row, (samples, reference, by_row(rows.valid), means if self.by_env else None))

    def first(self, rows: Rows) -> First:
        return jax.tree.map(lambda x: np.asarray(x, np.float64), self._first(self.params, rows))

    def second(self, rows: Rows, means: np.ndarray, gradient: np.ndarray) -> Second:
        to = lambda x: jnp.asarray(x, jnp.float32)
        return jax.tree.map(
            lambda x: np.asarray(x, np.float64), self._second(self.params, rows, to(means), to(gradient))
        )


def lag_sums(gram: Float[Array, "T T"]) -> Float[Array, " T"]:
    """Σ_t gram[t, t+k] for every k: skewing the matrix turns diagonals into columns."""
    size = gram.shape[0]
    padded = jnp.pad(gram[:, ::-1], ((0, 0), (0, size)))
    skewed = padded.reshape(-1)[: size * (2 * size - 1)].reshape(size, 2 * size - 1)
    return skewed.sum(0)[:size][::-1]


class Measured(NamedTuple):
    """Row statistics of the gradients, paired differences, reference rows (whose mean is G_T), means of replicates."""

    rows: RowStatistics
    differences: Float[np.ndarray, "M width"] | None
    reference: Float[np.ndarray, "M width"] | None
    means: Float[np.ndarray, "replicates width"]
    gradient: Float[np.ndarray, " width"]


def measure(measurer: Measurer, draw, replicates: int, tick=lambda: None) -> Measured:
    """Both passes over `draw(0) ... draw(replicates - 1)`; a compiled sampler simulates each replicate twice."""
    firsts, means, count = None, [], 0
    for r in range(replicates):
        rows = draw(r)
        first = measurer.first(rows)
        totals = first.total.sum(1) if measurer.by_env else first.total
        means.append(totals.sum(0) / max(first.count.sum(), 1.0))
        firsts = first if firsts is None else First(firsts.total + first.total, firsts.count + first.count)
        count += rows.valid.shape[1]
        tick()
    if measurer.by_env:  # carried starts: means by environment and position, over replicates
        gradient = PositionSums(firsts.total.sum(1), firsts.count.sum(1), count).mean
        position_means = np.moveaxis(firsts.total - firsts.count[:, :, None] * gradient, 1, 0) / replicates
    else:
        sums = PositionSums(firsts.total, firsts.count, count)
        gradient = sums.mean
        position_means = (sums.total - sums.count[:, None] * gradient) / sums.num_rows
    moments, differences = [], []
    for r in range(replicates):
        second = measurer.second(draw(r), position_means, gradient)
        moments.append(RowMoments(second.residual, second.lag_products, second.steps))
        if second.difference is not None:
            differences.append(second.difference)
        tick()
    together = np.concatenate(differences) if differences else None
    reference = None
    if together is not None and not measurer.by_env:
        means_of_rows = np.concatenate([m.residual / np.maximum(m.steps, 1)[:, None] for m in moments]) + gradient
        reference = means_of_rows - together
    if measurer.by_env:
        moments = by_environment(moments)
    statistics = row_statistics(moments, gradient, num_strata=len(moments) if measurer.by_env else 1)
    return Measured(statistics, together, reference, np.array(means), gradient)


def by_environment(moments: list[RowMoments]) -> list[RowMoments]:
    """Rows regrouped so that each environment's replicates are consecutive: one stratum each."""
    stacked = [np.stack([getattr(m, name) for m in moments], axis=1) for name in ("residual", "lag_products", "steps")]
    return [RowMoments(*(part[n] for part in stacked)) for n in range(stacked[0].shape[0])]


def flat(samples: Samples) -> Samples:
    """[T, N, ...] to [N·T, ...], sample (n, t) at n T + t."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), samples)
