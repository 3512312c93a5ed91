"""MiniGrid's tasks written in JAX: xminigrid (Nikulin et al. 2023).

The agent sees a square of tiles and colours; both are one-hot here, side by side as channels.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt8

from trimtab.envs.base import Discrete, Spec, refuse_unknown_options
from trimtab.envs.jax_game import JaxGame, any_rank, like


@dataclass(frozen=True)
class _XMiniGridEnv(JaxGame):
    """One task; `options` are fields of its parameters, such as view_size.

    Its own limit also scales its reward, 1 - 0.9 t / limit; `time_limit` replaces both.
    """

    @cached_property
    def _built(self) -> tuple[Any, Any]:
        """xminigrid's environment and parameters."""
        import xminigrid

        options = dict(self.options)
        with jax.ensure_compile_time_eval(), any_rank():
            game, params = xminigrid.make(self.env_id)
            valid = {f.name for f in dataclasses.fields(params)} - {"max_steps", "render_mode"}
            refuse_unknown_options(self.env_id, options, valid)
            limit = {} if self.time_limit is None else {"max_steps": self.time_limit}
            return game, params.replace(**options, **limit)

    @cached_property
    def spec(self) -> Spec:
        game, params = self._built
        with jax.ensure_compile_time_eval(), any_rank():
            obs = jax.eval_shape(lambda: _one_hot(_view(game.reset(params, jax.random.key(0)))))
            action = Discrete(int(game.num_actions(params)))
        limit = params.max_steps if self.truncates else None
        return Spec(self.env_id, "xminigrid", obs.shape, "float32", action, limit, True)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        key = jax.random.wrap_key_data(jax.random.key_data(key))  # a game keeps it: one kind, whoever draws
        game, params = self._built
        timestep = game.reset(params, key)
        return timestep, _one_hot(_view(timestep))

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        rules, params = self._built
        timestep = rules.step(params, game, action)
        return (
            jax.tree.map(like, timestep, game),
            _one_hot(_view(timestep)),
            timestep.reward.astype(jnp.float32),
            timestep.discount == 0.0,
        )


def _view(timestep: Any) -> Array:
    """The square of tiles that the agent sees: an array for every task here."""
    return timestep.observation


def _one_hot(view: UInt8[Array, "size size 2"]) -> Float[Array, "size size channels"]:
    from xminigrid.core.constants import NUM_COLORS, NUM_TILES

    tiles, colours = (jax.nn.one_hot(view[..., k], n) for k, n in enumerate((NUM_TILES, NUM_COLORS)))
    return jnp.concatenate([tiles, colours], axis=-1)


make = _XMiniGridEnv.of
