"""What environments written in JAX share: the time limit, and the reset in the step that ends an episode."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from trimtab.envs.base import Fresh, Spec, Step, reset_key


class _TimedState(NamedTuple):
    """A game and the steps since its reset."""

    game: Any
    time: Int[Array, ""]


def like(new: Array, old: Array) -> Array:
    """The type it had before: some steps return other ones, or weak ones."""
    return new if jnp.issubdtype(old.dtype, jax.dtypes.prng_key) else jnp.asarray(new, old.dtype)


class Timed:
    """`reset` and `step` of a `CompiledEnv` from a game's own `first` and `following`."""

    spec: Spec

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        """A new game and its observation."""
        raise NotImplementedError

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        """(game, observation, reward, terminated) after an action."""
        raise NotImplementedError

    def reset(self, key: PRNGKeyArray) -> tuple[_TimedState, Float[Array, " ..."]]:
        with jax.numpy_rank_promotion("allow"):
            game, obs = self.first(key)
        return _TimedState(game, jnp.zeros((), jnp.int32)), obs

    def step(
        self, key: PRNGKeyArray, env_state: _TimedState, action: Num[Array, " ..."], fresh: Fresh | None = None
    ) -> tuple[_TimedState, Step]:
        with jax.numpy_rank_promotion("allow"):
            game, next_obs, reward, terminated = self.following(key, env_state.game, action)
        time, limit = env_state.time + 1, self.spec.time_limit
        truncated = jnp.zeros((), bool) if limit is None else (time >= limit) & ~terminated
        new_state, new_obs = self.reset(reset_key(key)) if fresh is None else fresh
        done = terminated | truncated
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), new_state, _TimedState(game, time))
        return state, Step(jnp.where(done, new_obs, next_obs), next_obs, reward, terminated, truncated)
