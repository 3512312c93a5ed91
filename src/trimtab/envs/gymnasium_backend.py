"""Environments in Python: Gymnasium's vector API with same-step autoreset.

The step that ends an episode returns the first observation of the next one; the true final observation comes
in `infos["final_obs"]`. No row is lost, so every row is valid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import AtOnce, EnvError, HostStep, Spec, refuse_bad_time_limit, spread_seeds
from trimtab.envs.layout import actions_of, layout_of_space, without_precision_warnings
from trimtab.envs.own_environments import (
    Constructor,
    close_quietly,
    describe_error,
    described,
    name_of,
    refuse_unknown_arguments,
    registered,
    warn_once,
)
from trimtab.envs.vector_envs import VectorEnv

VECTORIZATIONS = ("sync", "async", "vector_entry_point")
LEARNING_WRAPPERS = {"NormalizeObservation": "--norm-obs true", "NormalizeReward": "--norm-reward true"}


def make(request: EnvRequest) -> GymEnv | VectorEnv:
    """N environments of an id."""
    return make_gym(request)


def make_gym(request: EnvRequest, constructor: Constructor | None = None) -> GymEnv | VectorEnv:
    """N environments of an id or of a constructor, vectorized here or by the environment's own vector entry point."""
    env_id, num_envs, options, time_limit, seed, _ = request
    options = dict(options)
    env_spec = registered(env_id) if constructor is None else described(constructor, name_of(constructor))
    way = options.pop("vectorization", "sync" if env_spec.entry_point is not None else "vector_entry_point")
    if way not in VECTORIZATIONS:
        raise EnvError(f"env_kwargs: vectorization is {', '.join(map(repr, VECTORIZATIONS))}, not {way!r}")
    if way == "vector_entry_point":
        return VectorEnv(env_id, env_spec, num_envs, options, time_limit, seed)
    return GymEnv(env_id, num_envs, options, time_limit, seed, way, env_spec)


