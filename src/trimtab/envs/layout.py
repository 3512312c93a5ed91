"""How host observations become what a network takes: images H x W x C in uint8, all else float32."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Shaped

from .base import Continuous, Discrete, EnvError


@dataclass(frozen=True)
class Layout:
    """The conversion of one environment's observations, decided once from their shape and type."""

    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8"]
    channels_first: bool

    def convert(self, obs: Shaped[np.ndarray, "N ..."]) -> Shaped[np.ndarray, "N ..."]:
        """A batch as delivered -> [N, *shape]."""
        if self.channels_first:
            obs = np.moveaxis(obs, 1, -1)
        return np.ascontiguousarray(obs, dtype=self.dtype).reshape(len(obs), *self.shape)


def layout_of(shape: tuple[int, ...], dtype: Any) -> Layout:
    """Images are uint8 arrays of two or three axes; the channels are the shorter end."""
    if np.dtype(dtype) != np.uint8 or len(shape) not in (2, 3):
        return Layout(shape, "float32", channels_first=False)
    if len(shape) == 2:
        return Layout((*shape, 1), "uint8", channels_first=False)
    if shape[0] < shape[-1]:
        return Layout((*shape[1:], shape[0]), "uint8", channels_first=True)
    return Layout(shape, "uint8", channels_first=False)


def action_of(env_id: str, space: Any) -> Discrete | Continuous:
    """A Gymnasium action space as ours; raises for the kinds a policy here cannot produce."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return Continuous(tuple(map(float, low)), tuple(map(float, high)))
    raise EnvError(f"env_id: {env_id} has actions {space}; only Discrete and floating-point Box are supported")


@contextmanager
def without_precision_warnings() -> Iterator[None]:
    """Hide one warning: a Box whose bounds were float64 before Gymnasium made them float32."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
        yield
