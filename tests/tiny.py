"""Tiny configurations, and algorithms compiled once per static configuration and reused between tests."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from trimtab import envs
from trimtab.config import Config
from trimtab.training.algorithm import Algorithm, hypers_of

BASE: dict[str, Any] = {
    "num_envs": 2,
    "num_steps": 8,
    "total_timesteps": 64,
    "num_minibatches": 2,
    "update_epochs": 1,
    "hidden_sizes": (8,),
    "learning_rate": 0.01,
    "eval_every": 0,  # compiling evaluations takes longer than these runs
}


def config(**changes: Any) -> Config:
    return Config(**{**BASE, **changes})


class Bench:
    """An algorithm with its `init` and `step` compiled."""

    def __init__(self, config: Config, env=None):
        env = env or envs.make(
            config.env_id,
            num_envs=config.num_envs,
            backend=config.backend,
            env_kwargs=config.env_kwargs,
            time_limit=config.time_limit,
        )
        self.algorithm = Algorithm(config, env)
        self.init = jax.jit(self.algorithm.init)
        self.step = jax.jit(self.algorithm.step)
        self.collect = jax.jit(self.algorithm.collect)

    def run(self, config: Config, iterations: int, seed: int = 0):
        """States before each iteration and after the last, and every iteration's Info, as NumPy."""
        hypers = hypers_of(config)
        states, infos = [self.init(jax.random.key(seed), hypers)], []
        for _ in range(iterations):
            state, info = self.step(states[-1], hypers)
            states.append(state)
            infos.append(jax.tree.map(np.asarray, info))
        return states, infos


_benches: dict[tuple, Bench] = {}


def bench(config: Config) -> Bench:
    """The compiled algorithm of a configuration; traced numbers do not make a new one."""
    if config.shape not in _benches:
        _benches[config.shape] = Bench(config)
    return _benches[config.shape]


def forget() -> None:
    """Let the compiled algorithms go."""
    _benches.clear()


def metric(infos, name: str) -> np.ndarray:
    return np.array([info.metrics[name] for info in infos])
