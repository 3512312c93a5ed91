"""Episodes with exploration off."""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.training.algorithm import Algorithm
from trimtab.training.engine_setup import load_engine
from trimtab.training.records import Evaluation
from trimtab.training.run_dir import RunDir
from trimtab.training.sharding import one_copy
from trimtab.training.state import State

EVALUATION_SEEDS = 1_000_000  # `trimtab eval` starts here plus the run's seed, away from the seeds of training
LONGEST = 27_000  # steps after which an episode without a time limit is cut


class Episodes(NamedTuple):
    """Returns and lengths of the first episode of each environment."""

    returns: np.ndarray
    lengths: np.ndarray

    def summary(self, step: int, iteration: int | None = None, seed: int | None = None) -> Evaluation:
        """The evaluation they make, of the policy after `step` environment steps."""
        low, median, high = map(float, np.percentile(self.returns, [25, 50, 75]))
        return Evaluation(
            step=step,
            mean_reward=float(self.returns.mean()),
            median_reward=median,
            iqr_low=low,
            iqr_high=high,
            std_reward=float(self.returns.std()),
            mean_ep_length=float(self.lengths.mean()),
            episodes=len(self.returns),
            iteration=iteration,
            seed=seed,
        )


def evaluate(algorithm: Algorithm, state: State, hypers, episodes: int, seed: int) -> Episodes:
    """One episode in each of `episodes` environments: the first to finish are not favoured over the long ones."""
    if algorithm.env.spec.compiled:
        run = _compiled(algorithm, episodes)
        returns, lengths = run(state.params, state.obs_stats, hypers, jax.random.key(seed))
        return Episodes(np.asarray(returns), np.asarray(lengths))
    return _host(algorithm, state, hypers, episodes, seed)


def _compiled(algorithm: Algorithm, episodes: int):
    """A compiled evaluation, kept on the algorithm so that it is traced once."""
    name = ("evaluate", episodes)
    if name in algorithm.programs:
        return algorithm.programs[name]
    env, limit = algorithm.env, algorithm.env.spec.time_limit or LONGEST

    def run(params, obs_stats, hypers, key):
        reset_key, step_key = jax.random.split(key)
        env_state, obs = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))
        zeros = jnp.zeros(episodes)

        def going(carry):
            t, _, _, alive, _, _ = carry
            return (t < limit) & alive.any()

        def step(carry):
            t, env_state, obs, alive, total, length = carry
            action = algorithm.act_greedily(params, obs_stats, obs, hypers)
            keys = jax.random.split(jax.random.fold_in(step_key, t), episodes)
            env_state, out = jax.vmap(env.step)(keys, env_state, action)
            total, length = total + alive * out.reward, length + alive
            return t + 1, env_state, out.obs, alive & ~(out.terminated | out.truncated), total, length

        start = (0, env_state, obs, jnp.ones(episodes, bool), zeros, zeros)
        return jax.lax.while_loop(going, step, start)[4:]

    algorithm.programs[name] = jax.jit(run)
    return algorithm.programs[name]


def _host(algorithm: Algorithm, state: State, hypers, episodes: int, seed: int) -> Episodes:
    env = algorithm.make_env(episodes)
    params, obs_stats = one_copy((state.params, state.obs_stats))  # of a run on many devices
    act = jax.jit(algorithm.act_greedily)
    total, length, alive = np.zeros(episodes), np.zeros(episodes), np.ones(episodes, bool)
    try:
        obs = env.reset(seed)
        for _ in range(algorithm.env.spec.time_limit or LONGEST):
            out = env.step(np.asarray(act(params, obs_stats, obs, hypers)))
            total += alive * out.reward
            length += alive
            alive &= ~(out.terminated | out.truncated)
            obs = out.obs
            if not alive.any():
                break
    finally:
        env.close()
    return Episodes(total, length)


def evaluate_run(
    path: str | PathLike[str], episodes: int, step: int | None = None, seed: int | None = None
) -> Evaluation:
    """Evaluate a checkpoint with exploration off, and record it in the run's directory.

    Args:
        path: the run.
        episodes: how many to play.
        step: the checkpoint; the last one if None.
        seed: of the episodes; 1000000 plus the run's if None.

    Returns:
        The evaluation.
    """
    run = RunDir.open(path)
    config, engine, state, step = load_engine(run, step)
    seed = EVALUATION_SEEDS + config.seed if seed is None else seed
    try:
        evaluation = evaluate(engine.algorithm, state, engine.hypers, episodes, seed).summary(step, seed=seed)
    finally:
        engine.close()
    run.keep_evaluation(evaluation)
    return evaluation
