"""Options of training against what they are said to do: adaptive step sizes, PopArt, clips that fall, first weights."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from trimtab.gradient.host_rows import sampler
from trimtab.math import normalize
from trimtab.math.step_sizes import adapt_to_kl
from trimtab.nets.mlp import ACTIVATIONS, MLP
from trimtab.training import snapshot, update
from trimtab.training.algorithm import hypers_of
from trimtab.training.sample_gradients import FullObjective, PerSample

# The adaptive step size ------------------------------------------------------------------------------------


def steered(rate, kls, desired):
    """The rule in plain Python: the rate used at each minibatch."""
    rates = []
    for kl in kls:
        if kl > 2 * desired:
            rate = max(1e-5, rate / 1.5)
        elif 0 < kl < desired / 2:
            rate = min(1e-2, rate * 1.5)
        rates.append(rate)
    return rates


def test_the_step_size_follows_the_rule_and_stays_within_its_bounds():
    kls = [0.0, 0.001, 0.004, 0.005, 0.02, 0.0201, *[1.0] * 20, 0.01, *[1e-4] * 30]
    step = lambda rate, kl: 2 * (adapt_to_kl(rate, kl, jnp.float32(0.01)),)
    _, rates = jax.lax.scan(step, jnp.float32(1e-3), jnp.asarray(kls))
    np.testing.assert_allclose(rates, steered(1e-3, kls, 0.01), rtol=1e-5)
    assert min(rates) == pytest.approx(1e-5) and max(rates) == pytest.approx(1e-2)
    below = float(adapt_to_kl(jnp.float32(1e-5), jnp.float32(-2e-9), jnp.float32(0.01)))
    assert below == pytest.approx(1.5e-5), "too small to tell from 0 is small"


def test_a_step_size_at_its_lower_bound_rises_again():
    """Steps so small that KLs are near rounding: the first minibatch says nothing, each of the others raises it."""
    config = tiny.config(anneal_lr="adaptive", update_epochs=2, learning_rate=1e-5)
    (_, state, later), _ = tiny.bench(config).run(config, 2)
    steps = config.minibatches * 2 - 1
    assert float(state.learning_rate) == pytest.approx(1e-5 * 1.5**steps, rel=1e-4)
    assert float(later.learning_rate) == pytest.approx(min(1e-2, 1e-5 * 1.5 ** (2 * steps)), rel=1e-4)


def test_training_steers_by_the_kl_of_each_minibatch_and_remembers_its_step_size():
    config = tiny.config(anneal_lr="adaptive", desired_kl=1e-3, update_epochs=4, learning_rate=0.008)
    bench, hypers = tiny.bench(config), hypers_of(config)
    algorithm, agent = bench.algorithm, bench.algorithm.agent
    (_, state), _ = bench.run(config, 1)

    def follow(state, hypers):
        state, rows = algorithm.collect(state, hypers)
        batch, proximal, _ = algorithm.prepared(state, algorithm.batch_of(state, rows, hypers), hypers)
        kl = lambda learner, samples, near: (
            agent.dist.kl(samples.dist, agent.policy(learner.params.policy, samples.obs)).mean(),
            learner.learning_rate,
        )
        rates, learner = algorithm.rates(state, hypers), algorithm.learner(state)
        return update.run_epochs(config, agent, hypers, rates, learner, batch, proximal, jax.random.key(3), kl)

    learner, _, (kls, before) = jax.jit(follow)(state, hypers)
    wanted = steered(float(state.learning_rate), [0.0, *np.asarray(kls)[1:]], 1e-3)  # the first is one of rounding
    np.testing.assert_allclose([*before[1:], learner.learning_rate], wanted, rtol=1e-5)
    assert len(set(wanted)) > 2  # it moved
    restored = snapshot.unpack(algorithm, bench.init(jax.random.key(0), hypers), snapshot.pack(algorithm, state))
    assert float(restored.learning_rate) == float(state.learning_rate) != pytest.approx(0.008)


# PopArt ----------------------------------------------------------------------------------------------------


def test_new_moments_of_values_change_no_prediction():
    config = tiny.config(env_id="Pendulum-v1", norm_value="popart", hidden_sizes=(4,))
    bench, hypers = tiny.bench(config), hypers_of(config)
    algorithm = bench.algorithm
    (_, state), (info,) = bench.run(config, 1)
    assert info.finite["value"]
    state, rows = bench.collect(state, hypers)
    batch = algorithm.batch_of(state, rows, hypers)
    batch = batch._replace(target=50.0 + 3.0 * batch.target)  # far from anything before
    after = algorithm.keep_values(state, batch)
    before = np.asarray(algorithm.critic(state, rows.obs))
    np.testing.assert_allclose(algorithm.critic(after, rows.obs), before, rtol=1e-4, atol=1e-4)
    assert not np.allclose(
        algorithm.values(after.params, rows.obs), algorithm.values(state.params, rows.obs), atol=0.01
    )
    # as the networks learn them, targets have the moments' mean 0 and deviation 1
    fresh = replace(state, value_stats=normalize.moments())
    own = algorithm.keep_values(fresh, batch)
    target = np.asarray(algorithm.prepared(own, batch, hypers)[0].target)
    assert target.mean() == pytest.approx(0, abs=1e-3) and target.std() == pytest.approx(1, rel=1e-3)
    restored = snapshot.unpack(algorithm, bench.init(jax.random.key(0), hypers), snapshot.pack(algorithm, after))
    np.testing.assert_array_equal(restored.value_stats.mean, after.value_stats.mean)


def test_new_moments_of_values_change_no_auxiliary_prediction_and_no_policy():
    config = tiny.config(algo="ppg", policy_iterations=2, norm_value="popart", hidden_sizes=(4,))
    bench, hypers = tiny.bench(config), hypers_of(config)
    algorithm, agent = bench.algorithm, bench.algorithm.agent
    state, rows = bench.collect(bench.run(config, 1)[0][-1], hypers)
    batch = algorithm.batch_of(state, rows, hypers)
    after = algorithm.keep_values(state, batch._replace(target=50.0 + 3.0 * batch.target))
    before, now = (agent.policy_and_auxiliary(s.params.policy, batch.obs) for s in (state, after))
    np.testing.assert_array_equal(now[0], before[0])
    in_rewards = [np.asarray(s.value_stats.mean + s.value_stats.std * v[1]) for s, v in ((state, before), (after, now))]
    np.testing.assert_allclose(in_rewards[1], in_rewards[0], rtol=1e-4, atol=1e-4)


def test_a_probe_and_what_follows_an_update_speak_in_the_units_of_values():
    """The full objective of a probe is the trainer's under PopArt too, and so is the update that a probe follows."""
    config = tiny.config(env_id="Pendulum-v1", norm_value="popart", arch="shared", norm_adv="none", ent_coef=0.3)
    bench, hypers = tiny.bench(config), hypers_of(config)
    algorithm = bench.algorithm
    state = bench.run(config, 2)[0][-1]
    assert abs(float(state.value_stats.mean)) > 0.1
    rows = sampler(algorithm, state, hypers, config.num_envs, config.num_steps, "reset", False).draw(0, 0)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows.samples)
    full = PerSample(algorithm.agent, "chunks", FullObjective(config.ent_coef, config.vf_coef))
    probed = full.vectors(state.params, flat).mean(0)
    batch, proximal, _ = algorithm.prepared(state, algorithm.batch_of(state, rows.rollout, hypers), hypers)
    agent = algorithm.agent

    def trained(policy):
        dist, value = agent.both(state.params._replace(policy=policy), batch.obs)
        gain = update.mean_objective(config, agent, hypers, dist, batch, proximal)
        gain += config.ent_coef * agent.dist.entropy(dist).mean()
        return gain - config.vf_coef * ((value - batch.target) ** 2).mean()

    np.testing.assert_allclose(probed, jax.grad(trained)(state.params.policy), rtol=2e-3, atol=1e-4)


