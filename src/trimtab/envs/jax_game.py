"""What environments written in JAX share: options, the time limit, and the reset in the step that ends an episode."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import Fresh, Spec, Step, refuse_bad_time_limit, reset_key


class TimedState(NamedTuple):
    """A game and the steps since its reset."""

    game: Any
    time: Int[Array, ""]


@dataclass(frozen=True)
class JaxGame:
    """A `CompiledEnv` made of a game's own `first` and `following`. Two with equal fields are equal.

    `options` are the game's own. `time_limit` overrides its limit; `truncates` false never cuts an episode.
    """

    env_id: str
    options: tuple[tuple[str, Any], ...] = ()
    time_limit: int | None = None
    truncates: bool = True

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.env_id, self.time_limit)
        _ = self.spec  # a game that cannot be made is refused now

    @classmethod
    def of(cls, request: EnvRequest) -> Self:
        """The game of an id. Options that are lists become tuples, which can be hashed."""
        options = sorted((name, _hashable(value)) for name, value in request.options.items())
        return cls(request.env_id, tuple(options), request.time_limit)

    @cached_property
    def spec(self) -> Spec:
        """What the game observes and takes."""
        raise NotImplementedError

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        """A new game and its observation."""
        raise NotImplementedError

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        """(game, observation, reward, terminated) after an action."""
        raise NotImplementedError

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        with any_rank():
            game, obs = self.first(key)
        return TimedState(game, jnp.zeros((), jnp.int32)), obs

    def step(
        self, key: PRNGKeyArray, env_state: Any, action: Num[Array, " ..."], fresh: Fresh | None = None
    ) -> tuple[Any, Step]:
        with any_rank():
            game, next_obs, reward, terminated = self.following(key, env_state.game, action)
        state = TimedState(game, env_state.time + 1)
        fresh = self.reset(reset_key(key)) if fresh is None else fresh
        return end_step(self.spec.time_limit, state, next_obs, reward, terminated, fresh)

    def without_time_limit(self) -> Self:
        """The same dynamics and the same state, never truncated."""
        return dataclasses.replace(self, truncates=False)


def end_step(
    limit: int | None,
    state: Any,
    next_obs: Float[Array, " ..."],
    reward: Float[Array, ""],
    terminated: Array,
    fresh: Fresh,
) -> tuple[Any, Step]:
    """Cut an episode at the time limit, and begin the next one where it ended.

    Args:
        limit: the step at which it is cut, if it is.
        state: after the step; its `time` counts the steps since the reset.
        next_obs: what the action led to.
        reward: of the step.
        terminated: whether the game ended by itself.
        fresh: state and observation of the next episode.

    Returns:
        The state to continue from, and the step.
    """
    truncated = jnp.zeros((), bool) if limit is None else (state.time >= limit) & ~terminated
    done = terminated | truncated
    fresh_state, fresh_obs = fresh
    continued = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh_state, state)
    return continued, Step(jnp.where(done, fresh_obs, next_obs), next_obs, reward, terminated, truncated)


def any_rank() -> AbstractContextManager:
    """Games broadcast arrays of different rank; a caller may have forbidden that for its own code."""
    return jax.numpy_rank_promotion("allow")


def like(new: Array, old: Array) -> Array:
    """The type it had before: some steps return other ones, or weak ones."""
    return new if jnp.issubdtype(old.dtype, jax.dtypes.prng_key) else jnp.asarray(new, old.dtype)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
