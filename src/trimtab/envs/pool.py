"""Environments in C++: EnvPool, with its next-step autoreset made visible.

After a row that ended an episode EnvPool ignores the next action, resets, and returns a row whose
`elapsed_step` is 0: that row is marked not valid. On the row that ended the episode the observation is the
true final one.

EnvPool calls whatever ends at its limit a truncation, also a fall at the very last step. Where its limit is a
mere counter it is therefore moved one step out of reach and kept here. Procgen has a limit of its own that
cannot be moved (moving EnvPool's only changes what endings are called), so a shorter one is kept here and a
longer one refused. For the other families EnvPool's word is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from .base import EnvError, HostStep, Spec, refuse_bad_time_limit, refuse_unknown_options, spread_seeds
from .layout import action_of, layout_of, without_precision_warnings
from .names import canonical

# Families whose limit does nothing but end the episode.
_CLASSIC = "envpool.classic_control"
_COUNTED_FAMILIES = (_CLASSIC, "envpool.mujoco.gym", "envpool.atari", "envpool.box2d")
_PROCGEN = "envpool.procgen"
# What we set ourselves, or what would change the meaning of a step.
_RESERVED = {"num_envs", "batch_size", "seed", "env_seed", "max_num_players", "gym_reset_return_info"}
_NO_LIMIT = 2**31 - 2


class PoolEnv:
    """N EnvPool environments as a `HostEnv`."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        time_limit: int | None = None,
        seed: int = 0,
    ) -> None:
        self.num_envs = num_envs
        self._task = canonical(env_id)
        self._seed = seed
        self._pool: Any = None
        options = dict(env_kwargs or {})
        defaults = _spec_of(self._task, {})
        refuse_unknown_options(env_id, options, set(defaults.config._fields) - _RESERVED)
        asked = options.pop("max_episode_steps", None)
        limit, pool_limit = _limits(self._task, defaults, asked if time_limit is None else time_limit)
        if _family(self._task) == _CLASSIC:
            options.setdefault("num_threads", 1)  # their steps cost less than waking a second thread
        self._config = {**options, "max_episode_steps": pool_limit}
        described = _spec_of(self._task, self._config)
        with without_precision_warnings():
            observed, acted = described.gymnasium_observation_space, described.gymnasium_action_space
        _refuse_unsupported(env_id, described, observed)
        self._layout = layout_of(observed.shape, observed.dtype)
        self._action_dtype, self._action_shape = acted.dtype, acted.shape
        action = action_of(env_id, acted)
        shape, dtype = self._layout.shape, self._layout.dtype
        self.spec = Spec(env_id, "envpool", shape, dtype, action, limit, compiled=False)

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        """Build the pool anew: EnvPool takes a seed only at construction."""
        self.close()
        seeds = spread_seeds(self._seed if seed is None else seed, self.num_envs)
        with without_precision_warnings():
            self._pool = _import_envpool().make(
                self._task, env_type="gymnasium", num_envs=self.num_envs, seed=seeds, **self._config
            )
            obs, _ = self._pool.reset()
        self._obs = self._layout.convert(obs)
        return self._obs

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep:
        actions = np.asarray(actions, self._action_dtype).reshape(self.num_envs, *self._action_shape)
        obs, reward, terminated, cut_by_pool, info = self._pool.step(actions)
        next_obs = self._layout.convert(obs)
        elapsed = info["elapsed_step"]
        cut_here = np.zeros(self.num_envs, bool)
        if self.spec.time_limit is not None:
            cut_here = (elapsed >= self.spec.time_limit) & ~terminated & ~cut_by_pool
        self._obs = next_obs
        if cut_here.any():
            self.reset_some(cut_here)
        truncated = (cut_by_pool & ~terminated) | cut_here
        reward = np.asarray(reward, np.float32)
        return HostStep(self._obs, next_obs, reward, np.asarray(terminated), truncated, elapsed > 0)

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        if not mask.any():
            return self._obs
        obs, info = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        self._obs = self._obs.copy()
        self._obs[info["env_id"]] = self._layout.convert(obs)
        return self._obs

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def pool_ids() -> list[str]:
    """Every id EnvPool knows."""
    return list(_import_envpool().list_all_envs())


def _import_envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        raise EnvError(f"backend: envpool is not usable ({error}); pip install 'trimtab[envpool]'") from error
    return envpool


def _spec_of(task: str, config: dict[str, Any]) -> Any:
    """EnvPool's description of a task; loading its family is where a system library may be missing."""
    envpool = _import_envpool()
    try:
        with without_precision_warnings():
            return envpool.make_spec(task, **config)
    except AssertionError as error:
        raise EnvError(f"env_id: EnvPool does not have {task}") from error
    except (ImportError, OSError) as error:
        hint = "; install the Debian package libqt5gui5" if "libQt5" in str(error) else ""
        raise EnvError(f"env_id: EnvPool cannot load {task}: {error}{hint}") from error


def _family(task: str) -> str:
    """The EnvPool module that implements a task."""
    return _import_envpool().registration.registry.specs[task][0]


def _limits(task: str, defaults: Any, asked: int | None) -> tuple[int | None, int]:
    """(the limit kept here, the limit given to EnvPool)."""
    refuse_bad_time_limit(task, asked)
    own = int(defaults.config.max_episode_steps)
    limit = own if asked is None else asked
    family = _family(task)
    if family == _PROCGEN:
        if limit > own:
            raise EnvError(f"time_limit: {task} ends after {own} steps by itself; {limit} is beyond it")
        return limit, own
    if limit >= _NO_LIMIT:
        return None, own
    return limit, limit + 1 if family in _COUNTED_FAMILIES else limit


def _refuse_unsupported(env_id: str, described: Any, observed: Any) -> None:
    from gymnasium import spaces

    if not isinstance(observed, spaces.Box):
        raise EnvError(f"env_id: {env_id} observes {type(observed).__name__}; EnvPool's Box is supported")
    if described.config.max_num_players > 1:
        raise EnvError(f"env_id: {env_id} has several players; one is supported")