class GymEnv(AtOnce):
    """N Gymnasium environments as a `HostEnv`, in this process ("sync") or one process each ("async")."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        time_limit: int | None = None,
        seed: int = 0,
        vectorization: str = "sync",
        env_spec: Any = None,
    ) -> None:
        refuse_bad_time_limit(env_id, time_limit)
        self.num_envs = num_envs
        self._seed = seed
        env_spec = registered(env_id) if env_spec is None else env_spec
        options = dict(env_kwargs or {})
        refuse_unknown_arguments(env_id, env_spec.entry_point, options)
        make_one = partial(_make_one, env_id, env_spec, time_limit, options)
        limit, self._layout, self._actions = _probe(env_id, make_one)
        if time_limit is not None and limit is not None and limit < time_limit:
            problem = f"{time_limit}: {env_id} ends its episodes after {limit} steps by itself; nearest: {limit}"
            raise EnvError(f"time_limit: {problem}")
        with without_precision_warnings():
            self._vector = _vectorize(partial(_make_checked, make_one, env_id), num_envs, vectorization)
        observed = self._vector.single_observation_space
        self._batch_layout = layout_of_space(env_id, observed)  # of what leaves `Checked`
        shape, dtype, parts = self._layout.shape, self._layout.dtype, self._layout.parts
        self.spec = Spec(env_id, "gymnasium", shape, dtype, self._actions.space, limit, compiled=False, parts=parts)

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        seeds = spread_seeds(self._seed if seed is None else seed, self.num_envs)
        obs, _ = self._ask(lambda: self._vector.reset(seed=seeds))
        self._obs = self._batch_layout.convert(obs)
        return self._obs

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep:
        env_actions = self._actions.convert(actions)
        obs, reward, terminated, truncated, info = self._ask(lambda: self._vector.step(env_actions))
        final = np.array(obs)
        for row in np.flatnonzero(terminated | truncated):
            final[row] = info["final_obs"][row]
        self._obs = self._batch_layout.convert(obs)
        reward = np.asarray(reward, np.float32)
        valid = np.ones(self.num_envs, bool)
        truncated = truncated & ~terminated
        next_obs = self._batch_layout.convert(final)
        return HostStep(self._obs, next_obs, reward, np.array(terminated), truncated, valid)

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        if mask.any():
            options = {"reset_mask": np.asarray(mask, np.bool_)}
            obs, _ = self._ask(lambda: self._vector.reset(options=options))
            self._obs = np.where(_rows(mask, self._obs), self._batch_layout.convert(obs), self._obs)
        return self._obs

    def stream(self) -> None:
        return None  # Python has to be called for every step

    def _ask(self, work: Callable[[], Any]) -> Any:
        """Call the vector; report in one line if one of its processes has ended."""
        try:
            return work()
        except (EOFError, ConnectionError) as error:
            raise EnvError(
                f"env_id: a process of {self.spec.env_id} has ended; it may have run out of memory, or the script that "
                "started it does its work outside of `if __name__ == '__main__':`"
            ) from error

    def close(self) -> None:
        close_quietly(self.spec.env_id, self._close)

    def _close(self) -> None:
        try:
            self._vector.close()
        except (EOFError, OSError):
            if not hasattr(self._vector, "processes"):
                raise
            for process in self._vector.processes:  # one of them is gone, as after Ctrl-C: end the others
                process.terminate()
                process.join()
            self._vector.closed = True


def _rows(mask: Bool[np.ndarray, " N"], like: Shaped[np.ndarray, "N ..."]) -> Bool[np.ndarray, "N ..."]:
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def _make_one(env_id: str, env_spec: Any, time_limit: int | None, options: dict[str, Any]) -> Any:
    """One environment; an error of its constructor is reported in one line."""
    import gymnasium

    try:
        with without_precision_warnings():
            return gymnasium.make(env_spec, max_episode_steps=time_limit, disable_env_checker=True, **options)
    except (Exception, SystemExit) as error:  # whatever the environment's own code raises
        raise EnvError(f"env_id: Gymnasium cannot make {env_id}: {describe_error(error)}") from error


def _make_checked(make_one: Any, env_id: str) -> Any:
    from trimtab.envs.contract_checks import Checked

    return Checked(make_one(), env_id)


def _probe(env_id: str, make_one: Any) -> tuple[int | None, Any, Any]:
    """(time limit, layout, actions) of one environment, made and closed: errors that a user can cause appear here."""
    env = make_one()
    try:
        limit = _limit_of(env)
        _warn_of_learning_wrappers(env_id, env)
        for name in ("observation_space", "action_space"):
            if getattr(env, name, None) is None:
                raise EnvError(f"env_id: {env_id} has no {name}; Gymnasium's environments declare one")
        return limit, layout_of_space(env_id, env.observation_space), actions_of(env_id, env.action_space)
    finally:
        close_quietly(env_id, env.close)


def _wrappers(env: Any) -> Iterator[Any]:
    """An environment with all that it is wrapped in, the outermost first."""
    import gymnasium

    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env


def _limit_of(env: Any) -> int | None:
    """Its shortest time limit. A limit that its constructor wraps it in applies in any case."""
    limits = [getattr(env.spec, "max_episode_steps", None)]
    limits += [getattr(layer, "_max_episode_steps", None) for layer in _wrappers(env)]
    return min((limit for limit in limits if limit), default=None)


def _warn_of_learning_wrappers(env_id: str, env: Any) -> None:
    """Warn about wrappers that gather statistics: no checkpoint keeps them."""
    for layer in _wrappers(env):
        if (ours := LEARNING_WRAPPERS.get(type(layer).__name__)) is not None:
            lost = "gathers statistics that no checkpoint keeps: evaluations, probes and resumed runs begin without"
            warn_once(f"{env_id}: its wrapper {type(layer).__name__} {lost}; {ours} does the same and keeps them")


def _vectorize(make_one: Any, num_envs: int, vectorization: str) -> Any:
    """Worker processes are forked from a clean server: a fork of a process that runs JAX may hang."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

    makers = [make_one] * num_envs
    if vectorization == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    if vectorization == "async":

        class Async(AsyncVectorEnv):
            """Raises what an environment did wrong without printing it first, once for every process."""

            def _raise_if_errors(self, successes: Any) -> None:
                with warnings.catch_warnings(action="ignore", category=UserWarning):
                    super()._raise_if_errors(successes)

        return Async(makers, autoreset_mode=AutoresetMode.SAME_STEP, context="forkserver")
    raise EnvError(f"env_kwargs: vectorization is 'sync' or 'async', not {vectorization!r}")
