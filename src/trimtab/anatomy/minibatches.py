"""What cutting a batch into minibatches does: sub-sampling noise, drift over the updates, the bias of clipping."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from trimtab.algos import update
from trimtab.algos.algorithm import Algorithm
from trimtab.algos.optimizer import Hypers
from trimtab.algos.rollout import Rollout
from trimtab.algos.state import Batch, State

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
    taken = np.isfinite(drift)  # the others come after a KL stop
    return {"drift": drift[taken], "clip_bias": clip_bias[taken]}


def follow(
    algorithm: Algorithm, state: State, rows: Rollout, hypers: Hypers, key: PRNGKeyArray
) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
    """(drift, clip bias) at every policy step of the trainer's own update."""
    config, agent = algorithm.config, algorithm.agent
    batch, proximal, _ = algorithm.prepared(state, algorithm.batch_of(state, rows, hypers), hypers)
    learner = algorithm.learner(state)
    unbounded = hypers | {"clip_coef": jnp.inf, "kl_coef": jnp.zeros(())}

    def gradient(hypers: Hypers, learner: update.Learner, samples: Batch, near: update.Proximal):
        mean = lambda policy: update.mean_objective(
            config, agent, hypers, agent.policy(policy, samples.obs), samples, near
        )
        return jax.grad(mean)(learner.params.policy)

    whole = gradient(hypers, learner, *update.ready(config, agent, learner, batch, proximal))

    def look(learner: update.Learner, samples: Batch, near: update.Proximal):
        bounded, free = gradient(hypers, learner, samples, near), gradient(unbounded, learner, samples, near)
        cosine = bounded @ whole / jnp.maximum(jnp.linalg.norm(bounded) * jnp.linalg.norm(whole), 1e-12)
        return cosine, jnp.linalg.norm(bounded - free) / jnp.maximum(jnp.linalg.norm(free), 1e-12)

    rates = algorithm.rates(state, hypers)
    return update.followed(config, agent, hypers, rates, learner, batch, proximal, key, look)[2]
