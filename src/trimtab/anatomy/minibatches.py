"""What cutting a batch into minibatches does: sub-sampling noise, drift over the updates, the bias of clipping."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from trimtab import minibatch, normalize, objectives
from trimtab.algos import update
from trimtab.algos.algorithm import Algorithm
from trimtab.algos.rollout import Rollout
from trimtab.algos.state import State

DRAWS = 256


def subsampling_measured(gram: Float[np.ndarray, "B B"], size: int, seed: int) -> float:
    """Mean of |g_minibatch - G_B|² over random minibatches, from inner products: the formula's measured twin."""
    rng = np.random.default_rng(seed)
    batch = len(gram)
    if size == batch:
        return 0.0
    weight = np.full((DRAWS, batch), -1.0 / batch)
    for row in weight:
        row[rng.choice(batch, size, replace=False)] += 1.0 / size
    return float(np.einsum("db,bc,dc->d", weight, gram, weight, optimize=True).mean())


WAYS = ("shuffled samples", "whole rows", "contiguous blocks")


def parts_of(way: str, num_envs: int, num_steps: int, size: int, seed: int) -> Int[np.ndarray, "count size"]:
    """The minibatches of one epoch, as indices of samples (n, t) at n T + t.

    Whole rows: of random environments, time cut only where there are more minibatches than environments (as
    openai/ppo-ewma does). Contiguous blocks: so many consecutive steps of every environment, a buffer left unshuffled.
    """
    rng, batch = np.random.default_rng(seed), num_envs * num_steps
    index = np.arange(batch).reshape(num_envs, num_steps)
    if way == WAYS[0]:
        return rng.permutation(batch).reshape(-1, size)
    if way == WAYS[1]:
        return index[rng.permutation(num_envs)].reshape(-1, size)
    return index.T.reshape(-1, size)


def parts_variance(gram: Float[np.ndarray, "B B"], parts: Int[np.ndarray, "count size"]) -> float:
    """Mean over minibatches of |g_minibatch - G_B|², from inner products: what cutting one batch this way adds."""
    count, size = parts.shape
    member = np.zeros((count, len(gram)))
    np.put_along_axis(member, parts, 1 / size, axis=1)
    member -= 1 / len(gram)
    return float(np.einsum("db,db->d", member @ gram, member).mean())


def effects(algorithm: Algorithm, state: State, rows: Rollout, hypers, seed: int) -> dict[str, Any]:
    """Follow the updates of one iteration from this checkpoint on one batch.

    drift: cosine of each minibatch gradient with the batch gradient at the start; clip_bias: |clipped - importance-
    weighted| mean gradient over the norm of the latter, on each minibatch as it is met.
    """
    if not algorithm.config.has_surrogate:
        return {}
    if "follow" not in algorithm.programs:
        algorithm.programs["follow"] = jax.jit(lambda s, r, h, k: _follow(algorithm, s, r, h, k))
    drift, clip_bias = algorithm.programs["follow"](state, rows, hypers, jax.random.key(seed))
    return {"drift": np.asarray(drift), "clip_bias": np.asarray(clip_bias)}


def _follow(algorithm: Algorithm, state: State, rows: Rollout, hypers, key):
    config, agent = algorithm.config, algorithm.agent
    batch = algorithm.batch_of(state, rows, hypers)
    if config.norm_adv != "none":
        moments = normalize.update_advantage_moments(normalize.advantage_moments(), batch.advantage, batch.weight, 0.0)
        batch = batch._replace(advantage=normalize.standardize(batch.advantage, moments.mean, moments.std))
    proximal = update.Proximal(batch.dist, batch.logp)
    rates = algorithm.rates(state, hypers)

    def weighted(policy, samples):  # importance-weighted objective, no clipping
        logp = agent.dist.logp(agent.policy(policy, samples.obs), samples.action)
        return (samples.weight * jnp.exp(logp - samples.logp) * samples.advantage).mean()

    def clipped(policy, samples, near):
        logp = agent.dist.logp(agent.policy(policy, samples.obs), samples.action)
        if config.surrogate == "kl":
            return weighted(policy, samples)
        return (
            samples.weight * objectives.clipped(logp, near.logp, samples.logp, samples.advantage, hypers["clip_coef"])
        ).mean()

    whole = jax.grad(weighted)(state.params.policy, batch)

    def step(learner: update.Learner, index):
        samples, placed = jax.tree.map(lambda x: x[index], (batch, proximal))
        near = update.proximal_now(config, agent, learner, samples, placed)
        free = jax.grad(weighted)(learner.params.policy, samples)
        bounded = jax.grad(clipped)(learner.params.policy, samples, near)
        cosine = bounded @ whole / jnp.maximum(jnp.linalg.norm(bounded) * jnp.linalg.norm(whole), 1e-12)
        bias = jnp.linalg.norm(bounded - free) / jnp.maximum(jnp.linalg.norm(free), 1e-12)
        which = (True, config.needs_value)
        learner, _ = update.minibatch_step(config, agent, hypers, rates, which, learner, samples, placed)
        return learner, (cosine, bias)

    learner = update.Learner(state.params, state.optimizer, state.prox, state.gradient_steps, jnp.zeros((), bool))
    keys = jax.random.split(key, config.update_epochs)
    order = jax.vmap(lambda k: minibatch.epoch(k, config.batch, config.minibatches))(keys)
    _, watched = jax.lax.scan(step, learner, order.reshape(config.update_epochs * config.minibatches, -1))
    return watched
