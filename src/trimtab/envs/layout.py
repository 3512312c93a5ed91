"""How host observations become what a network takes: images H x W x C in uint8, all else float32.

Arrays are NumPy's or become so; in a compiled program they are JAX's, but for indices.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from trimtab.envs.base import ActionSpace, Continuous, Discrete, EnvError, MultiBinary, MultiDiscrete, Part

_UNBOUNDED = 1e30  # some libraries write the largest number for no bound, and the smallest positive one for none below
_MOST_CHOICES = 100_000


@dataclass(frozen=True)
class Layout:
    """The conversion of one environment's array observations, decided once from their shape and type."""

    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8"]
    channels_first: bool
    parts: tuple[Part, ...] = ()

    def convert(self, obs: Shaped[np.ndarray, "N ..."]) -> Shaped[np.ndarray, "N ..."]:
        """A batch as delivered -> [N, *shape]."""
        obs = _array(obs)
        if self.channels_first:
            obs = obs.transpose(0, *range(2, obs.ndim), 1)
        if isinstance(obs, np.ndarray):
            obs = np.ascontiguousarray(obs)
        return obs.astype(self.dtype, copy=False).reshape(len(obs), *self.shape)


@dataclass(frozen=True)
class Leaf:
    """One array or index inside a Dict or Tuple; indices (`choices` of each number, from `first`) become one-hot."""

    path: tuple[str | int, ...]
    size: int
    choices: tuple[int, ...] = ()
    first: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))

    def columns(self, obs: Any) -> Float[np.ndarray, "N size"]:
        """This leaf of a batch."""
        for key in self.path:
            obs = obs[key]
        values = _array(obs)
        if not self.choices:
            return values.reshape(len(values), -1).astype(np.float32)
        chosen = values.reshape(len(values), -1) - np.asarray(self.first)
        if (chosen < 0).any() or (chosen >= np.asarray(self.choices)).any():
            raise IndexError(f"{self.name or 'an index'} is {values.reshape(-1).tolist()}, of {self.choices} choices")
        out = np.zeros((len(values), self.size), np.float32)
        begins = np.cumsum((0, *self.choices[:-1]))
        out[np.arange(len(values))[:, None], chosen + begins] = 1.0
        return out


@dataclass(frozen=True)
class FlatLayout:
    """The conversion of Dict, Tuple and index observations to one vector (see `Spec` for the order)."""

    leaves: tuple[Leaf, ...]
    dtype: Literal["float32"] = "float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(leaf.size for leaf in self.leaves),)

    @property
    def parts(self) -> tuple[Part, ...]:
        ends = np.cumsum([leaf.size for leaf in self.leaves]).tolist()
        return tuple(Part(leaf.name, end - leaf.size, end) for leaf, end in zip(self.leaves, ends) if leaf.path)

    def convert(self, obs: Any) -> Float[np.ndarray, "N numbers"]:
        """A batch as delivered -> [N, numbers]."""
        columns = [leaf.columns(obs) for leaf in self.leaves]
        return columns[0].__array_namespace__().concatenate(columns, axis=1)


def _array(values: Any) -> Any:
    """NumPy's array of what is given, lists and other libraries' arrays among it; JAX's stays what it is."""
    return values if "jax" in sys.modules and isinstance(values, sys.modules["jax"].Array) else np.asarray(values)


def layout_of(shape: tuple[int, ...], dtype: Any) -> Layout:
    """Images are uint8 arrays of two or three axes; the channels are the shorter end."""
    if np.dtype(dtype) != np.uint8 or len(shape) not in (2, 3):
        return Layout(shape, "float32", channels_first=False)
    if len(shape) == 2:
        return Layout((*shape, 1), "uint8", channels_first=False)
    if shape[0] < shape[-1]:
        return Layout((*shape[1:], shape[0]), "uint8", channels_first=True)
    return Layout(shape, "uint8", channels_first=False)


