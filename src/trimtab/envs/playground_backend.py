"""MuJoCo Playground's tasks (Zakka et al. 2025), simulated by MJX in JAX.

Its version of the dm_control suite is all in the package. Its robots are loaded from the MuJoCo Menagerie, which it
would clone with git when one is first asked for; here nothing is fetched behind one's back: they run once it is there.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.envs.backends import EnvRequest, has_robots
from trimtab.envs.base import Continuous, EnvError, Spec, refuse_bad_time_limit, refuse_unknown_options
from trimtab.envs.id_table import by_id
from trimtab.envs.known_ids import PLAYGROUND_ROBOTS
from trimtab.envs.layout import FlatLayout, Leaf
from trimtab.envs.time_limit import Timed, like

FETCH = "python -c 'from mujoco_playground._src.mjx_env import ensure_menagerie_exists as fetch; fetch()'"
Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _PlaygroundEnv(Timed):
    """One task as a `CompiledEnv`; `options` are fields of its configuration, nested ones with dots.

    Actions lie within ±1 and are repeated as the task says (`action_repeat`), rewards added up. `impl` is jax unless
    another is given: warp, Playground's own choice, needs an Nvidia GPU.
    """

    env_id: str
    options: Options = ()
    time_limit: int | None = None
    truncates: bool = True
    spec: Spec = field(init=False, compare=False, repr=False)
    _task: Any = field(init=False, compare=False, repr=False)
    _repeat: int = field(init=False, compare=False, repr=False)
    _layout: FlatLayout = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.env_id, self.time_limit)
        from mujoco_playground import registry

        if self.env_id not in registry.ALL_ENVS:
            raise EnvError(f"env_id: this version of MuJoCo Playground does not have {self.env_id}")
        if self.env_id in PLAYGROUND_ROBOTS and not has_robots():
            also = f"; EnvPool has {self.env_id}-v1" if f"{self.env_id}-v1" in by_id("envpool") else ""
            raise EnvError(f"env_id: {self.env_id} needs the MuJoCo Menagerie, fetched with git by {FETCH}{also}")
        config = registry.get_default_config(self.env_id)
        refuse_unknown_options(self.env_id, dict(self.options), _flat(config.to_dict()))
        try:
            with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
                task = registry.load(self.env_id, config, {"impl": "jax"} | dict(self.options))
        except Exception as error:  # whatever its libraries raise for an option or a model they cannot take
            raise EnvError(f"env_id: {self.env_id} cannot be made by MuJoCo Playground: {error}") from error
        with jax.numpy_rank_promotion("allow"):
            obs_shapes = jax.eval_shape(task.reset, jax.random.key(0)).obs
        limit = -(-config.episode_length // config.action_repeat) if self.time_limit is None else self.time_limit
        bounds = Continuous((-1.0,) * task.action_size, (1.0,) * task.action_size)
        layout = _layout(obs_shapes)
        limit = limit if self.truncates else None
        spec = Spec(self.env_id, "playground", layout.shape, layout.dtype, bounds, limit, True, layout.parts)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "_task", task)
        object.__setattr__(self, "_repeat", config.action_repeat)
        object.__setattr__(self, "_layout", layout)

    def first(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        key = jax.random.wrap_key_data(jax.random.key_data(key))  # a task keeps it: one kind, whoever draws
        state = self._task.reset(key)
        return state, self._seen(state)

    def following(self, key: PRNGKeyArray, game: Any, action: Num[Array, " ..."]) -> tuple[Any, Array, Array, Array]:
        def once(state, _):
            copied = jax.tree.map(lambda x: x, state)  # some tasks write into what they get
            state = jax.tree.map(like, self._task.step(copied, action), state)
            return state, state.reward

        state, rewards = jax.lax.scan(once, game, length=self._repeat)
        return state, self._seen(state), rewards.sum().astype(jnp.float32), state.done > 0

    def _seen(self, state: Any) -> Float[Array, " numbers"]:
        return self._layout.convert(jax.tree.map(lambda x: x[None], state.obs))[0]

    def without_time_limit(self) -> _PlaygroundEnv:
        """The same dynamics and the same state, never truncated."""
        return dataclasses.replace(self, truncates=False)


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


def make(request: EnvRequest) -> _PlaygroundEnv:
    """The task of an id."""
    pairs = ((name, tuple(value) if isinstance(value, list) else value) for name, value in request.options.items())
    return _PlaygroundEnv(request.env_id, tuple(sorted(pairs)), request.time_limit)