def test_popart_is_the_affine_map_between_two_units():
    old = normalize.merge(normalize.moments(), jnp.asarray([1.0, 5.0, 6.0]), jnp.ones(3))
    new = normalize.merge(old, jnp.asarray([-30.0, 70.0]), jnp.ones(2))
    scale, shift = normalize.popart(old, new)
    value = jnp.asarray([-1.0, 0.0, 2.5])
    np.testing.assert_allclose(new.mean + new.std * (scale * value + shift), old.mean + old.std * value, rtol=1e-5)


# Schedules, step sizes, networks ---------------------------------------------------------------------------


def of_iteration(iteration, **changes):
    """(numbers, rates) of one of 4 iterations."""
    config = tiny.config(**changes)
    algorithm, hypers = tiny.bench(config).algorithm, hypers_of(config)
    shapes = jax.eval_shape(algorithm.init, jax.random.key(0), hypers)
    state = replace(jax.tree.map(lambda x: None, shapes), iteration=jnp.asarray(iteration, jnp.int32))
    return algorithm.annealed(state, hypers), algorithm.rates(state, hypers)


def test_the_clip_range_falls_linearly_if_asked():
    ranges = [float(of_iteration(i, clip_anneal="linear", clip_coef=0.2)[0]["clip_coef"]) for i in range(4)]
    assert ranges == pytest.approx([0.2, 0.15, 0.1, 0.05])
    assert float(of_iteration(3, clip_coef=0.2)[0]["clip_coef"]) == pytest.approx(0.2)


def test_the_value_network_has_a_step_size_of_its_own():
    _, rates = of_iteration(1, value_learning_rate=0.1, anneal_lr="linear")
    assert (rates.learning_rate, rates.value_learning_rate) == (pytest.approx(0.0075), pytest.approx(0.075))
    _, rates = of_iteration(1)
    assert rates.learning_rate == rates.value_learning_rate


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_what_their_names_say(name):
    x = np.linspace(-4, 4, 33)
    wanted = {
        "tanh": np.tanh(x),
        "relu": np.maximum(x, 0),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "silu": x / (1 + np.exp(-x)),
        "gelu": [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x],
    }[name]
    np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(x, jnp.float32)), wanted, atol=1e-6)


def test_weights_start_orthogonal_or_uniform():
    first, second = (MLP(jax.random.key(0), 16, (64,), "tanh", ortho).layers[0] for ortho in (True, False))
    np.testing.assert_allclose(first.weight @ first.weight.T, 2 * np.eye(16), atol=1e-5)
    assert not first.bias.any()
    for array in (second.weight, second.bias):
        assert abs(float(array.max()) - 0.25) < 0.02 and abs(float(array.min()) + 0.25) < 0.02
    assert float(second.weight.std()) == pytest.approx(0.25 / math.sqrt(3), rel=0.05)
