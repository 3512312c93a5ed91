"""Environments that are vectors themselves: a `gymnasium.vector` entry point, with its own way of resetting.

NEXT_STEP: the step after an end ignores its action and returns the first observation of the next episode: a row that is
not valid. SAME_STEP: the step that ends an episode returns it, and the final one in `final_obs`. DISABLED: it is asked
to reset what has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from trimtab.envs.base import LARGEST, AtOnce, EnvError, HostStep, Spec, refuse_bad_time_limit, spread_seeds
from trimtab.envs.layout import Layout, actions_of, layout_of_space, without_precision_warnings
from trimtab.envs.own_environments import close_quietly, describe_error, refuse_unknown_arguments


class VectorEnv(AtOnce):
    """N environments that the user's own vector environment steps, as a `HostEnv`."""

    def __init__(
        self, env_id: str, env_spec: Any, num_envs: int, options: dict[str, Any], time_limit: int | None, seed: int
    ) -> None:
        import gymnasium

        refuse_bad_time_limit(env_id, time_limit)
        if env_spec.vector_entry_point is None:
            raise EnvError(f"env_kwargs: {env_id} has no vector entry point; nearest: vectorization: sync")
        self.num_envs, self._env_id, self._seed, self._steps = num_envs, env_id, seed, 0
        limit = env_spec.max_episode_steps if time_limit is None else time_limit
        refuse_unknown_arguments(env_id, env_spec.vector_entry_point, options)
        if time_limit is not None:
            options = {**options, "max_episode_steps": time_limit}
            self._refuse_limit(env_spec.vector_entry_point, options)
        with without_precision_warnings():
            self._vector = self._run("making", lambda: gymnasium.make_vec(env_spec, num_envs, **options))
        try:
            self._run("what is declared", lambda: self._describe(env_id, limit))
        except BaseException:
            self.close()
            raise

    def _refuse_limit(self, entry_point: Any, options: dict[str, Any]) -> None:
        """Its own limit is all there is to a vector that takes no other."""
        try:
            refuse_unknown_arguments(self._env_id, entry_point, options)
        except EnvError:
            limit = options["max_episode_steps"]
            problem = f"{limit}: {self._env_id} makes its vectors itself, and takes no max_episode_steps"
            raise EnvError(f"time_limit: {problem}; nearest: not given") from None

    def _describe(self, env_id: str, limit: int | None) -> None:
        """How it resets, what it observes and takes."""
        from gymnasium.vector import AutoresetMode

        declared = (self._vector.metadata or {}).get("autoreset_mode")
        self._assumed, mode = declared is None, AutoresetMode(declared or AutoresetMode.NEXT_STEP)
        self._same_step, self._next_step = mode is AutoresetMode.SAME_STEP, mode is AutoresetMode.NEXT_STEP
        self.resets_some = not self._next_step
        self._layout = layout_of_space(env_id, self._vector.single_observation_space)
        self._actions = actions_of(env_id, self._vector.single_action_space)
        if self._same_step and not isinstance(self._layout, Layout):
            raise EnvError(f"env_id: {env_id} resets in the same step and does not observe arrays; autoreset NEXT_STEP")
        shape, dtype, parts = self._layout.shape, self._layout.dtype, self._layout.parts
        self.spec = Spec(env_id, "gymnasium", shape, dtype, self._actions.space, limit, compiled=False, parts=parts)

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        (first,) = spread_seeds(self._seed if seed is None else seed, 1)  # vectors count on from it: far from others
        obs, _ = self._returned("reset", 2, lambda: self._vector.reset(seed=first))
        self._obs, self._ended = self._read(obs), np.zeros(self.num_envs, bool)
        return self._obs

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep:
        self._steps += 1
        env_actions = self._actions.convert(actions)
        obs, reward, terminated, truncated, info = self._returned("step", 5, lambda: self._vector.step(env_actions))
        columns = (reward, terminated, truncated)
        reward, terminated, truncated = self._run("step", lambda: [np.array(x).reshape(-1) for x in columns])
        is_number = reward.shape == (self.num_envs,) and reward.dtype.kind in "fiub"
        if not is_number or not (np.abs(reward) <= LARGEST).all():
            raise EnvError(f"env_id: step of {self._env_id} returned the rewards {reward}{self._when()}")
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            if flags.shape != (self.num_envs,) or flags.dtype.kind not in "biu":
                raise EnvError(f"env_id: step of {self._env_id} returned {name} {flags}{self._when()}")
        terminated, truncated = terminated.astype(bool), truncated.astype(bool)
        if not isinstance(info, dict):
            raise EnvError(f"env_id: step of {self._env_id} returned the info {info!r}, not a dict{self._when()}")
        if self._assumed and info.keys() & {"final_obs", "final_observation"}:
            problem = "says final observations and not how it resets; declare metadata['autoreset_mode']"
            raise EnvError(f"env_id: {self._env_id} {problem}")
        truncated = truncated & ~terminated
        valid = ~self._ended if self._next_step else np.ones(self.num_envs, bool)
        ended = (terminated | truncated) & valid
        next_obs = self._final(obs, ended, info) if self._same_step else self._read(obs)
        self._obs, self._ended = next_obs if not self._same_step else self._read(obs), ended
        if ended.any() and not (self._same_step or self._next_step):
            self.reset_some(ended)
        return HostStep(self._obs, next_obs, reward.astype(np.float32), terminated & valid, truncated & valid, valid)

    def _final(self, obs: Any, ended: Bool[np.ndarray, " N"], info: dict) -> Shaped[np.ndarray, "N ..."]:
        final = self._run("step", lambda: np.array(obs))
        if ended.any() and "final_obs" not in info:
            problem = "resets in the same step and does not say the final observations in info['final_obs']"
            raise EnvError(f"env_id: {self._env_id} {problem}{self._when()}")
        for row in np.flatnonzero(ended):
            final[row] = info["final_obs"][row]
        return self._read(final)

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        """Only what was made for it can reset a part."""
        if not mask.any():
            return self._obs
        if self._next_step:
            raise EnvError(f"stagger_resets: {self._env_id} cannot reset some of its environments; nearest: false")
        options = {"reset_mask": np.asarray(mask, np.bool_)}
        obs = self._read(self._returned("reset", 2, lambda: self._vector.reset(options=options))[0])
        self._obs = np.where(mask.reshape(-1, *(1,) * (obs.ndim - 1)), obs, self._obs)
        return self._obs

    def _read(self, obs: Any) -> Shaped[np.ndarray, "N ..."]:
        try:
            with np.errstate(over="ignore"):
                obs = np.array(self._layout.convert(obs))  # a copy: some return the same array at every step
        except (ValueError, TypeError, KeyError, IndexError) as error:
            problem = f"returned observations other than declared: {describe_error(error)}{self._when()}"
            raise EnvError(f"env_id: {self._env_id} {problem}") from error
        declared = (self.num_envs, *self.spec.obs_shape)
        if obs.shape != declared:
            problem = f"observations of shape {obs.shape}, declared is {declared}"
            raise EnvError(f"env_id: {self._env_id} returned {problem}{self._when()}")
        if obs.dtype.kind == "f" and not np.isfinite(obs).all():
            raise EnvError(f"env_id: {self._env_id} returned observations that are not finite{self._when()}")
        return obs

    def _returned(self, what: str, count: int, work: Callable[[], Any]) -> tuple[Any, ...]:
        """What reset or step returned, which is so many things."""
        returned = self._run(what, work)
        if not isinstance(returned, tuple) or len(returned) != count:
            names = "(observations, infos)" if count == 2 else "(observations, rewards, terminated, truncated, infos)"
            raise EnvError(f"env_id: {what} of {self._env_id} must return {names}{self._when()}")
        return returned

    def _run(self, what: str, work) -> Any:
        try:
            with np.errstate(over="ignore"):  # its check reports what is too large for float32
                return work()
        except EnvError:
            raise
        except (Exception, SystemExit) as error:  # whatever the environment's own code raises
            raise EnvError(f"env_id: {what} of {self._env_id} raised {describe_error(error)}{self._when()}") from error

    def _when(self) -> str:
        return f" (step {self._steps} of each)"

    def stream(self) -> None:
        return None

    def close(self) -> None:
        close_quietly(self._env_id, self._vector.close)
