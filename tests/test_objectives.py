"""Objectives and their gradients against NumPy, and the objectives they must reduce to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import twins

from trimtab.math import objectives


@pytest.fixture(params=range(3))
def samples(request):
    """(logp, logp_prox, logp_behav, advantage, kl), spread enough that clips bind on both sides."""
    rng = np.random.default_rng(request.param)
    logp = rng.normal(-1.5, 0.7, 200)
    return logp, logp + rng.normal(0, 0.4, 200), logp + rng.normal(0, 0.6, 200), rng.normal(size=200), rng.random(200)


def f32(*arrays):
    return [jnp.asarray(a, jnp.float32) for a in arrays]


def gradient(objective, logp, *rest):
    """Per-sample derivative with respect to logp."""
    return jax.grad(lambda x: objective(x, *rest).sum())(logp)


@pytest.mark.parametrize("clip_coef, cap", [(0.2, 100.0), (0.05, 1.5), (0.5, 100.0)])
def test_clipped_equals_its_twin_sample_by_sample(samples, clip_coef, cap):
    logp, prox, behav, advantage, _ = samples
    slow = [twins.clipped(*row, clip_coef, cap) for row in zip(logp, prox, behav, advantage)]
    np.testing.assert_allclose(objectives.clipped(*f32(*samples[:4]), clip_coef, cap), slow, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("clip_coef, cap", [(0.2, 100.0), (0.05, 1.5)])
def test_gradient_of_clipped_equals_its_twin(samples, clip_coef, cap):
    logp, prox, behav, advantage, _ = samples
    slow = [twins.clipped_gradient(*row, clip_coef, cap) for row in zip(logp, prox, behav, advantage)]
    fast = gradient(objectives.clipped, *f32(*samples[:4]), clip_coef, cap)
    np.testing.assert_allclose(fast, slow, rtol=2e-4, atol=1e-5)
    assert 0.05 < np.mean(np.asarray(fast) == 0) < 0.95  # the test sees both sides of the clip


def test_gradient_of_clipped_equals_finite_differences(samples):
    logp, prox, behav, advantage, _ = samples
    h = 1e-6
    up, down = (np.array([twins.clipped(*row, 0.2) for row in zip(logp + s, prox, behav, advantage)]) for s in (h, -h))
    np.testing.assert_allclose(
        gradient(objectives.clipped, *f32(*samples[:4]), 0.2), (up - down) / (2 * h), rtol=1e-3, atol=1e-4
    )


def test_clipped_is_ppo_when_the_proximal_policy_is_the_behavior_policy(samples):
    logp, _, behav, advantage, _ = samples
    ratio = np.exp(logp - behav)
    ppo = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    np.testing.assert_allclose(objectives.clipped(*f32(logp, behav, behav, advantage), 0.2), ppo, rtol=2e-4, atol=1e-5)


def test_proximal_policy_drops_out_without_a_clip_and_without_a_penalty(samples):
    logp, prox, behav, advantage, kl = samples
    weighted = np.exp(logp - behav) * advantage
    no_clip = objectives.clipped(*f32(logp, prox, behav, advantage), jnp.inf, 1e9)
    no_penalty = objectives.kl_penalized(*f32(logp, behav, kl, advantage), 0.0, 1e9)
    np.testing.assert_allclose(no_clip, weighted, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(no_penalty, weighted, rtol=2e-4, atol=1e-5)


def test_kl_penalty_subtracts_the_given_kl(samples):
    logp, _, behav, advantage, kl = samples
    slow = np.minimum(np.exp(logp - behav), 2.0) * advantage - 3.0 * kl
    np.testing.assert_allclose(
        objectives.kl_penalized(*f32(logp, behav, kl, advantage), 3.0, 2.0), slow, rtol=2e-4, atol=1e-5
    )


def test_every_gradient_is_the_plain_policy_gradient_where_the_policies_agree(samples):
    logp, _, _, advantage, kl = f32(*samples)
    plain = gradient(objectives.policy_gradient, logp, advantage)
    np.testing.assert_allclose(gradient(objectives.clipped, logp, logp, logp, advantage, 0.2), plain, rtol=1e-6)
    np.testing.assert_allclose(gradient(objectives.kl_penalized, logp, logp, kl, advantage, 1.0), plain, rtol=1e-6)
    np.testing.assert_allclose(plain, advantage)


def test_ratio_cap_bounds_the_weight_and_keeps_its_gradient():
    logp, behav, advantage = f32([0.0, 0.0], [-10.0, -1.0], [1.0, 1.0])
    capped = objectives.kl_penalized(logp, behav, jnp.zeros(2), advantage, 0.0, 100.0)
    slope = gradient(objectives.kl_penalized, logp, behav, jnp.zeros(2), advantage, 0.0, 100.0)
    np.testing.assert_allclose(capped, [100.0, np.e], rtol=1e-5)
    np.testing.assert_allclose(slope, [100.0, np.e], rtol=1e-5)


@pytest.mark.parametrize("advantage", [-1.0, 1.0])
@pytest.mark.parametrize("logp, prox, behav", [(0.0, -95.0, -95.0), (0.0, -90.0, 0.0), (-200.0, 0.0, 0.0)])
def test_samples_far_from_the_proximal_policy_stay_finite(logp, prox, behav, advantage):
    """π/π_prox alone is beyond float32; the objective is not."""
    given = f32([logp], [prox], [behav], [advantage])
    found, slope = objectives.clipped(*given, 0.2), gradient(objectives.clipped, *given, 0.2)
    with np.errstate(over="ignore"):
        slow = twins.clipped(logp, prox, behav, advantage, 0.2, 100.0)
    np.testing.assert_allclose(found, [slow], rtol=1e-4, atol=1e-30)
    assert np.isfinite(slope).all()


def test_clip_binds_on_one_side_only():
    log_ratio = jnp.log(jnp.array([1.5, 1.5, 0.5, 0.5, 1.1]))
    advantage = jnp.array([1.0, -1.0, 1.0, -1.0, 1.0])
    outside, zero = objectives.clip_binds(log_ratio, jnp.zeros(5), advantage, 0.2)
    slope = gradient(objectives.clipped, log_ratio, jnp.zeros(5), jnp.zeros(5), advantage, 0.2)
    assert outside.tolist() == [1, 1, 1, 1, 0]
    assert zero.tolist() == [1, 0, 0, 1, 0]
    assert (slope == 0).astype(float).tolist() == zero.tolist()


def test_value_loss_is_the_squared_error_or_the_larger_of_it_and_the_clipped_one():
    value, target, before = f32([1.0, 1.0, 3.0], [0.0, 2.0, 0.0], [0.9, 0.2, 1.0])
    np.testing.assert_allclose(objectives.value_loss(value, target), [1.0, 1.0, 9.0])
    np.testing.assert_allclose(
        objectives.value_loss(value, target, before, 0.2), [1.0, max(1.0, (0.4 - 2) ** 2), 9.0], rtol=1e-6
    )
    slope = jax.grad(lambda v: objectives.value_loss(v, target, before, 0.2).sum())(value)
    np.testing.assert_allclose(slope, [2.0, 0.0, 6.0], rtol=1e-6)  # the clipped branch is flat
    alone = objectives.value_loss(value, target, before, 0.2, clipped_only=True)
    np.testing.assert_allclose(alone, [1.0, (0.4 - 2) ** 2, 1.2**2], rtol=1e-6)
