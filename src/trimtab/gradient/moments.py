"""Streaming moments of per-sample gradients: two passes over replicates, each replicate the same compiled program.

Nothing of size [samples, parameters] is kept: per replicate the first pass leaves sums over rows at every position,
the second one sum and T numbers per row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from trimtab.gradient.row_sampling import Rows
from trimtab.gradient.variance import (
    IterationMoments,
    PositionSums,
    RowMoments,
    RowStatistics,
    row_statistics,
    statistics_of_iterations,
)
from trimtab.nets.agent import Params
from trimtab.training.sample_gradients import PerSample, Samples, chunked_vectors


class First(NamedTuple):
    """Sums over rows at every position; by environment too, where rows start from a run's own states."""

    total: Float[Array, "T ... width"]
    counts: Float[Array, "T ..."]


class Second(NamedTuple):
    """Per row: centred sum, products at every lag, valid samples, and the paired difference to the reference."""

    residual: Float[Array, "N width"]
    lag_products: Float[Array, "N T"]
    steps: Float[Array, " N"]
    difference: Float[Array, "N width"] | None


class SecondOfIterations(NamedTuple):
    """Per iteration: sums over its rows of what `Second` holds, of squares, and products of the sum of its rows."""

    residual: Float[Array, "K width"]
    row_squares: Float[Array, " K"]
    lag_products: Float[Array, "K T"]
    shared_products: Float[Array, "K T"]
    steps: Float[Array, " K"]
    difference: Float[Array, "K width"] | None


class Measurer:
    """The two compiled passes for one way of computing per-sample gradients.

    `by_env`: rows start from a run's own states. `by_iteration`: N, where N rows are one iteration and share something.
    """

    def __init__(self, per_sample: PerSample, params: Params, by_env: bool = False, by_iteration: int | None = None):
        self.per_sample, self.params, self.by_env, self.by_iteration = per_sample, params, by_env, by_iteration
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

    def _second_pass(
        self, params: Params, rows: Rows, means: Float[Array, "*N T width"], gradient: Float[Array, " width"]
    ) -> Second | SecondOfIterations:
        """x_t = valid_t (g_t - G) - μ_t; row by row, or iteration by iteration."""
        by_row = lambda x: jnp.swapaxes(x, 0, 1)

        def row(inputs) -> tuple[Float[Array, "T width"], Second]:
            samples, reference, valid, mean = inputs
            weight = valid.astype(jnp.float32)[:, None]
            vectors = chunked_vectors(self.per_sample, params, samples)
            centred = weight * (vectors - gradient[None]) - (means if mean is None else mean)
            difference = None
            if reference is not None:
                gap = samples._replace(advantage=samples.advantage - reference)
                difference = (weight * chunked_vectors(self.per_sample, params, gap)).sum(0) / weight.sum()
            return centred, Second(centred.sum(0), lag_sums(centred @ centred.T), weight.sum(), difference)

        def iteration(inputs) -> SecondOfIterations:
            def add(total, inputs):
                centred, kept = row(inputs)
                return total + centred, (kept, (kept.residual**2).sum())

            total, (kept, squares) = jax.lax.scan(add, jnp.zeros_like(means), inputs)
            of_sum = Second(total.sum(0), lag_sums(total @ total.T), kept.steps.sum(), None)
            difference = None if kept.difference is None else kept.difference.mean(0)
            return SecondOfIterations(
                of_sum.residual, squares.sum(), kept.lag_products.sum(0), of_sum.lag_products, of_sum.steps, difference
            )

        samples = jax.tree.map(by_row, rows.samples)
        reference = None if rows.reference is None else by_row(rows.reference)
        inputs = (samples, reference, by_row(rows.valid), means if self.by_env else None)
        if self.by_iteration is None:
            return jax.lax.map(lambda x: row(x)[1], inputs)
        return jax.lax.map(iteration, jax.tree.map(lambda x: x.reshape(-1, self.by_iteration, *x.shape[1:]), inputs))

    def first(self, rows: Rows) -> First:
        """Set going where the rows are; so is `second`."""
        return self._first(self.params, rows)

    def second(self, rows: Rows, means: np.ndarray, gradient: np.ndarray) -> Second | SecondOfIterations:
        to = lambda x: jnp.asarray(x, jnp.float32)
        return self._second(self.params, rows, to(means), to(gradient))


def lag_sums(gram: Float[Array, "T T"]) -> Float[Array, " T"]:
    """Σ_t gram[t, t+k] for every k: skewing the matrix turns diagonals into columns."""
    size = gram.shape[0]
    padded = jnp.pad(gram[:, ::-1], ((0, 0), (0, size)))
    skewed = padded.reshape(-1)[: size * (2 * size - 1)].reshape(size, 2 * size - 1)
    return skewed.sum(0)[:size][::-1]


class Measured(NamedTuple):
    """Row statistics of the gradients, paired differences, reference rows (whose mean is G_T), means of replicates.

    Where N rows are one iteration, M counts iterations, and differences and references are means over their rows.
    """

    rows: RowStatistics
    differences: Float[np.ndarray, "M width"] | None
    reference: Float[np.ndarray, "M width"] | None
    means: Float[np.ndarray, "replicates width"]
    gradient: Float[np.ndarray, " width"]


