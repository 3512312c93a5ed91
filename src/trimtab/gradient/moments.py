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
from trimtab.gradient.variance import PositionSums, RowMoments, RowStatistics, row_statistics
from trimtab.nets.agent import Params
from trimtab.training.sample_gradients import PerSample, Samples, chunked_vectors


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
        """Set going where the rows are; so is `second`."""
        return self._first(self.params, rows)

    def second(self, rows: Rows, means: np.ndarray, gradient: np.ndarray) -> Second:
        to = lambda x: jnp.asarray(x, jnp.float32)
        return self._second(self.params, rows, to(means), to(gradient))


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


def in_turn(begin: Callable[[int], Any], count: int, ahead: int) -> Iterator[Any]:
    """What `begin(0) ... begin(count - 1)` set going, in this order, `ahead` of them under way at once."""
    under_way: deque[Any] = deque()
    for number in range(count):
        under_way.append(begin(number))
        if len(under_way) == ahead:
            yield under_way.popleft()
    yield from under_way


def measure(measurer: Measurer, draw, replicates: int, tick=lambda: None, devices: int = 1) -> Measured:
    """Both passes over `draw(0) ... draw(replicates - 1)`; a compiled sampler simulates each replicate twice.

    Replicates come from as many `devices` in turn. Each is computed by one of them and they are added up here in their
    order, so that the numbers do not depend on how many there are.
    """
    firsts, means, count = None, [], 0

    def begin(r: int) -> tuple[First, int]:
        rows = draw(r)
        return measurer.first(rows), rows.valid.shape[1]

    for under_way, rows in in_turn(begin, replicates, devices):
        first = jax.tree.map(lambda x: np.asarray(x, np.float64), under_way)
        totals = first.total.sum(1) if measurer.by_env else first.total
        means.append(totals.sum(0) / max(first.count.sum(), 1.0))
        firsts = first if firsts is None else First(firsts.total + first.total, firsts.count + first.count)
        count += rows
        tick()
    if measurer.by_env:  # carried starts: means by environment and position, over replicates
        gradient = PositionSums(firsts.total.sum(1), firsts.count.sum(1), count).mean
        position_means = np.moveaxis(firsts.total - firsts.count[:, :, None] * gradient, 1, 0) / replicates
    else:
        sums = PositionSums(firsts.total, firsts.count, count)
        gradient = sums.mean
        position_means = (sums.total - sums.count[:, None] * gradient) / sums.num_rows
    seconds = _Seconds(replicates)
    begin_again = lambda r: measurer.second(draw(r), position_means, gradient)
    for r, second in enumerate(in_turn(begin_again, replicates, devices)):
        seconds.keep(r, jax.tree.map(np.asarray, second))
        tick()
    moments, differences = seconds.moments, seconds.difference
    reference = None
    if differences is not None and not measurer.by_env:  # row means less what the reference would have had
        reference = (moments.residual / np.maximum(moments.steps, 1).astype(np.float32)[:, None]) - differences
        reference += gradient.astype(np.float32)
    if measurer.by_env:
        moments = by_environment(moments, replicates)
    statistics = row_statistics([moments], gradient, num_strata=seconds.num_envs if measurer.by_env else 1)
    return Measured(statistics, differences, reference, np.array(means), gradient)


class _Seconds:
    """What the second pass leaves of all replicates, each array allocated once, vectors in the precision they have."""

    def __init__(self, replicates: int):
        self.replicates, self.num_envs = replicates, 0
        self._arrays: dict[str, np.ndarray] = {}

    def keep(self, replicate: int, second: Second) -> None:
        self.num_envs = len(second.steps)
        rows = slice(replicate * self.num_envs, (replicate + 1) * self.num_envs)
        for name, part in second._asdict().items():
            if part is None:
                continue
            if name not in self._arrays:
                kind = np.float32 if name in ("residual", "difference") else np.float64
                self._arrays[name] = np.empty((self.replicates * self.num_envs, *part.shape[1:]), kind)
            self._arrays[name][rows] = part

    @property
    def moments(self) -> RowMoments:
        return RowMoments(*(self._arrays[name] for name in ("residual", "lag_products", "steps")))

    @property
    def difference(self) -> Float[np.ndarray, "M width"] | None:
        return self._arrays.get("difference")


def by_environment(moments: RowMoments, replicates: int) -> RowMoments:
    """Rows regrouped so that each environment's replicates are consecutive: one stratum each."""
    turned = lambda x: np.swapaxes(x.reshape(replicates, -1, *x.shape[1:]), 0, 1).reshape(x.shape)
    return RowMoments(turned(moments.residual), turned(moments.lag_products), turned(moments.steps))


def flat(samples: Samples) -> Samples:
    """[T, N, ...] to [N·T, ...], sample (n, t) at n T + t."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), samples)
