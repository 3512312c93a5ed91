"""Single-player games of pgx (Koyamada et al. 2023), written in JAX: 2048 and MinAtar.

A move that pgx calls illegal (one that moves no tile in 2048) ends the game with reward -1: policies here know no mask.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import Discrete, EnvError, Spec, refuse_bad_time_limit, refuse_unknown_options
from trimtab.envs.time_limit import Timed


@dataclass(frozen=True)
class _PgxEnv(Timed):
    """One game as a `CompiledEnv`. Games have no limit of their own; `time_limit` sets one."""

    env_id: str
    time_limit: int | None = None
    spec: Spec = field(init=False, compare=False, repr=False)
    _game: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.env_id, self.time_limit)
        import pgx

        with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
            game = pgx.make(self.env_id)
            shape = jax.eval_shape(lambda: game.init(jax.random.key(0)).observation).shape
        if game.num_players > 1:
            raise EnvError(f"env_id: {self.env_id} has several players; one is supported")
        action = Discrete(int(game.num_actions))
        object.__setattr__(self, "spec", Spec(self.env_id, "pgx", shape, "float32", action, self.time_limit, True))
        object.__setattr__(self, "_game", game)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        state = self._game.init(key)
        return state, state.observation.astype(jnp.float32)

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        state = self._game.step(game, action, key)
        return state, state.observation.astype(jnp.float32), state.rewards[0].astype(jnp.float32), state.terminated

    def without_time_limit(self) -> _PgxEnv:
        """The same dynamics and the same state, never truncated."""
        return dataclasses.replace(self, time_limit=None)


def make(request: EnvRequest) -> _PgxEnv:
    """The game of an id."""
    refuse_unknown_options(request.env_id, request.options, ())
    return _PgxEnv(request.env_id, request.time_limit)
