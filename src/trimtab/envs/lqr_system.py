"""Finite-horizon linear-quadratic systems: the dynamics that the environment steps and that exact answers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from trimtab.core.errors import EnvError

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LinearQuadratic:
    """x' = A x + B u + noise w with reward -(x'Qx + u'Ru), for `horizon` steps from x ~ N(0, start² I).

    w is standard normal. Matrices are tuples of rows, so that systems are hashable.
    """

    A: Matrix
    B: Matrix
    Q: Matrix
    R: Matrix
    noise: float = 0.1
    start: float = 1.0
    horizon: int = 20

    def __post_init__(self) -> None:
        n, m = self.num_states, self.num_controls
        shapes = {"A": (n, n), "B": (n, m), "Q": (n, n), "R": (m, m)}
        for name, shape in shapes.items():
            if (actual := self.matrix(name).shape) != shape:
                raise EnvError(f"env_kwargs: {name} has shape {actual}; nearest: {shape}")
        if self.horizon < 1 or self.noise < 0 or self.start < 0:
            raise EnvError("env_kwargs: horizon must be at least 1, noise and start at least 0")

    @property
    def num_states(self) -> int:
        return len(self.A)

    @property
    def num_controls(self) -> int:
        return len(self.B[0])

    def matrix(self, name: str) -> Float[np.ndarray, "rows columns"]:
        """A, B, Q or R as an array."""
        return np.array(getattr(self, name), np.float64)

    def with_options(self, options: Mapping[str, Any]) -> LinearQuadratic:
        """The same system with some of its fields replaced; matrices may be lists of rows."""
        own = {field.name for field in fields(self)}
        known = {name: value for name, value in options.items() if name in own}
        changes = {name: _as_matrix(value) if name in "ABQR" else value for name, value in known.items()}
        return replace(self, **changes)  # type: ignore[arg-type]  # values by name

    def optimal_gains(self) -> Float[np.ndarray, "horizon m n"]:
        """Feedback K_t of the optimal control u = K_t x, by the Riccati recursion backwards from the horizon."""
        A, B, Q, R = map(self.matrix, "ABQR")
        value, gains = Q * 0.0, []
        for _ in range(self.horizon):
            gain = -np.linalg.solve(R + B.T @ value @ B, B.T @ value @ A)
            value = Q + gain.T @ R @ gain + (A + B @ gain).T @ value @ (A + B @ gain)
            gains.append(gain)
        return np.array(gains[::-1])


def _as_matrix(rows: Any) -> Matrix:
    try:
        return tuple(tuple(float(value) for value in row) for row in rows)
    except TypeError:
        raise EnvError(f"env_kwargs: {rows!r} is no matrix; for example [[1.0, 0.1], [0.0, 1.0]]") from None


SYSTEMS = {
    "LQR-v0": LinearQuadratic(  # a mass on a line: position and speed, pushed
        A=((1.0, 0.1), (0.0, 1.0)), B=((0.0,), (0.1,)), Q=((1.0, 0.0), (0.0, 0.1)), R=((0.1,),)
    ),
    "LQR-scalar-v0": LinearQuadratic(A=((0.9,),), B=((0.5,),), Q=((1.0,),), R=((0.1,),), horizon=10),
}
