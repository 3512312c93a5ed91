"""MiniGrid's tasks written in JAX: xminigrid (Nikulin et al. 2023).

The agent sees a square of tiles and colours; both are one-hot here, side by side as channels.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt8

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import Discrete, Spec, refuse_bad_time_limit, refuse_unknown_options
from trimtab.envs.time_limit import Timed, like

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _XMiniGridEnv(Timed):
    """One task as a `CompiledEnv`; `options` are fields of its parameters, such as view_size.

    Its own limit also scales its reward, 1 - 0.9 t / limit; `time_limit` replaces both.
    """

    env_id: str
    options: Options = ()
    time_limit: int | None = None
    truncates: bool = True
    spec: Spec = field(init=False, compare=False, repr=False)
    _game: Any = field(init=False, compare=False, repr=False)
    _params: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.env_id, self.time_limit)
        import xminigrid

        with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
            game, params = xminigrid.make(self.env_id)
            valid = {f.name for f in dataclasses.fields(params)} - {"max_steps", "render_mode"}
            refuse_unknown_options(self.env_id, dict(self.options), valid)
            params = params.replace(**dict(self.options))
            params = params if self.time_limit is None else params.replace(max_steps=self.time_limit)
            obs = jax.eval_shape(lambda: _one_hot(_view(game.reset(params, jax.random.key(0)))))
        limit = params.max_steps if self.truncates else None
        spec = Spec(
            self.env_id, "xminigrid", obs.shape, "float32", Discrete(int(game.num_actions(params))), limit, True
        )
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "_game", game)
        object.__setattr__(self, "_params", params)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        key = jax.random.wrap_key_data(jax.random.key_data(key))  # a game keeps it: one kind, whoever draws
        timestep = self._game.reset(self._params, key)
        return timestep, _one_hot(_view(timestep))

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        timestep = self._game.step(self._params, game, action)
        return (
            jax.tree.map(like, timestep, game),
            _one_hot(_view(timestep)),
            timestep.reward.astype(jnp.float32),
            timestep.discount == 0.0,
        )

    def without_time_limit(self) -> _XMiniGridEnv:
        """The same dynamics and the same state, never truncated."""
        return dataclasses.replace(self, truncates=False)


def _view(timestep: Any) -> Array:
    """The square of tiles that the agent sees: an array for every task here."""
    return timestep.observation


def _one_hot(view: UInt8[Array, "size size 2"]) -> Float[Array, "size size channels"]:
    from xminigrid.core.constants import NUM_COLORS, NUM_TILES

    tiles, colours = (jax.nn.one_hot(view[..., k], n) for k, n in enumerate((NUM_TILES, NUM_COLORS)))
    return jnp.concatenate([tiles, colours], axis=-1)


def make(request: EnvRequest) -> _XMiniGridEnv:
    """The task of an id."""
    return _XMiniGridEnv(request.env_id, tuple(sorted(request.options.items())), request.time_limit)
