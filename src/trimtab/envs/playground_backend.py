"""MuJoCo Playground's tasks (Zakka et al. 2025), simulated by MJX in JAX.

Its version of the dm_control suite is all in the package. Its robots are loaded from the MuJoCo Menagerie, which it
would clone with git at first use; trimtab downloads nothing by itself: the robots run once the Menagerie is installed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.envs.backends import BACKENDS, has_robots
from trimtab.envs.base import Continuous, EnvError, Spec, refuse_unknown_options
from trimtab.envs.jax_game import JaxGame, any_rank, like
from trimtab.envs.known_ids import PLAYGROUND_ROBOTS
from trimtab.envs.layout import FlatLayout, Leaf

FETCH = "python -c 'from mujoco_playground._src.mjx_env import ensure_menagerie_exists as fetch; fetch()'"


@dataclass(frozen=True)
class _PlaygroundEnv(JaxGame):
    """One task; `options` are fields of its configuration, nested ones with dots.

    Actions lie within ±1 and are repeated as the task says (`action_repeat`), rewards added up. `impl` is jax unless
    another is given: warp, Playground's own choice, needs an Nvidia GPU.
    """

    @cached_property
    def _config(self) -> Any:
        from mujoco_playground import registry

        if self.env_id not in registry.ALL_ENVS:
            raise EnvError(f"env_id: this version of MuJoCo Playground does not have {self.env_id}")
        if self.env_id in PLAYGROUND_ROBOTS and not has_robots():
            raise EnvError(f"env_id: {self.env_id} needs the MuJoCo Menagerie, fetched with git by {FETCH}{self._also}")
        return registry.get_default_config(self.env_id)

    @property
    def _also(self) -> str:
        """The backend that has the same task under another id, for messages."""
        other = f"{self.env_id}-v1"
        return next((f"; {b.name} has {other}" for b in BACKENDS.values() if other in b.ids()), "")

    @cached_property
    def _task(self) -> Any:
        from mujoco_playground import registry

        refuse_unknown_options(self.env_id, dict(self.options), _flat(self._config.to_dict()))
        try:
            with jax.ensure_compile_time_eval(), any_rank():
                return registry.load(self.env_id, self._config, {"impl": "jax"} | dict(self.options))
        except Exception as error:  # whatever its libraries raise for an option or a model they cannot take
            raise EnvError(f"env_id: {self.env_id} cannot be made by MuJoCo Playground: {error}") from error

    @cached_property
    def _layout(self) -> FlatLayout:
        with any_rank():
            return _layout(jax.eval_shape(self._task.reset, jax.random.key(0)).obs)

    @cached_property
    def spec(self) -> Spec:
        config, task, layout = self._config, self._task, self._layout
        limit = -(-config.episode_length // config.action_repeat) if self.time_limit is None else self.time_limit
        bounds = Continuous((-1.0,) * task.action_size, (1.0,) * task.action_size)
        limit = limit if self.truncates else None
        return Spec(self.env_id, "playground", layout.shape, layout.dtype, bounds, limit, True, layout.parts)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        key = jax.random.wrap_key_data(jax.random.key_data(key))  # a task keeps it: one kind, whoever draws
        state = self._task.reset(key)
        return state, self._seen(state)

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        def once(state, _):
            copied = jax.tree.map(lambda x: x, state)  # some tasks write into what they get
            state = jax.tree.map(like, self._task.step(copied, action), state)
            return state, state.reward

        state, rewards = jax.lax.scan(once, game, length=self._config.action_repeat)
        return state, self._seen(state), rewards.sum().astype(jnp.float32), state.done > 0

    def _seen(self, state: Any) -> Float[Array, " numbers"]:
        return self._layout.convert(jax.tree.map(lambda x: x[None], state.obs))[0]


def _flat(config: dict[str, Any]) -> list[str]:
    """Names of a configuration's fields, nested ones with dots."""
    return [
        name if below is None else f"{name}.{below}"
        for name, value in config.items()
        for below in (_flat(value) if isinstance(value, dict) else [None])
    ]


def _layout(obs_shapes: Any) -> FlatLayout:
    """One vector of an observation's keys, in sorted order, or of the one array it is."""
    paths = [(name,) for name in sorted(obs_shapes)] if isinstance(obs_shapes, dict) else [()]
    arrays = [obs_shapes[path[0]] if path else obs_shapes for path in paths]
    return FlatLayout(tuple(Leaf(path, math.prod(array.shape)) for path, array in zip(paths, arrays)))


make = _PlaygroundEnv.of
