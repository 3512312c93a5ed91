"""What cutting a batch into minibatches does: sub-sampling noise, drift over the updates, the bias of clipping."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from trimtab.config.run_config import minibatches_of_rows
from trimtab.gradient.noise import row_subsampling_variance, subsampling_variance
from trimtab.math import minibatch
from trimtab.training import update
from trimtab.training.algorithm import Algorithm
from trimtab.training.rollout import Rollout
from trimtab.training.state import Batch, Hypers, State

DRAWS = 256  # minibatches, at least, that are looked at


def subsampling(
    gram: Float[np.ndarray, "B B"], num_envs: int, num_steps: int, num_minibatches: int, seed: int
) -> dict[str, float]:
    """E |g_minibatch - G_B|² given the batch, of shuffled samples and of whole rows: by formula, and from the orders
    that training draws. Sample (n, t) is at n T + t of the Gram matrix."""
    batch = num_envs * num_steps
    variances = {"subsampling_formula": subsampling_variance(gram, max(1, batch // num_minibatches))}
    keys = jax.random.split(jax.random.key(seed), -(-DRAWS // num_minibatches))
    if batch % num_minibatches == 0:
        order = _epochs(keys, batch, num_minibatches)
        variances["subsampling_measured"] = subsampling_measured(gram, _by_row(order, num_envs, num_steps))
    if num_minibatches in minibatches_of_rows(num_envs, num_steps):
        order = _epochs_of_rows(keys, num_envs, num_steps, num_minibatches)
        variances["subsampling_rows_formula"] = row_subsampling_variance(gram, num_envs, num_minibatches)
        variances["subsampling_rows_measured"] = subsampling_measured(gram, _by_row(order, num_envs, num_steps))
    return variances


@partial(jax.jit, static_argnums=(1, 2))
def _epochs(keys: PRNGKeyArray, batch: int, num_minibatches: int) -> Int[Array, "epochs minibatches size"]:
    return jax.vmap(lambda key: minibatch.epoch(key, batch, num_minibatches))(keys)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _epochs_of_rows(
    keys: PRNGKeyArray, num_envs: int, num_steps: int, num_minibatches: int
) -> Int[Array, "epochs minibatches size"]:
    return jax.vmap(lambda key: minibatch.epoch_of_rows(key, num_envs, num_steps, num_minibatches))(keys)


def subsampling_measured(gram: Float[np.ndarray, "B B"], chosen: Int[np.ndarray, "draws size"]) -> float:
    """Mean of |g_minibatch - G_B|² over minibatches, from inner products: the formulas' measured twin."""
    batch, size = len(gram), chosen.shape[1]
    weight = np.full((len(chosen), batch), -1.0 / batch)
    np.put_along_axis(weight, chosen, 1.0 / size - 1.0 / batch, axis=1)
    return float(np.einsum("db,bc,dc->d", weight, gram, weight, optimize=True).mean())


def _by_row(order: Int[Array, "epochs minibatches size"], num_envs: int, num_steps: int) -> np.ndarray:
    """[draws, size] from t N + n to n T + t."""
    index = np.asarray(order).reshape(-1, order.shape[-1])
    return index % num_envs * num_steps + index // num_envs


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


def effects(algorithm: Algorithm, state: State, rows: Rollout, hypers: Hypers, seed: int) -> dict[str, Any]:
    """Follow the trainer's updates of one iteration from this checkpoint on one batch, as far as they are taken.

    drift: cosine of each minibatch's policy gradient g with that of the whole batch at the start; clip_bias: |g - g'|
    over |g'| on each minibatch as it is met, g' without the clip or the KL penalty.
    """
    if not algorithm.config.has_surrogate:
        return {}
    if "follow" not in algorithm.programs:
        algorithm.programs["follow"] = jax.jit(lambda s, r, h, k: follow(algorithm, s, r, h, k))
    drift, clip_bias = map(np.asarray, algorithm.programs["follow"](state, rows, hypers, jax.random.key(seed)))
    before_stop = np.isfinite(drift)  # the others come after a KL stop
    return {"drift": drift[before_stop], "clip_bias": clip_bias[before_stop]}


def follow(
    algorithm: Algorithm, state: State, rows: Rollout, hypers: Hypers, key: PRNGKeyArray
) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
    """(drift, clip bias) at every policy step of the trainer's own update."""
    config, agent = algorithm.config, algorithm.agent
    fresh = algorithm.batch_of(state, rows, hypers)
    state = algorithm.keep_values(state, fresh)
    batch, proximal, _ = algorithm.prepared(state, fresh, hypers)
    learner, hypers = algorithm.learner(state), algorithm.annealed(state, hypers)
    limit = config.surrogate_kind
    assert limit is not None  # `effects` asks only then
    unbounded = hypers | {limit.coefficient: jnp.asarray(limit.off)}

    def gradient(hypers: Hypers, learner: update.Learner, samples: Batch, near: update.Proximal):
        mean = lambda policy: update.mean_objective(
            config, agent, hypers, agent.policy(policy, samples.obs), samples, near
        )
        return jax.grad(mean)(learner.params.policy)

    whole = gradient(hypers, learner, *update.prepare_minibatch(config, agent, learner, batch, proximal))

    def look(learner: update.Learner, samples: Batch, near: update.Proximal):
        bounded, free = gradient(hypers, learner, samples, near), gradient(unbounded, learner, samples, near)
        cosine = bounded @ whole / jnp.maximum(jnp.linalg.norm(bounded) * jnp.linalg.norm(whole), 1e-12)
        return cosine, jnp.linalg.norm(bounded - free) / jnp.maximum(jnp.linalg.norm(free), 1e-12)

    rates = algorithm.rates(state, hypers)
    return update.run_epochs(config, agent, hypers, rates, learner, batch, proximal, key, look)[2]
