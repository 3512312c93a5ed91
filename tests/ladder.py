"""A ladder of tiny compiled environments whose optimal policies and values are known."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp

from trimtab.envs import Discrete, Spec, Step


class Place(NamedTuple):
    """Steps since the reset, and the first action (-1 before it)."""

    time: Any
    first: Any


@dataclass(frozen=True)
class _Rung(abc.ABC):
    """An environment that starts anew in the step that ends an episode; subclasses say what a step gives."""

    spec: Spec = field(init=False, compare=False)
    obs_size = 1
    actions = 2
    time_limit = None

    def __post_init__(self):
        spec = Spec(type(self).__name__, "native", (self.obs_size,), "float32", Discrete(self.actions), 10, True)
        object.__setattr__(self, "spec", spec)

    def observe(self, place: Place):
        return jnp.ones(self.obs_size)

    @abc.abstractmethod
    def outcome(self, place: Place, action):
        """(reward, terminated, truncated)"""

    def reset(self, key):
        place = Place(jnp.zeros((), jnp.int32), -jnp.ones((), jnp.int32))
        return place, self.observe(place)

    def step(self, key, place: Place, action, fresh=None):
        reward, terminated, truncated = self.outcome(place, action)
        after = Place(place.time + 1, jnp.where(place.time == 0, action, place.first))
        fresh, fresh_obs = self.reset(key) if fresh is None else fresh
        done, next_obs = terminated | truncated, self.observe(after)
        following = Place(*(jnp.where(done, new, old) for new, old in zip(fresh, after)))
        return following, Step(jnp.where(done, fresh_obs, next_obs), next_obs, reward, terminated, truncated)


@dataclass(frozen=True)
class Bandit(_Rung):
    """One step; arm k pays its entry."""

    pays = (0.0, 1.0, 0.3)
    actions = 3

    def outcome(self, place, action):
        return jnp.asarray(self.pays)[action], jnp.ones((), bool), jnp.zeros((), bool)


@dataclass(frozen=True)
class TwoSteps(_Rung):
    """The first action decides the reward of the second step; only the time is seen."""

    obs_size = 2

    def observe(self, place):
        return jnp.stack([place.time == 0, place.time == 1]).astype(jnp.float32)

    def outcome(self, place, action):
        last = place.time == 1
        return jnp.where(last & (place.first == 1), 1.0, 0.0), last, jnp.zeros((), bool)


@dataclass(frozen=True)
class Constant(_Rung):
    """Reward 1 at every step and nothing to see; cut, or ended, after `length` steps."""

    length: int = 5
    terminates: bool = False

    def outcome(self, place, action):
        over = place.time + 1 >= self.length
        yes = jnp.asarray(self.terminates)
        return jnp.ones(()), over & yes, over & ~yes