def layout_of_space(env_id: str, space: Any) -> Layout | FlatLayout:
    """The conversion of a Gymnasium observation space; raises for what does not consist of numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        if not math.prod(space.shape):
            raise EnvError(f"env_id: {env_id} observes nothing: its observations have shape {space.shape}")
        return layout_of(space.shape, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Layout(space.shape, "float32", channels_first=False)
    return FlatLayout(tuple(_leaves(env_id, space, ())))


def _leaves(env_id: str, space: Any, path: tuple[str | int, ...]) -> Iterator[Leaf]:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces, key=lambda key: (str(key), str(type(key)))):  # of any kinds
            yield from _leaves(env_id, space.spaces[key], (*path, key))
    elif isinstance(space, spaces.Tuple):
        for position, inner in enumerate(space.spaces):
            yield from _leaves(env_id, inner, (*path, position))
    elif isinstance(space, spaces.Box | spaces.MultiBinary):
        yield Leaf(path, math.prod(space.shape))
    elif isinstance(space, spaces.Discrete):
        _refuse_many(env_id, int(space.n))
        yield Leaf(path, int(space.n), (int(space.n),), (int(space.start),))
    elif isinstance(space, spaces.MultiDiscrete):
        choices = tuple(map(int, space.nvec.reshape(-1)))
        _refuse_many(env_id, sum(choices))
        first = tuple(map(int, np.broadcast_to(getattr(space, "start", 0), space.nvec.shape).reshape(-1)))
        yield Leaf(path, sum(choices), choices, first)
    else:
        where = f" in {'.'.join(map(str, path))}" if path else ""
        raise EnvError(f"env_id: {env_id} observes {type(space).__name__}{where}; a network needs numbers")


def _refuse_many(env_id: str, choices: int) -> None:
    """One-hot vectors of millions of numbers are no observations."""
    if choices > _MOST_CHOICES:
        raise EnvError(f"env_id: {env_id} observes an index of {choices:,} choices; at most {_MOST_CHOICES:,} here")


@dataclass(frozen=True)
class Actions:
    """An environment's action space as ours, and how a batch of our actions becomes what the environment takes."""

    space: ActionSpace
    shape: tuple[int, ...]
    dtype: Any
    first: int | tuple[int, ...] = 0
    bounds: tuple[np.ndarray, np.ndarray] | None = field(default=None, compare=False)  # finer than float32

    def convert(self, actions: Any) -> Any:
        """Actions of a policy, [N, ...], NumPy's or JAX's, as the environment takes them."""
        actions = _array(actions)
        if self.first != 0:
            actions = actions + np.asarray(self.first)
        actions = actions.reshape(len(actions), *self.shape).astype(self.dtype)
        # A policy clips in float32, whose 0.1 is above that of float64.
        return actions if self.bounds is None or not isinstance(actions, np.ndarray) else actions.clip(*self.bounds)


def actions_of(env_id: str, space: Any) -> Actions:
    """A Gymnasium action space; whole-number boxes are several choices. Raises for what a policy cannot produce."""
    from gymnasium import spaces

    if space.shape is not None and not math.prod(space.shape):
        raise EnvError(f"env_id: {env_id} takes nothing: its actions have shape {space.shape}")
    if isinstance(space, spaces.Discrete):
        return Actions(Discrete(int(space.n)), (), space.dtype, int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        first = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape).reshape(-1)
        sizes = tuple(map(int, space.nvec.reshape(-1)))
        return Actions(MultiDiscrete(sizes), space.shape, space.dtype, _shift(first))
    if isinstance(space, spaces.MultiBinary):
        return Actions(MultiBinary(math.prod(space.shape)), space.shape, space.dtype)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (bound.reshape(-1).astype(float) for bound in (space.low, space.high))
        low = np.where((low < -_UNBOUNDED) | (low == np.finfo(space.dtype).tiny), -np.inf, low)
        high = np.where(high > _UNBOUNDED, np.inf, high)
        finer = (space.low, space.high) if np.dtype(space.dtype) == np.float64 else None
        return Actions(Continuous(tuple(low.tolist()), tuple(high.tolist())), space.shape, space.dtype, bounds=finer)
    if isinstance(space, spaces.Box):
        ends = [bound.reshape(-1).tolist() for bound in (space.low, space.high)]  # Python's integers do not overflow
        sizes = tuple(int(last) - int(first) + 1 for first, last in zip(*ends))
        if max(sizes) <= _MOST_CHOICES:
            return Actions(MultiDiscrete(sizes), space.shape, space.dtype, _shift(np.array(ends[0])))
    raise EnvError(
        f"env_id: {env_id} has actions {space}; a policy here can give Discrete, MultiDiscrete, MultiBinary and Box"
    )


def _shift(first: np.ndarray) -> int | tuple[int, ...]:
    return tuple(first.tolist()) if first.any() else 0


@contextmanager
def without_precision_warnings() -> Iterator[None]:
    """Hide one warning: a Box whose bounds were float64 before Gymnasium made them float32."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)
        yield
