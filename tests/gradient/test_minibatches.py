"""What a probe says of an iteration's updates is what the trainer does, step by step."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from trimtab import envs
from trimtab.gradient import minibatch_effects
from trimtab.math import ewma, minibatch, normalize, objectives
from trimtab.math.prng import unrolled
from trimtab.training import update
from trimtab.training.algorithm import Algorithm, hypers_of

HOT = {"update_epochs": 2, "learning_rate": 0.1, "imp_samp_max": 1.05}  # far enough for clip and cap to bind
KINDS = [
    ("none", "clip", "ppo"),
    ("batch", "kl", "ppo"),
    ("minibatch", "clip", "ppo"),
    ("ewma", "kl", "ppo"),
    ("batch", "clip", "ppo-ewma"),
]


def stepwise(algorithm, state, rows, hypers, key):
    """The drift: the iteration one minibatch at a time, the objective written out."""
    config, agent = algorithm.config, algorithm.agent
    batch = algorithm.batch_of(state, rows, hypers)
    if config.norm_adv in ("batch", "ewma"):
        decay = 1 - 2 / (config.norm_adv_span + 1) if config.norm_adv == "ewma" else 0.0
        ones = jnp.ones(config.batch)
        moments = normalize.update_advantage_moments(state.advantages, batch.advantage, ones, decay)
        batch = batch._replace(advantage=normalize.standardize(batch.advantage, moments.mean, moments.std))
    placed = update.Proximal(batch.dist, batch.logp)
    learner, rates = algorithm.learner(state), algorithm.rates(state, hypers)

    def gradient(learner, samples, near):
        """Of the policy term alone, written out."""
        if config.norm_adv == "minibatch":
            a = samples.advantage
            samples = samples._replace(advantage=(a - a.mean()) / (a.std() + 1e-8))
        if config.is_ewma:
            dist = agent.policy(learner.prox.value, samples.obs)
            near = update.Proximal(dist, agent.dist.logp(dist, samples.action))

        def mean(policy):
            dist = agent.policy(policy, samples.obs)
            logp, cap = agent.dist.logp(dist, samples.action), config.imp_samp_max
            if config.surrogate == "kl":
                kl = agent.dist.kl(near.dist, dist)
                terms = objectives.kl_penalized(logp, samples.logp, kl, samples.advantage, config.kl_coef, cap)
            else:
                terms = objectives.clipped(logp, near.logp, samples.logp, samples.advantage, config.clip_coef, cap)
            return terms.mean()

        return jax.grad(mean)(learner.params.policy)

    whole = gradient(learner, batch, placed)

    def step(learner, index):
        samples, near = jax.tree.map(lambda x: x[index], (batch, placed))
        mine = gradient(learner, samples, near)
        cosine = mine @ whole / (jnp.linalg.norm(mine) * jnp.linalg.norm(whole))
        return update.minibatch_step(config, agent, hypers, rates, (True, True), learner, samples, near)[0], cosine

    _, epochs_key = jax.random.split(key)
    keys = jax.random.split(unrolled(epochs_key), config.update_epochs)
    order = jnp.concatenate([minibatch.epoch(k, config.batch, config.minibatches) for k in keys])
    return jax.lax.scan(step, learner, order)[1]


@pytest.fixture(scope="module")
def collected():
    """A state that has seen advantages before, and a rollout: the same for every kind of update."""
    bench = tiny.bench(tiny.config(hidden_sizes=(4,)))
    hypers = hypers_of(bench.algorithm.config)
    state, rows = bench.collect(bench.init(jax.random.key(0), hypers), hypers)
    old = normalize.AdvantageMoments(*map(jnp.float32, (16.0, 0.5, 36.0)))
    return replace(state, advantages=old), rows


@pytest.mark.parametrize("norm_adv, surrogate, algo", KINDS)
def test_the_drift_of_a_probe_is_that_of_the_update(collected, norm_adv, surrogate, algo):
    span = {"norm_adv_span": 5.0} if norm_adv == "ewma" else {}
    config = tiny.config(algo=algo, norm_adv=norm_adv, surrogate=surrogate, hidden_sizes=(4,), **HOT, **span)
    algorithm = Algorithm(config, envs.make("CartPole-v1", num_envs=config.num_envs))
    state, rows = collected
    state = replace(state, prox=ewma.init(state.params.policy) if config.is_ewma else None)

    both = lambda *given: (minibatch_effects.follow(algorithm, *given), stepwise(algorithm, *given))
    compiled = jax.jit(both)
    (drift, bias), wanted = compiled(state, rows, hypers_of(config), jax.random.key(5))
    np.testing.assert_allclose(drift, wanted, atol=1e-4)
    assert len(drift) == config.update_epochs * config.minibatches and bias[0] < 1e-5 < bias[-1]
    assert np.ptp(drift) > 0.01  # the policy has moved
