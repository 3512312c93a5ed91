"""Running statistics against NumPy over all the data and Python loops."""

import jax.numpy as jnp
import numpy as np
import pytest
import twins

from trimtab.math import normalize


def f32(x):
    return jnp.asarray(x, jnp.float32)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_merging_batches_equals_the_moments_of_all_data(shape):
    rng = np.random.default_rng(0)
    batches = [rng.normal(5, 3, size=(size, *shape)) for size in (4, 1, 50, 7)]
    stats = normalize.moments(shape)
    for batch in batches:
        stats = normalize.merge(stats, f32(batch), jnp.ones(len(batch)))
    everything = np.concatenate(batches)
    assert float(stats.count) == len(everything)
    np.testing.assert_allclose(stats.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(stats.std, everything.std(0), rtol=1e-4)


def test_merging_leaves_out_rows_of_weight_zero():
    rng = np.random.default_rng(1)
    stats, kept = normalize.moments((2,)), []
    for _ in range(4):
        batch, weight = rng.normal(size=(20, 2)), (rng.random(20) < 0.6).astype(np.float64)
        stats = normalize.merge(stats, f32(batch), f32(weight))
        kept.append(batch[weight > 0])
    stats = normalize.merge(stats, f32(np.full((3, 2), 1e6)), jnp.zeros(3))
    kept = np.concatenate(kept)
    np.testing.assert_allclose(stats.mean, kept.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(stats.std, kept.std(0), rtol=1e-4)


def test_merging_counts_each_row_as_often_as_its_weight():
    rng = np.random.default_rng(2)
    batch, weight = rng.normal(size=(10, 2)), rng.integers(0, 4, 10)
    stats = normalize.merge(normalize.moments((2,)), f32(batch), f32(weight))
    repeated = np.repeat(batch, weight, axis=0)
    np.testing.assert_allclose(stats.mean, repeated.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(stats.std, repeated.std(0), rtol=1e-4)


def test_nothing_is_scaled_before_anything_was_seen():
    assert float(normalize.moments().std) == 1.0
    obs = f32([[1.0, -2.0]])
    np.testing.assert_allclose(normalize.normalize_obs(obs, normalize.moments((2,)), 10.0), obs)


def test_observations_are_centred_scaled_and_clipped():
    data = np.random.default_rng(3).normal([1.0, -2.0], [2.0, 0.5], size=(500, 2))
    stats = normalize.merge(normalize.moments((2,)), f32(data), jnp.ones(500))
    obs = f32(data[:6].reshape(2, 3, 2))
    seen = normalize.normalize_obs(obs, stats, 1.0)
    slow = np.clip((data[:6] - data.mean(0)) / data.std(0), -1, 1).reshape(2, 3, 2)
    np.testing.assert_allclose(seen, slow, atol=1e-4)
    assert (np.abs(seen) == 1.0).any()


def test_reward_scale_equals_a_loop_over_several_rollouts():
    rng = np.random.default_rng(4)
    scale = normalize.RewardScale(jnp.zeros(3), normalize.moments())
    total, seen = np.zeros(3), []
    for _ in range(3):
        reward, done = rng.normal(1, 2, size=(12, 3)), rng.random((12, 3)) < 0.2
        valid = (rng.random((12, 3)) < 0.8) | done
        scale = normalize.update_reward_scale(scale, f32(reward), jnp.asarray(done), jnp.asarray(valid), 0.9)
        sums, total = twins.discounted_sums(reward, done, valid, 0.9, total)
        seen.append(sums)
        np.testing.assert_allclose(scale.total, total, rtol=1e-4, atol=1e-5)
    assert float(scale.stats.std) == pytest.approx(np.concatenate(seen).std(), rel=1e-4)
    scaled = normalize.scale_reward(f32(reward), scale, 0.5)
    np.testing.assert_allclose(scaled, np.clip(reward / np.concatenate(seen).std(), -0.5, 0.5), rtol=1e-4)


def moments_of(batches, weights, span):
    moments = normalize.advantage_moments()
    for batch, weight in zip(batches, weights):
        moments = normalize.update_advantage_moments(moments, f32(batch), f32(weight), 1 - 2 / (span + 1))
    return moments


def test_advantage_span_one_is_the_standardization_of_this_batch_alone():
    batches = np.random.default_rng(5).normal(3, 2, size=(3, 40))
    moments = moments_of(batches, np.ones((3, 40)), 1.0)
    out = normalize.standardize(f32(batches[-1]), moments.mean, moments.std)
    np.testing.assert_allclose(out, (batches[-1] - batches[-1].mean()) / batches[-1].std(), atol=1e-4)


@pytest.mark.parametrize("std", [0.5, 0.1])
def test_advantages_far_from_zero_keep_their_spread(std):
    """E[x²] − mean² would have lost it: 1000² leaves float32 no digits for it."""
    batches = np.random.default_rng(7).normal(1000, std, size=(2, 4096))
    found = moments_of(batches, np.ones_like(batches), 3.0)
    assert float(found.std) == pytest.approx(batches.std(), rel=0.02)


@pytest.mark.parametrize("span", [3.0, 9.0])
def test_advantage_moments_over_iterations_equal_a_loop(span):
    rng = np.random.default_rng(6)
    batches, weights = rng.normal(1, 2, size=(5, 40)), (rng.random((5, 40)) < 0.7).astype(float)
    decay, count, total, square = 1 - 2 / (span + 1), 0.0, 0.0, 0.0
    for batch, weight in zip(batches, weights):
        count, total, square = decay * count, decay * total, decay * square
        for x, w in zip(batch, weight):
            count, total, square = count + w, total + w * x, square + w * x * x
    moments = moments_of(batches, weights, span)
    assert float(moments.mean) == pytest.approx(total / count, rel=1e-4)
    assert float(moments.std) == pytest.approx(np.sqrt(square / count - (total / count) ** 2), rel=1e-4)
