"""Environments in Python: Gymnasium's vector API with same-step autoreset.

The step that ends an episode returns the first observation of the next one; the true final observation comes
in `infos["final_obs"]`. No row is lost, so every row is valid.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from .base import EnvError, HostStep, Spec, refuse_bad_time_limit, refuse_unknown_options, spread_seeds
from .layout import action_of, layout_of, without_precision_warnings


class GymEnv:
    """N Gymnasium environments as a `HostEnv`, in this process ("sync") or one process each ("async")."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        time_limit: int | None = None,
        seed: int = 0,
        vectorization: str = "sync",
    ) -> None:
        refuse_bad_time_limit(env_id, time_limit)
        self.num_envs = num_envs
        self._seed = seed
        registered = _registered(env_id)
        options = dict(env_kwargs or {})
        _refuse_unknown_arguments(env_id, registered.entry_point, options)
        make_one = partial(_make_one, registered, time_limit, options)
        limit = _probe(env_id, make_one)
        with without_precision_warnings():
            self._vector = _vectorize(make_one, num_envs, vectorization)
        observed, acted = self._vector.single_observation_space, self._vector.single_action_space
        self._layout = layout_of(observed.shape, observed.dtype)
        self._action_dtype, self._action_shape = acted.dtype, acted.shape
        self._first_action = int(getattr(acted, "start", 0))
        shape, dtype = self._layout.shape, self._layout.dtype
        action = action_of(env_id, acted)
        self.spec = Spec(env_id, "gymnasium", shape, dtype, action, limit, compiled=False)

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        seeds = spread_seeds(self._seed if seed is None else seed, self.num_envs)
        obs, _ = self._vector.reset(seed=seeds)
        self._obs = self._layout.convert(obs)
        return self._obs

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep:
        actions = np.asarray(actions).reshape(self.num_envs, *self._action_shape) + self._first_action
        obs, reward, terminated, truncated, info = self._vector.step(actions.astype(self._action_dtype))
        final = np.array(obs)
        for row in np.flatnonzero(terminated | truncated):
            final[row] = info["final_obs"][row]
        self._obs = self._layout.convert(obs)
        reward = np.asarray(reward, np.float32)
        valid = np.ones(self.num_envs, bool)
        truncated = truncated & ~terminated
        next_obs = self._layout.convert(final)
        return HostStep(self._obs, next_obs, reward, np.array(terminated), truncated, valid)

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        if mask.any():
            obs, _ = self._vector.reset(options={"reset_mask": np.asarray(mask, np.bool_)})
            self._obs = np.where(_rows(mask, self._obs), self._layout.convert(obs), self._obs)
        return self._obs

    def stream(self) -> None:
        return None  # Python has to be called for every step

    def close(self) -> None:
        self._vector.close()


def _rows(mask: Bool[np.ndarray, " N"], like: Shaped[np.ndarray, "N ..."]) -> Bool[np.ndarray, "N ..."]:
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def _registered(env_id: str) -> Any:
    """Gymnasium's own description of an id; `module:id` imports the module first."""
    import gymnasium

    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError) as error:
        raise EnvError(f"env_id: Gymnasium does not have {env_id}: {error}") from error


def _make_one(registered: Any, time_limit: int | None, options: dict[str, Any]) -> Any:
    """One environment; observations that are not arrays are flattened (a state index becomes one-hot)."""
    import gymnasium

    with without_precision_warnings():
        env = gymnasium.make(registered, max_episode_steps=time_limit, **options)
    is_array = isinstance(env.observation_space, gymnasium.spaces.Box)
    return env if is_array else gymnasium.wrappers.FlattenObservation(env)


def _probe(env_id: str, make_one: Any) -> int | None:
    """Make one and close it: the errors a user can cause surface here, and the time limit is read off."""
    import gymnasium

    try:
        env = make_one()
    except (gymnasium.error.Error, ImportError) as error:
        raise EnvError(f"env_id: Gymnasium cannot make {env_id}: {error}") from error
    try:
        action_of(env_id, env.action_space)
        return env.spec.max_episode_steps
    finally:
        env.close()


def _refuse_unknown_arguments(env_id: str, entry_point: Any, options: dict[str, Any]) -> None:
    """Check options against the constructor, unless it takes any."""
    import gymnasium

    if not options:
        return
    is_name = isinstance(entry_point, str)
    creator = gymnasium.envs.registration.load_env_creator(entry_point) if is_name else entry_point
    parameters = inspect.signature(creator).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        refuse_unknown_options(env_id, options, parameters)


def _vectorize(make_one: Any, num_envs: int, vectorization: str) -> Any:
    """Worker processes are forked from a clean server: a fork of a process that runs JAX may hang."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

    makers = [make_one] * num_envs
    if vectorization == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    if vectorization == "async":
        return AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP, context="forkserver")
    raise EnvError(f"env_kwargs: vectorization is 'sync' or 'async', not {vectorization!r}")
