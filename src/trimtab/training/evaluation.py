"""Episodes of the current policy in environments of their own: as it acts in training, and with exploration off."""

from __future__ import annotations

import time
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from trimtab.math.prng import unrolled
from trimtab.nets.agent import Params
from trimtab.nets.heads import clip_action
from trimtab.training.algorithm import Algorithm
from trimtab.training.engine_setup import load_engine
from trimtab.training.program_cache import exported
from trimtab.training.records import Evaluation
from trimtab.training.run_dir import RunDir
from trimtab.training.sharding import one_copy
from trimtab.training.state import Hypers, State

EVALUATION_SEEDS = 1_000_000  # `trimtab eval` starts here plus the run's seed, away from the seeds of training
LONGEST = 27_000  # steps after which an episode without a time limit is cut
SHORTEST_CUT, CUT_SHARE = 1_000, 0.05  # while training in Python: of the steps of the run
BLOCK = 32  # steps whose noise is drawn at once


class Episodes(NamedTuple):
    """Returns and lengths of the first episode of each of 2M environments: M with sampled actions, then M greedy."""

    returns: np.ndarray
    lengths: np.ndarray
    any_ended: bool = True

    def summary(self, step: int, iteration: int | None = None, seed: int | None = None) -> Evaluation:
        """The evaluation they make, of the policy after `step` environment steps."""
        sampled, greedy = np.split(self.returns, 2)
        low, median, high = map(float, np.percentile(greedy, [25, 50, 75]))
        return Evaluation(
            step=step,
            mean_reward=float(greedy.mean()),
            median_reward=median,
            iqr_low=low,
            iqr_high=high,
            std_reward=float(greedy.std()),
            mean_ep_length=float(np.split(self.lengths, 2)[1].mean()),
            episodes=len(greedy),
            sampled_reward=float(sampled.mean()),
            sampled_std=float(sampled.std()),
            env_steps=int(self.lengths.sum()),
            iteration=iteration,
            seed=seed,
        )


