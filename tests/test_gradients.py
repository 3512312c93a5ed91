"""Per-sample gradients three ways, against each other and against a loop of jax.grad."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.anatomy import decompose
from trimtab.gradient.moments import lag_sums
from trimtab.nets.agent import Agent
from trimtab.nets.heads import Bernoullis, Categorical, Gaussian, MultiCategorical
from trimtab.training import sample_gradients as gradients
from trimtab.training.light_probe import light_probe
from trimtab.training.rollout import Rollout
from trimtab.training.sample_gradients import FullObjective, PerSample, Samples, row_sums
from trimtab.training.state import Batch

NETWORKS = {
    "dense categorical": dict(obs_shape=(3,), dist=Categorical(4), hidden_sizes=(8, 8)),
    "dense gaussian": dict(
        obs_shape=(3,), dist=Gaussian((-1.0, -1.0), (1.0, 1.0)), hidden_sizes=(8,), activation="relu"
    ),
    "dense, one output": dict(obs_shape=(3,), dist=Gaussian((-2.0,), (2.0,)), hidden_sizes=(8, 8)),
    "dense, many inputs": dict(obs_shape=(3, 4), dist=Categorical(3), hidden_sizes=(8,)),
    "dense, several choices": dict(obs_shape=(3,), dist=MultiCategorical((2, 3)), hidden_sizes=(8,)),
    "dense, switches": dict(obs_shape=(3,), dist=Bernoullis(3), hidden_sizes=(8,)),
    "dense, parts": dict(
        obs_shape=(6,), dist=Categorical(3), hidden_sizes=(8,), actor_parts=((0, 2), (5, 6)), critic_parts=((1, 3),)
    ),
    "dense shared": dict(obs_shape=(3,), dist=Categorical(3), hidden_sizes=(8, 8), arch="shared"),
    "dense with auxiliary head": dict(obs_shape=(3,), dist=Categorical(3), hidden_sizes=(8,), auxiliary=True),
    "convolutional": dict(
        obs_shape=(8, 8, 2), dist=Categorical(3), hidden_sizes=(8,), network="impala", impala_channels=(4,)
    ),
    "convolutional shared": dict(
        obs_shape=(8, 8, 2),
        dist=Categorical(3),
        hidden_sizes=(8,),
        network="impala",
        impala_channels=(4,),
        arch="shared",
    ),
}


@functools.cache
def case(name, count=12):
    options = dict(NETWORKS[name])
    agent = Agent(options.pop("obs_shape"), "float32", options.pop("dist"), **options)

    @jax.jit
    def drawn(key):
        params = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(key, x.shape), agent.init(key))
        obs = jax.random.normal(jax.random.key(1), (count, *NETWORKS[name]["obs_shape"]))
        dist = agent.policy(params.policy, obs)
        action = agent.dist.sample(dist, agent.dist.noise(jax.random.key(2), (count,)))
        advantage = jax.random.normal(jax.random.key(3), (count,))
        return params, Samples(obs, action, advantage, jnp.ones(count))

    return agent, *drawn(jax.random.key(0))


def loop(agent, params, samples):
    """One jax.grad per sample, in Python."""

    def one(policy, obs, action, advantage):
        return (advantage * agent.dist.logp(agent.policy(policy, obs), action)).sum()

    gradient = jax.jit(jax.grad(one))
    parts = [np.asarray(x) for x in (samples.obs, samples.action, samples.advantage)]
    return np.stack([gradient(params.policy, *(x[i : i + 1] for x in parts)) for i in range(len(samples.advantage))])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_exact_way_equals_a_loop_of_gradients(name):
    agent, params, samples = case(name)
    truth = loop(agent, params, samples)
    methods = ("layers", "chunks") if name.startswith("dense") else ("chunks",)
    for method in methods:
        way = PerSample(agent, method)
        vectors, gram = jax.jit(lambda p, s, way=way: (way.vectors(p, s), way.gram(p, s)))(params, samples)
        assert np.allclose(vectors, truth, rtol=1e-4, atol=1e-5), method
        assert np.allclose(gram, truth @ truth.T, rtol=1e-4, atol=1e-4), method


@pytest.mark.parametrize("name", NETWORKS)
def test_the_mean_of_g_is_the_gradient_of_the_mean_objective(name):
    agent, params, samples = case(name)
    count = samples.advantage.shape[0]

    @jax.jit
    def three_ways(params, samples):
        objective = lambda policy: (
            samples.advantage * agent.dist.logp(agent.policy(policy, samples.obs), samples.action)
        ).mean()
        mean_of_g = PerSample(agent, "chunks").vectors(params, samples).mean(0)
        weighted = PerSample(agent).mean_gradient(params, samples, jnp.full(count, 1 / count))
        return jax.grad(objective)(params.policy), mean_of_g, weighted

    truth, mean_of_g, weighted = three_ways(params, samples)
    assert np.allclose(mean_of_g, truth, rtol=1e-4, atol=1e-6)
    assert np.allclose(weighted, truth, rtol=1e-4, atol=1e-6)


def test_the_projection_keeps_inner_products_within_its_stated_error():
    agent, params, samples = case("dense categorical", count=64)
    truth = np.asarray(jax.jit(PerSample(agent, "layers").gram)(params, samples))
    norms = np.sqrt(np.diag(truth))
    sketched = lambda seed: PerSample(agent, "projection", sketch=64, seed=seed)
    gram = jax.jit(lambda p, s, seed: sketched(seed).gram(p, s))
    errors = np.array([gram(params, samples, seed) - truth for seed in range(12)]) / np.outer(norms, norms)
    stated = np.sqrt(2 / 64)
    assert sketched(0).relative_error == pytest.approx(stated)
    off = ~np.eye(64, dtype=bool)
    assert 0.3 * stated < errors[:, off].std() < 1.2 * stated
    assert abs(errors.mean()) < 0.1 * stated


def test_sums_over_samples_need_no_vectors():
    agent, params, samples = case("dense gaussian")
    way = PerSample(agent)
    weight = jax.random.normal(jax.random.key(5), (4, 3))
    slow = lambda p, s: jnp.einsum("tn,tnp->np", weight, way.vectors(p, s).reshape(4, 3, -1))
    both = jax.jit(lambda p, s: (row_sums(way.factors(p, s), weight), slow(p, s)))
    assert np.allclose(*both(params, samples), atol=1e-5)


def test_the_full_objective_adds_entropy_and_value_terms():
    agent, params, samples = case("dense shared")
    plain = jax.jit(PerSample(agent, "chunks").vectors)(params, samples)
    full = jax.jit(PerSample(agent, "chunks", FullObjective(ent_coef=0.5, vf_coef=0.25)).vectors)(params, samples)

    def rest(policy, i):
        dist, value = agent.both(params._replace(policy=policy), samples.obs[i][None])
        return (0.5 * agent.dist.entropy(dist) - 0.25 * (value - samples.target[i][None]) ** 2)[0]

    gradient = jax.jit(jax.grad(rest))
    extra = np.stack([gradient(params.policy, i) for i in range(12)])
    assert np.allclose(full - plain, extra, atol=1e-5)


def test_automatic_choice_follows_network_and_size():
    assert PerSample(case("dense categorical")[0]).method == "layers"
    assert PerSample(case("convolutional")[0]).method == "chunks"
    with pytest.raises(ValueError, match="dense"):
        PerSample(case("convolutional")[0], "layers")


def test_lag_sums_are_sums_of_diagonals():
    gram = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
    assert np.allclose(lag_sums(jnp.asarray(gram)), [np.trace(gram, k) for k in range(7)], atol=1e-5)


# The light probe -------------------------------------------------------------------------------------------


def light_batch(samples, weight):
    """A batch and rollout of [T, N] samples, as far as the light probe looks at them."""
    never = jnp.zeros(weight.shape, bool)
    rows = Rollout(*[None] * 5, jnp.zeros(weight.shape), never, never, never, None, None)
    given = samples.obs, samples.action, None, None, None, samples.target, samples.advantage, weight.reshape(-1)
    return Batch(*given), rows


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("name", ["dense gaussian", "convolutional"])
def test_a_light_probe_sees_the_variance_of_its_rows(name, share):
    """As `decompose` of every gradient, one by one; with samples that are not experience too."""
    num_steps, num_envs = 6, 5
    agent, params, samples = case(name, num_steps * num_envs)
    valid = np.random.default_rng(2).random((num_steps, num_envs)) < share
    weight = jnp.asarray(valid / valid.mean(), jnp.float32)
    found = jax.jit(lambda p, s: light_probe(agent, p, *light_batch(s, weight)))(params, samples)
    gradients = np.asarray(jax.jit(PerSample(agent, "chunks").vectors)(params, samples), np.float64)
    by_row = np.moveaxis(gradients.reshape(num_steps, num_envs, -1), 1, 0)
    wanted = decompose(by_row, num_envs, mask=valid.T)
    assert float(found["grad/variance"]) == pytest.approx(wanted.variance.value, rel=1e-3)
    mean = gradients[valid.reshape(-1)].mean(0)
    assert float(found["grad/policy_norm"]) == pytest.approx(np.linalg.norm(mean), rel=1e-4)
    if name == "dense gaussian":
        assert float(found["grad/individual"]) == pytest.approx(wanted.individual.value, rel=1e-3)
        assert float(found["grad/ess"]) == pytest.approx(wanted.ess.value, rel=1e-2)


def test_a_light_probe_takes_memory_by_samples_not_by_pairs():
    def taken(num_envs: int, num_steps: int = 8) -> int:
        agent, params, samples = case("dense categorical", num_envs * num_steps)
        look = lambda p, s: light_probe(agent, p, *light_batch(s, jnp.ones((num_steps, num_envs))))
        return jax.jit(look).lower(params, samples).compile().memory_analysis().temp_size_in_bytes

    assert taken(512) < 3 * taken(256)


def test_what_is_made_of_gradients_chunk_by_chunk_is_what_is_made_of_all(monkeypatch):
    agent, params, samples = case("dense categorical")
    per_sample = PerSample(agent)
    wanted = per_sample.vectors(params, samples) @ jnp.ones((per_sample.num_parameters, 2))
    monkeypatch.setattr(gradients, "CHUNK_FLOATS", 3 * per_sample.num_parameters)
    made = gradients.by_chunks(per_sample, params, samples, lambda g: g @ jnp.ones((g.shape[1], 2)))
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
