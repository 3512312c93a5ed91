"""Single-player games of pgx (Koyamada et al. 2023), written in JAX: 2048 and MinAtar.

A move that pgx calls illegal (one that moves no tile in 2048) ends the game with reward -1: policies here know no mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.envs.base import Discrete, EnvError, Spec, refuse_unknown_options
from trimtab.envs.jax_game import JaxGame, any_rank


@dataclass(frozen=True)
class _PgxEnv(JaxGame):
    """One game. Games have no limit of their own and take no options."""

    @cached_property
    def _game(self) -> Any:
        import pgx

        with jax.ensure_compile_time_eval(), any_rank():
            return pgx.make(self.env_id)

    @cached_property
    def spec(self) -> Spec:
        refuse_unknown_options(self.env_id, dict(self.options), ())
        game = self._game
        if game.num_players > 1:
            raise EnvError(f"env_id: {self.env_id} has several players; one is supported")
        with any_rank():
            shape = jax.eval_shape(lambda: game.init(jax.random.key(0)).observation).shape
        limit = self.time_limit if self.truncates else None
        return Spec(self.env_id, "pgx", shape, "float32", Discrete(int(game.num_actions)), limit, True)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        state = self._game.init(key)
        return state, state.observation.astype(jnp.float32)

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        state = self._game.step(game, action, key)
        return state, state.observation.astype(jnp.float32), state.rewards[0].astype(jnp.float32), state.terminated


make = _PgxEnv.of
