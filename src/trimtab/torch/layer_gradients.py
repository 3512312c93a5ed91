"""Per-sample gradients of layers, from what a layer got and the derivative of what it gave. Rows × T samples.

The gradient of a dense layer's weights at one sample is the outer product d xᵀ of its output derivative and its input,
so inner products of samples are products of two small inner products and no gradient is ever held:

    g_i · g_j = (x_i · x_j) (d_i · d_j)

Where a layer is applied several times to one sample (positions of an image or a sequence) its gradient is a sum of
outer products, which is held for some steps at a time, and for as many steps back as there are lags.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

BLOCK = 1 << 14  # numbers multiplied and added in the precision of the gradients
MOST_STEPS = 64  # whose gradients meet each other in one product
BUDGET = 1 << 26  # numbers held at once: 256 MB in single precision


@dataclass(frozen=True)
class Inner:
    """Inner products of per-sample gradients, of one layer or summed over layers.

    Attributes:
        rows: `[rows, rows]`, Σ_{t,s} g_{m,t}·g_{m',s}.
        positions: `[rows, rows]`, Σ_t g_{m,t}·g_{m',t}.
        squares: `[rows, T]`, |g_{m,t}|².
        along: `[rows, T]`, g_{m,t}·G of the batch mean G.
        lags: `[rows, T − k]` at each lag k, g_{m,t}·g_{m,t+k}.
    """

    rows: Tensor
    positions: Tensor
    squares: Tensor
    along: Tensor
    lags: tuple[Tensor, ...]

    def __add__(self, other: Inner) -> Inner:
        lags = tuple(a + b for a, b in zip(self.lags, other.lags))
        ours, theirs = (vars(x) for x in (self, other))
        return Inner(**{name: ours[name] + theirs[name] for name in ours if name != "lags"}, lags=lags)


class LayerGradients(ABC):
    """The per-sample gradients of one layer, `[rows, T, P]`, without holding them."""

    @abstractmethod
    def inner(self, lags: Sequence[int], mean: Tensor, budget: int = BUDGET) -> Inner:
        """Inner products of all samples that estimates need.

        Args:
            lags: of products within rows.
            mean: `[P]`, the mean gradient G of all samples.
            budget: numbers to hold at once.

        Returns:
            The products.
        """

    @abstractmethod
    def row_products(self, budget: int = BUDGET) -> Tensor:
        """`[rows, rows]`, inner products of the rows' sums."""

    @abstractmethod
    def total(self, rows: int) -> Tensor:
        """`[P]`, the sum over all samples of the first rows."""


@dataclass(frozen=True)
class OuterProducts(LayerGradients):
    """g_{m,t} = d_{m,t} x_{m,t}ᵀ.

    Attributes:
        x: `[rows, T, inputs]`, inputs of the layer.
        d: `[rows, T, outputs]`, derivatives of its outputs.
    """

    x: Tensor
    d: Tensor

    def total(self, rows: int) -> Tensor:
        return (self.d[:rows].flatten(0, 1).T @ self.x[:rows].flatten(0, 1)).flatten()

    def row_products(self, budget: int = BUDGET) -> Tensor:
        rows, _, inputs = self.x.shape
        products = torch.zeros(rows, rows, dtype=torch.float64, device=self.x.device)
        step = max(1, budget // (rows * inputs))
        for start in range(0, self.d.shape[2], step):
            sums = (self.d[:, :, start : start + step].transpose(1, 2) @ self.x).flatten(1)
            products += gram(sums)
        return products

    def inner(self, lags: Sequence[int], mean: Tensor, budget: int = BUDGET) -> Inner:
        x, d = self.x, self.d
        matrix = mean.view(d.shape[2], x.shape[2])
        return Inner(
            rows=self.row_products(budget),
            positions=self._position_products(budget),
            squares=(x * x).sum(-1) * (d * d).sum(-1),
            along=((d @ matrix) * x).sum(-1),
            lags=tuple((x[:, k:] * x[:, :-k]).sum(-1) * (d[:, k:] * d[:, :-k]).sum(-1) for k in lags),
        )

    def _position_products(self, budget: int) -> Tensor:
        rows, steps, _ = self.x.shape
        products = torch.zeros(rows, rows, dtype=torch.float64, device=self.x.device)
        step = max(1, budget // (2 * rows * rows))
        for start in range(0, steps, step):
            x, d = (v[:, start : start + step].transpose(0, 1) for v in (self.x, self.d))
            products += ((x @ x.transpose(1, 2)) * (d @ d.transpose(1, 2))).sum(0, dtype=torch.float64)
        return products


@dataclass
class Vectors(LayerGradients):
    """g_{m,t} held for some steps at a time.

    Attributes:
        rows: of the batch.
        steps: T.
        width: P.
        held: numbers that one sample takes while its vector is made.
        make: gives `[rows, stop − start, P]` for the steps from start to stop.
    """

    rows: int
    steps: int
    width: int
    held: int
    make: Callable[[int, int], Tensor]
    _known_sums: Tensor | None = field(default=None, init=False, repr=False)

    @staticmethod
    def of(values: Tensor) -> Vectors:
        """Of vectors `[rows, T, P]` that exist."""
        rows, steps, width = values.shape
        return Vectors(rows, steps, width, 0, lambda start, stop: values[:, start:stop])

    def total(self, rows: int) -> Tensor:
        return self._sums(BUDGET)[:rows].sum(0)

    def row_products(self, budget: int = BUDGET) -> Tensor:
        return gram(self._sums(budget))

    def _sums(self, budget: int) -> Tensor:
        """`[rows, P]`, computed once."""
        if self._known_sums is None:
            self._known_sums = sum(self.make(*ends).sum(1) for ends in self._chunks(budget))
        return self._known_sums

    def inner(self, lags: Sequence[int], mean: Tensor, budget: int = BUDGET) -> Inner:
        reach = max(lags, default=0)
        sums, positions = 0, 0
        squares: list[Tensor] = []
        along: list[Tensor] = []
        products: list[list[Tensor]] = [[] for _ in lags]
        recent, kept = mean.new_zeros(self.rows, 0, self.width), 0
        for start, stop in self._chunks(budget):
            here = self.make(start, stop)
            kept = recent.shape[1]
            recent = torch.cat([recent, here], 1) if kept else here
            sums = sums + here.sum(1)
            positions = positions + gram(here.flatten(1))
            pairs = here @ recent.transpose(1, 2)  # of step start + i with step start − kept + j
            squares.append(pairs.diagonal(kept, 1, 2))
            along.append(here @ mean)
            for k, parts in zip(lags, products):
                parts.append(pairs.diagonal(kept - k, 1, 2))
            recent = recent[:, max(0, recent.shape[1] - reach) :]
        joined = [torch.cat(parts, 1) for parts in products]
        self._known_sums = sums
        return Inner(gram(sums), positions, torch.cat(squares, 1), torch.cat(along, 1), tuple(joined))

    def _chunks(self, budget: int) -> Iterator[tuple[int, int]]:
        size = min(MOST_STEPS, max(1, budget // (self.rows * (self.width + self.held))))
        for start in range(0, self.steps, size):
            yield start, min(start + size, self.steps)


def sums_of_outer_products(x: Tensor, d: Tensor, rows_only: bool = False) -> LayerGradients:
    """g_{m,t} = Σ_l d_{m,t,l} x_{m,t,l}ᵀ, from `[rows, T, L, inputs]` and `[rows, T, L, outputs]`.

    Args:
        x: inputs of the layer, L of them for each sample.
        d: derivatives of its outputs.
        rows_only: whether samples of a row are not distinguished (T is 1), so that only its sum counts.

    Returns:
        Outer products where L is 1 or only rows count, else vectors.
    """
    if rows_only:
        return OuterProducts(x[:, 0], d[:, 0])
    if x.shape[2] == 1:
        return OuterProducts(x[:, :, 0], d[:, :, 0])
    make = lambda start, stop: (d[:, start:stop].transpose(2, 3) @ x[:, start:stop]).flatten(2)
    return Vectors(x.shape[0], x.shape[1], x.shape[3] * d.shape[3], 0, make)


def gram(vectors: Tensor) -> Tensor:
    """Inner products of `[rows, P]`, added up in double precision."""
    return torch.stack([(part @ part.T).double() for part in vectors.split(BLOCK, 1)]).sum(0)
