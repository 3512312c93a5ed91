"""Where the rows and the steps of a batch are in the tensors of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trimtab.torch.meter_errors import MeterError


@dataclass(frozen=True)
class Layout:
    """N rows of T samples, flat or as `[T, N]` or `[N, T]`.

    Attributes:
        rows: N.
        steps: T.
        by_time: whether sample (t, n) of a flat batch is at t N + n, else at n T + t.
        in_sequence: whether a sample depends on other samples of its row; then only rows are distinguished, T is 1 and
            what belongs to one row is its many applications.
        chosen: the rows to measure; None: all.
    """

    rows: int
    steps: int
    by_time: bool
    in_sequence: bool
    chosen: Tensor | None = None

    def matrix(self, values: Tensor) -> Tensor:
        """`[N, T]` of one number per sample."""
        if values.ndim == 2 and values.shape == (self.steps, self.rows):
            return values.T
        if values.ndim == 2 and values.shape == (self.rows, self.steps):
            return values
        return self._split(values.reshape(-1))

    def _split(self, values: Tensor) -> Tensor:
        if self.by_time:
            return values.reshape(self.steps, self.rows, *values.shape[1:]).transpose(0, 1)
        return values.reshape(self.rows, self.steps, *values.shape[1:])

    def joined(self, calls: Sequence[Tensor], name: str) -> Tensor:
        """`[rows, T, L, ...]` of all calls of a layer, L applications to one sample; in sequence `[rows, 1, L, ...]`.

        Args:
            calls: a tensor of each call.
            name: of the layer, for the error.

        Returns:
            The chosen rows.
        """
        values = [self._of_call(value, name) for value in calls]
        stepwise = values[0].shape[1] != self.steps and len(values) == self.steps
        if self.in_sequence or stepwise:
            joined = torch.cat(values, 1)
            joined = joined[:, None] if self.in_sequence else joined[:, :, None]
        else:
            joined = torch.stack(values, 2)
        return joined if self.chosen is None else joined[self.chosen]

    def _of_call(self, value: Tensor, name: str) -> Tensor:
        """`[N, steps of the call, ...]`."""
        shape, rows, steps = tuple(value.shape), self.rows, self.steps
        if shape[0] == rows * steps:
            return self._split(value)
        if len(shape) > 1 and shape[:2] == (steps, rows):
            return value.transpose(0, 1)
        if len(shape) > 1 and shape[:2] == (rows, steps):
            return value
        if shape[0] == rows:
            return value[:, None]
        if self.in_sequence and len(shape) > 2 and shape[1] == rows:
            return value.transpose(0, 1)
        raise MeterError(
            f"{name}: shape {list(shape)} has neither {rows} rows of {steps} steps nor all samples in order"
        )
