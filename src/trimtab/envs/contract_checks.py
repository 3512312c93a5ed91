"""One environment in Python, watched: what it does wrong ends in one line that names it and the step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from trimtab.envs.base import LARGEST, EnvError
from trimtab.envs.layout import FlatLayout, layout_of_space
from trimtab.envs.own_environments import describe_error


class Checked(gymnasium.Wrapper):
    """Refuses exceptions, numbers that are not finite, and shapes or types other than declared.

    Observations that are not arrays leave as the flat vector of their layout. Numbers of the declared kind in another
    width (float64 for float32) are accepted, as everywhere in Gymnasium; floats for bytes are not. What it says beside
    them (`info`) ends here: nothing reads it, and not all that is legal there can be batched.
    """

    def __init__(self, env: gymnasium.Env, env_id: str):
        super().__init__(env)
        self._env_id, self._step, self._episode = env_id, 0, 0
        self._declared = env.observation_space
        layout = layout_of_space(env_id, self._declared)
        self._flat = layout if isinstance(layout, FlatLayout) else None
        if self._flat:
            self.observation_space = spaces.Box(-np.inf, np.inf, layout.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self._step, self._episode = 0, self._episode + 1
        returned = self._run(lambda: self.env.reset(seed=seed, options=options))
        if not isinstance(returned, tuple) or len(returned) != 2:
            self._refuse("must return (observation, info)")
        return self._observed(returned[0]), {}

    def step(self, action: Any):
        self._step += 1
        returned = self._run(lambda: self.env.step(action))
        if not isinstance(returned, tuple) or len(returned) != 5:
            self._refuse("must return (observation, reward, terminated, truncated, info)")
        obs, reward, terminated, truncated, _ = returned
        number = _as_array(reward)
        if number is None or number.size != 1 or number.dtype.kind not in "fiub":
            raise self._error(f"returned the reward {reward!r}, which is not one number")
        if not abs(value := float(number.reshape(()))) <= LARGEST:
            self._refuse(f"returned the reward {value:g}")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            value_of_flag = _as_array(flag)
            if value_of_flag is None or value_of_flag.size != 1 or value_of_flag.dtype.kind not in "biu":
                self._refuse(f"returned {name} {flag!r}, which is neither true nor false")
        return self._observed(obs), value, bool(terminated), bool(truncated), {}

    def _run(self, work) -> Any:
        try:
            return work()
        except EnvError:
            raise
        except (Exception, SystemExit) as error:  # whatever the environment's own code raises
            where = "reset" if self._step == 0 else "step"
            raise EnvError(f"env_id: {self._env_id} raised {describe_error(error)} in {where}{self._when()}") from error

    def _observed(self, obs: Any) -> Any:
        problem = _mismatch(self._declared, obs, "")
        if problem:
            self._refuse(problem)
        if self._flat is None:
            return np.array(obs)  # a copy: the final observation is kept while the environment resets
        return self._flat.convert(_batch_of_one(self._declared, obs))[0]

    def _refuse(self, problem: str) -> None:
        raise self._error(problem)

    def _error(self, problem: str) -> EnvError:
        where = "reset" if self._step == 0 else "step"
        return EnvError(f"env_id: {where} of {self._env_id} {problem}{self._when()}")

    def _when(self) -> str:
        return f" (step {self._step} of its episode {self._episode})"


def _mismatch(space: spaces.Space, obs: Any, where: str) -> str:
    """What is wrong with an observation; empty if nothing."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            description = f"keys {', '.join(map(str, obs))}" if isinstance(obs, dict) else type(obs).__name__
            return f"returned {description}, declared are keys {', '.join(map(str, space.spaces))}{where}"
        inner = [(space.spaces[key], obs[key], f" in {key}") for key in space.spaces]
        return next((p for s, o, w in inner if (p := _mismatch(s, o, w + where))), "")
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            return f"returned {type(obs).__name__}, declared is a tuple of {len(space.spaces)}{where}"
        inner = [(s, o, f" in entry {k}") for k, (s, o) in enumerate(zip(space.spaces, obs))]
        return next((p for s, o, w in inner if (p := _mismatch(s, o, w + where))), "")
    if isinstance(space, spaces.Box):
        return _mismatched_array(space, obs, where)
    return "" if space.contains(obs) else f"returned the observation {obs!r}, declared is {space}{where}"


def _mismatched_array(space: spaces.Box, obs: Any, where: str) -> str:
    values = _as_array(obs)
    if values is None:
        return f"returned an observation whose parts differ in shape, declared is {space.shape}{where}"
    if values.shape != space.shape:
        return f"returned an observation of shape {values.shape}, declared is {space.shape}{where}"
    if not np.can_cast(values.dtype, np.dtype(space.dtype), "same_kind"):
        return f"returned an observation of type {values.dtype}, declared is {space.dtype}{where}"
    if values.dtype.kind == "f" and not (in_range := np.abs(values.astype(float)) <= LARGEST).all():
        return f"returned an observation with {float(values[~in_range].reshape(-1)[0]):g}{where}"
    return ""


def _as_array(values: Any) -> np.ndarray | None:
    """NumPy's array of it; None where its parts have different shapes."""
    try:
        return np.asarray(values)
    except ValueError:
        return None


def _batch_of_one(space: spaces.Space, obs: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _batch_of_one(inner, obs[key]) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_batch_of_one(inner, o) for inner, o in zip(space.spaces, obs))
    return np.asarray(obs)[None]