class Evaluator:
    """Plays episodes of an algorithm's policies, in environments of its own.

    Args:
        algorithm: what acts, and where.
        episodes: M. Each of 2M environments plays one episode, so that short episodes are not favored: the first M
            with sampled actions, as in training, the others with the most likely ones. On compiled environments both
            halves start from the same states.
        longest: steps after which an episode is cut in environments without a time limit that are stepped in Python.
    """

    def __init__(self, algorithm: Algorithm, episodes: int, longest: int = LONGEST):
        self.algorithm, self.episodes, self.longest = algorithm, episodes, longest
        self.seconds, self.env_steps = 0.0, 0
        self._env: Any = None
        self._act: Any = None

    def play(self, state: State, hypers: Hypers, seed: int) -> Episodes:
        """The episodes of this seed with the policy of `state`."""
        start_time = time.perf_counter()
        play = self._play_compiled if self.algorithm.env.spec.compiled else self._play_host
        episodes = play(state, hypers, seed)
        self.seconds += time.perf_counter() - start_time
        self.env_steps += int(episodes.lengths.sum())
        return episodes

    def close(self) -> None:
        """Close environments that were made for evaluating."""
        if self._env is not None:
            self._env.close()

    def _play_compiled(self, state: State, hypers: Hypers, seed: int) -> Episodes:
        params, obs_stats = one_copy((state.params, state.obs_stats))
        leaves = jax.tree.leaves((params.policy, obs_stats))
        key = jax.random.key_data(jax.random.key(seed))
        name = ("evaluate", self.episodes)
        programs = self.algorithm.programs
        if name not in programs:
            shapes = jax.tree.structure((params.policy, obs_stats))

            def run(key, hypers, *leaves):
                policy, stats = jax.tree.unflatten(shapes, leaves)
                return self._episodes(policy, stats, hypers, jax.random.wrap_key_data(key))

            key_of_program = (*self.algorithm.config.shape, self.episodes)
            programs[name] = exported("evaluate", key_of_program, run, (key, hypers, *leaves))
        returns, lengths = programs[name](key, hypers, *leaves)
        return Episodes(np.asarray(returns), np.asarray(lengths))

    def _episodes(self, params: Array, obs_stats: Any, hypers: Hypers, key: Array) -> tuple[Array, Array]:
        """Returns and lengths of 2M first episodes, stepped in blocks until the last one ends."""
        env, half = self.algorithm.env, self.episodes
        reset_key, noise_key, step_key = jax.random.split(unrolled(key), 3)
        both = lambda tree: jax.tree.map(lambda x: jnp.concatenate([x, x]), tree)
        fresh = both(jax.vmap(env.reset)(jax.random.split(reset_key, half)))
        limit = env.spec.time_limit or LONGEST
        policy = self.algorithm.agent.acting(params)
        act = partial(self._act_both, policy, obs_stats, hypers)

        def step(carry, inputs):
            env_state, obs, alive, total, length = carry
            noise, keys = inputs
            env_state, out = jax.vmap(env.step)(both(keys), env_state, act(obs, noise), fresh)
            total, length = total + alive * out.reward, length + alive
            return (env_state, out.obs, alive & ~(out.terminated | out.truncated), total, length), None

        def block(carry):
            done, playing = carry
            noise = self.algorithm.dist.noise(jax.random.fold_in(noise_key, done), (BLOCK, half))
            keys = jax.random.split(jax.random.fold_in(step_key, done), (BLOCK, half))
            playing, _ = jax.lax.scan(step, playing, (noise, keys))
            return done + BLOCK, playing

        start = (*fresh, jnp.ones(2 * half, bool), jnp.zeros(2 * half), jnp.zeros(2 * half))
        going = lambda carry: (carry[0] < limit) & carry[1][2].any()
        _, playing = jax.lax.while_loop(going, block, (0, start))
        return playing[3], playing[4]

    def _act_both(self, policy: Any, obs_stats: Any, hypers: Hypers, obs: Array, noise: Array) -> Array:
        """Actions of both halves: sampled with `noise`, and the most likely ones."""
        dist = self.algorithm.dist
        sampled, greedy = jnp.split(policy(self.algorithm.normalized_obs(obs_stats, obs, hypers)), 2)
        return clip_action(dist, jnp.concatenate([dist.sample(sampled, noise), dist.mode(greedy)]))

    def _play_host(self, state: State, hypers: Hypers, seed: int) -> Episodes:
        params, obs_stats = one_copy((state.params, state.obs_stats))
        if self._env is None:
            self._env = self.algorithm.make_env(2 * self.episodes)
            self._act = jax.jit(self._act_on_host)
            self._noise = jax.jit(lambda key: self.algorithm.dist.noise(key, (BLOCK, self.episodes)))
        env, key, count = self._env, jax.random.key(seed), 2 * self.episodes
        total, length, alive = np.zeros(count), np.zeros(count), np.ones(count, bool)
        obs = env.reset(seed)
        for t in range(env.spec.time_limit or self.longest):
            if t % BLOCK == 0:
                noise = np.asarray(self._noise(jax.random.fold_in(key, t)))
            out = env.step(np.asarray(self._act(params, obs_stats, hypers, obs, noise[t % BLOCK])))
            counted = alive & out.valid
            total += np.where(counted, out.reward, 0.0)
            length += counted
            alive &= ~(out.terminated | out.truncated)
            obs = out.obs
            if not alive.any():
                break
        return Episodes(total, length, not alive.all())

    def _act_on_host(self, params: Params, obs_stats: Any, hypers: Hypers, obs: Array, noise: Array) -> Array:
        return self._act_both(self.algorithm.agent.acting(params.policy), obs_stats, hypers, obs, noise)


def longest_episode(total_timesteps: int) -> int:
    """Steps after which training cuts an evaluation episode where no time limit does: a small part of the run."""
    return min(LONGEST, max(SHORTEST_CUT, int(CUT_SHARE * total_timesteps)))


def evaluate_run(
    path: str | PathLike[str], episodes: int, step: int | None = None, seed: int | None = None
) -> Evaluation:
    """Evaluate a checkpoint, and record it in the run's directory.

    Args:
        path: the run.
        episodes: how many to play with exploration off, and as many with sampled actions.
        step: the checkpoint; the last one if None.
        seed: of the episodes; 1000000 plus the run's if None.

    Returns:
        The evaluation.
    """
    run = RunDir.open(path)
    config, engine, state, step = load_engine(run, step)
    seed = EVALUATION_SEEDS + config.seed if seed is None else seed
    evaluator = Evaluator(engine.algorithm, episodes)
    try:
        evaluation = evaluator.play(state, engine.hypers, seed).summary(step, seed=seed)
    finally:
        evaluator.close()
        engine.close()
    run.keep_evaluation(evaluation)
    return evaluation
