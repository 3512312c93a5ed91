"""Environments written in JAX: gymnax's dynamics under our own time limit, resets and types.

Only `reset_env` and `step_env` of gymnax are used. Its `step` keeps the limit in its parameters, where some
environments also read it for other things, and calls a termination at the limit a truncation as well.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.envs.base import Continuous, Discrete, EnvError, Fresh, Spec, Step, refuse_unknown_options, reset_key
from trimtab.envs.jax_game import JaxGame, any_rank, end_step
from trimtab.envs.known_ids import NATIVE_IDS, NATIVE_LEFT_OUT, NATIVE_MODULES


@dataclass(frozen=True)
class _NativeEnv(JaxGame):
    """One gymnax environment, whose own state counts the steps.

    `options` are constructor arguments or fields of gymnax's parameters.
    """

    @cached_property
    def _built(self) -> tuple[Any, Any]:
        """gymnax's environment and parameters: arrays, which must not belong to a trace."""
        with jax.ensure_compile_time_eval(), any_rank():
            return _build(self.env_id, dict(self.options), self.time_limit)

    @cached_property
    def _after_step(self) -> tuple[Any, Any]:
        """Shapes and types of an observation and of a state after a step."""
        with any_rank():
            return jax.eval_shape(lambda: _first_transition(*self._built))

    @cached_property
    def spec(self) -> Spec:
        with jax.ensure_compile_time_eval(), any_rank():
            action = _action_of(*self._built)
        limit = int(self._built[1].max_steps_in_episode) if self.truncates else None
        return Spec(self.env_id, "native", self._after_step[0].shape, "float32", action, limit, compiled=True)

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Float[Array, " ..."]]:
        game, params = self._built
        with any_rank():
            obs, state = game.reset_env(key, params)
        return self._settled(state), jnp.asarray(obs, jnp.float32)

    def step(
        self, key: PRNGKeyArray, env_state: Any, action: Num[Array, " ..."], fresh: Fresh | None = None
    ) -> tuple[Any, Step]:
        game, params = self._built
        with any_rank():
            obs, stepped, reward, terminated, _ = game.step_env(key, env_state, action, params)
        next_obs, terminated = jnp.asarray(obs, jnp.float32), jnp.asarray(terminated, bool)
        fresh = self.reset(reset_key(key)) if fresh is None else fresh
        reward = jnp.asarray(reward, jnp.float32)
        return end_step(self.spec.time_limit, self._settled(stepped), next_obs, reward, terminated, fresh)

    def _settled(self, state: Any) -> Any:
        """Give every leaf the type it has after a step: some resets give Python numbers and weak types."""
        return jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), state, self._after_step[1])


make = _NativeEnv.of


def _build(env_id: str, options: dict[str, Any], time_limit: int | None) -> tuple[Any, Any]:
    """gymnax's environment and parameters, the options shared out between the two."""
    if env_id not in NATIVE_IDS:
        reason = NATIVE_LEFT_OUT.get(env_id, "gymnax does not have it")
        raise EnvError(f"env_id: {env_id} does not run on backend native: {reason}")
    game_class = _class_of(env_id)
    game = game_class()
    params = game.default_params
    arguments = set(inspect.signature(game_class).parameters)
    fields = {field.name for field in dataclasses.fields(params)}
    refuse_unknown_options(env_id, options, arguments | fields)
    if arguments & set(options):
        game = game_class(**{k: v for k, v in options.items() if k in arguments})
        params = game.default_params
    changes = {name: value for name, value in options.items() if name not in arguments}
    if time_limit is not None:
        changes["max_steps_in_episode"] = time_limit
    changes = {name: _like(getattr(params, name), value) for name, value in changes.items()}
    params = params.replace(**changes)
    return game, _consistent_cart(params, changes) if env_id == "CartPole-v1" else params


_LOADING = threading.Lock()  # stand-ins are everybody's while they are there


@cache
def _class_of(env_id: str) -> Any:
    """gymnax's class of an id, loaded without the rest of gymnax, and without what some of it draws with."""
    module, _, name = NATIVE_MODULES[env_id].partition(":")
    packages = ("gymnax", "gymnax.environments", f"gymnax.environments.{module.partition('.')[0]}")
    try:
        with _LOADING, _bare(*packages), _put_off("matplotlib.pyplot", "seaborn"):
            return getattr(importlib.import_module(f"gymnax.environments.{module}"), name)
    except ModuleNotFoundError as error:
        raise EnvError(f"backend: native needs the Python package {error.name!r}: pip install {error.name}") from error


@contextmanager
def _bare(*packages: str) -> Iterator[None]:
    """What is imported meanwhile finds these packages without running what they import themselves."""
    package_spec = importlib.util.find_spec(packages[0])
    if package_spec is None or package_spec.submodule_search_locations is None:
        raise ModuleNotFoundError(name=packages[0])
    root = Path(next(iter(package_spec.submodule_search_locations)))
    stands_in = {name: ModuleType(name) for name in packages if name not in sys.modules}
    for name, module in stands_in.items():
        module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in stands_in:
            del sys.modules[name]


@contextmanager
def _put_off(*names: str) -> Iterator[None]:
    """What is imported meanwhile gets these modules as stand-ins, which load the real ones when first used."""

    def load(name: str, attribute: str) -> Any:
        if sys.modules.get(name) is stands_in.get(name):
            sys.modules.pop(name, None)
        return getattr(importlib.import_module(name), attribute)

    stands_in = {name: ModuleType(name) for name in names if name not in sys.modules}
    for name, module in stands_in.items():
        module.__getattr__ = partial(load, name)  # type: ignore[method-assign]  # how modules load lazily
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module in stands_in.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _like(default: Any, value: Any) -> Any:
    """An option for an array parameter arrives as a tuple."""
    return jnp.asarray(value, default.dtype) if isinstance(default, jax.Array) else value


def _consistent_cart(params: Any, changes: dict[str, Any]) -> Any:
    """gymnax stores total mass and moment beside the masses they follow from; keep them in step."""
    total_mass = changes.get("total_mass", params.masscart + params.masspole)
    moment = changes.get("polemass_length", params.masspole * params.length)
    return params.replace(total_mass=total_mass, polemass_length=moment)


def _first_transition(game: Any, params: Any) -> tuple[Array, Any]:
    """Observation and state after a first step, to read their shapes and types."""
    key = jax.random.key(0)
    _, state = game.reset_env(key, params)
    action = game.action_space(params).sample(key)
    obs, state, *_ = game.step_env(key, state, action, params)
    return obs, state


def _action_of(game: Any, params: Any) -> Discrete | Continuous:
    space = game.action_space(params)
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    low, high = (jnp.broadcast_to(jnp.asarray(bound), space.shape) for bound in (space.low, space.high))
    return Continuous(tuple(map(float, low)), tuple(map(float, high)))