def in_turn(begin: Callable[[int], Any], count: int, ahead: int) -> Iterator[Any]:
    """What `begin(0) ... begin(count - 1)` set going, in this order, `ahead` of them under way at once."""
    under_way: deque[Any] = deque()
    for number in range(count):
        under_way.append(begin(number))
        if len(under_way) == ahead:
            yield under_way.popleft()
    yield from under_way


def measure(
    measurer: Measurer,
    draw: Callable[[int], Rows],
    replicates: int,
    tick: Callable[[], None] = lambda: None,
    devices: int = 1,
) -> Measured:
    """Both passes over `draw(0) ... draw(replicates - 1)`; a compiled sampler simulates each replicate twice.

    Replicates come from as many `devices` in turn. Each is computed by one of them and they are added up here in their
    order, so that the numbers do not depend on how many there are.
    """
    positions, means = _position_sums(measurer, draw, replicates, tick, devices)
    gradient = positions.total.reshape(-1, positions.total.shape[-1]).sum(0) / positions.count.sum()
    centre = positions.total - positions.count[..., None] * gradient
    # Carried starts: means by environment and position, over replicates.
    position_means = np.moveaxis(centre, 1, 0) / replicates if measurer.by_env else centre / positions.num_rows
    kept = _Kept(replicates)
    begin_again = lambda r: measurer.second(draw(r), position_means, gradient)
    for r, second in enumerate(in_turn(begin_again, replicates, devices)):
        kept.keep(r, jax.tree.map(np.asarray, second))
        tick()
    difference, reference = kept.arrays.get("difference"), None
    residual, steps = kept.arrays["residual"], kept.arrays["steps"]
    if difference is not None and not measurer.by_env:  # row means less what the reference would have had
        reference = (residual / np.maximum(steps, 1).astype(np.float32)[:, None]) - difference
        reference += gradient.astype(np.float32)
    return Measured(_statistics(measurer, kept, replicates, gradient), difference, reference, means, gradient)


def _position_sums(
    measurer: Measurer, draw: Callable[[int], Rows], replicates: int, tick: Callable[[], None], devices: int
) -> tuple[PositionSums, Float[np.ndarray, "replicates width"]]:
    """The first pass: sums over all rows at every position, and the mean gradient of every replicate."""
    total, counts, means, num_rows = np.zeros(()), np.zeros(()), [], 0

    def begin(r: int) -> tuple[First, int]:
        rows = draw(r)
        return measurer.first(rows), rows.valid.shape[1]

    for under_way, rows in in_turn(begin, replicates, devices):
        its_total, its_counts = (np.asarray(x, np.float64) for x in under_way)
        means.append(its_total.reshape(-1, its_total.shape[-1]).sum(0) / max(its_counts.sum(), 1.0))
        total, counts, num_rows = total + its_total, counts + its_counts, num_rows + rows
        tick()
    return PositionSums(total, counts, num_rows), np.array(means)


class _Kept:
    """What the second pass leaves of all replicates, each array allocated once, vectors in the precision they have."""

    def __init__(self, replicates: int):
        self.replicates, self.size = replicates, 0
        self.arrays: dict[str, np.ndarray] = {}

    def keep(self, replicate: int, second: Second | SecondOfIterations) -> None:
        """Keep what one replicate leaves: `size` rows, or iterations."""
        self.size = len(second.steps)
        rows = slice(replicate * self.size, (replicate + 1) * self.size)
        for name, part in second._asdict().items():
            if part is None:
                continue
            if name not in self.arrays:
                kind = np.float32 if name in ("residual", "difference") else np.float64
                self.arrays[name] = np.empty((self.replicates * self.size, *part.shape[1:]), kind)
            self.arrays[name][rows] = part


def _statistics(measurer: Measurer, kept: _Kept, replicates: int, gradient: np.ndarray) -> RowStatistics:
    """What estimators need of all rows, or iterations."""
    parts = {name: array for name, array in kept.arrays.items() if name != "difference"}
    if measurer.by_iteration is not None:
        return statistics_of_iterations(IterationMoments(**parts), gradient, measurer.by_iteration)
    moments = RowMoments(**parts)
    if measurer.by_env:
        moments = by_environment(moments, replicates)
    return row_statistics([moments], gradient, num_strata=kept.size if measurer.by_env else 1)


def by_environment(moments: RowMoments, replicates: int) -> RowMoments:
    """Rows regrouped so that each environment's replicates are consecutive: one stratum each."""
    turned = lambda x: np.swapaxes(x.reshape(replicates, -1, *x.shape[1:]), 0, 1).reshape(x.shape)
    return RowMoments(turned(moments.residual), turned(moments.lag_products), turned(moments.steps))


def flat(samples: Samples) -> Samples:
    """[T, N, ...] to [N·T, ...], sample (n, t) at n T + t."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), samples)
