"""Inner products of rows, held as the rows themselves or as their Gram matrix, whichever is smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

BLOCK = 1 << 24  # numbers that exist in double precision at once


@dataclass(frozen=True)
class Products:
    """scale² r_m·r_m' of all pairs of rows, without the [rows, rows] matrix where rows are shorter than that."""

    vectors: Float[np.ndarray, "rows width"] | None
    matrix: Float[np.ndarray, "rows rows"] | None
    scale: float = 1.0

    @classmethod
    def of(cls, vectors: Float[np.ndarray, "rows width"]) -> Products:
        num_rows, width = vectors.shape
        if width < num_rows:
            return cls(vectors, None)
        vectors = np.asarray(vectors, np.float64)
        return cls(None, vectors @ vectors.T)

    def __len__(self) -> int:
        return len(self._matrix if self.vectors is None else self.vectors)

    @property
    def _matrix(self) -> Float[np.ndarray, "rows rows"]:
        assert self.matrix is not None, "either vectors or their matrix are held"
        return self.matrix

    def scaled(self, factor: float) -> Products:
        """Those of rows times `factor`."""
        return Products(self.vectors, self.matrix, self.scale * factor)

    @cached_property
    def diagonal(self) -> Float[np.ndarray, " rows"]:
        """|r_m|²."""
        if self.vectors is None:
            return self.scale**2 * np.diagonal(self._matrix)
        return self.scale**2 * np.concatenate([np.einsum("mp,mp->m", block, block) for _, block in self._blocks()])

    def times(self, weights: Float[np.ndarray, "... rows"]) -> Float[np.ndarray, "... rows"]:
        """Σ_m w_m r_m·r_m' for every m'."""
        if self.vectors is None:
            return self.scale**2 * (weights @ self._matrix)
        total = sum(weights[..., rows] @ block for rows, block in self._blocks())
        return self.scale**2 * np.concatenate([total @ block.T for _, block in self._blocks()], axis=-1)

    @cached_property
    def sum_of_squares(self) -> float:
        """Σ_{m,m'} (r_m·r_m')², which is also |Σ_m r_m r_mᵀ|²."""
        square = self._matrix if self.vectors is None else sum(block.T @ block for _, block in self._blocks())
        return self.scale**4 * float(np.vdot(square, square))

    def _blocks(self) -> Iterator[tuple[slice, Float[np.ndarray, "some width"]]]:
        """The rows, a few at a time, in double precision."""
        assert self.vectors is not None, "a matrix has no blocks"
        size = max(1, BLOCK // self.vectors.shape[1])
        for start in range(0, len(self.vectors), size):
            rows = slice(start, start + size)
            yield rows, np.asarray(self.vectors[rows], np.float64)


@dataclass(frozen=True)
class BlockProducts:
    """Those of rows that only meet rows of their own block: equal, consecutive blocks, 0 between them."""

    blocks: Float[np.ndarray, "blocks N N"]
    scale: float = 1.0

    def __len__(self) -> int:
        return self.blocks.shape[0] * self.blocks.shape[1]

    def scaled(self, factor: float) -> BlockProducts:
        """Those of rows times `factor`."""
        return BlockProducts(self.blocks, self.scale * factor)

    @cached_property
    def diagonal(self) -> Float[np.ndarray, " rows"]:
        """|r_m|²."""
        return self.scale**2 * np.einsum("bmm->bm", self.blocks).ravel()

    def times(self, weights: Float[np.ndarray, "... rows"]) -> Float[np.ndarray, "... rows"]:
        """Σ_m w_m r_m·r_m' for every m'."""
        split = weights.reshape(*weights.shape[:-1], *self.blocks.shape[:2])
        return self.scale**2 * np.einsum("...bm,bmn->...bn", split, self.blocks, optimize=True).reshape(weights.shape)

    @cached_property
    def sum_of_squares(self) -> float:
        """Σ_{m,m'} (r_m·r_m')²."""
        return self.scale**4 * float(np.vdot(self.blocks, self.blocks))
