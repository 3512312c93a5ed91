"""GAE, reward-to-go and first episodes against brute force and known small cases."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest
import twins

from trimtab.math import returns


def random_rows(seed, steps=17, envs=5, masked=True):
    """Rewards, values and cuts of every kind; a truncated row is never terminated too."""
    rng = np.random.default_rng(seed)
    reward, value, next_value = (rng.normal(size=(steps, envs)) for _ in range(3))
    terminated = rng.random((steps, envs)) < 0.15
    truncated = (rng.random((steps, envs)) < 0.15) & ~terminated
    valid = rng.random((steps, envs)) < 0.85 if masked else np.ones((steps, envs), bool)
    return reward, value, next_value, terminated, truncated, valid


def fast(reward, value, next_value, terminated, truncated, gamma, lam, valid=None):
    arrays = [jnp.asarray(x, jnp.float32) for x in (reward, value, next_value)]
    masks = [jnp.asarray(x) for x in (terminated, truncated)]
    return returns.gae(*arrays, *masks, gamma, lam, None if valid is None else jnp.asarray(valid))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gamma, lam", [(0.99, 0.95), (0.9, 0.3), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
@pytest.mark.parametrize("masked", [False, True])
def test_gae_equals_brute_force(seed, gamma, lam, masked):
    *rows, valid = random_rows(seed, masked=masked)
    valid = valid if masked else None
    advantage, target = fast(*rows, gamma, lam, valid)
    slow_advantage, slow_target = twins.gae(*rows, gamma, lam, valid)
    np.testing.assert_allclose(advantage, slow_advantage, atol=1e-5)
    np.testing.assert_allclose(target, slow_target, atol=1e-5)


def test_what_lies_behind_an_end_is_never_used():
    """Also where it is NaN: a simulation that ends because it diverged observes that."""
    reward, value = np.ones((3, 1)), np.zeros((3, 1))
    behind, ends = np.array([[5.0], [np.nan], [7.0]]), np.array([[False], [True], [False]])
    advantage, _ = fast(reward, value, behind, ends, np.zeros_like(ends), 0.5, 1.0)
    np.testing.assert_allclose(advantage[:, 0], [1 + 2.5 + 0.5 * 1, 1.0, 1 + 3.5])


def test_arrays_are_of_one_shape_and_of_any_kind():
    reward, done = [[1], [2]], [[0.0], [1.0]]
    to_go, gae = map(inspect.unwrap, (returns.reward_to_go, returns.gae))  # as users call them, unchecked
    np.testing.assert_allclose(to_go(reward, done, [[0], [0]], 0.5), [[2.0], [2.0]])
    with pytest.raises(ValueError, match=r"one shape are needed, not \(1, 3\), \(2, 3\)"):
        gae(*np.ones((2, 2, 3)), np.ones((1, 3)), *np.zeros((2, 2, 3), bool), 0.9, 0.9)


def one_row(*values):
    return np.array(values, np.float64)[:, None]


def test_gae_of_two_steps_by_hand():
    """A_1 = 2 + .5·30 - 20 = -3; A_0 = (1 + .5·20 - 10) + .5·.8·A_1 = 1 - 1.2."""
    no = np.zeros((2, 1), bool)
    advantage, target = fast(one_row(1, 2), one_row(10, 20), one_row(20, 30), no, no, 0.5, 0.8)
    np.testing.assert_allclose(advantage[:, 0], [-0.2, -3.0], atol=1e-6)
    np.testing.assert_allclose(target[:, 0], [9.8, 17.0], atol=1e-5)


def test_truncation_bootstraps_and_termination_does_not():
    cut, no = np.array([[True], [False]]), np.zeros((2, 1), bool)
    rows = one_row(1, 2), one_row(10, 20), one_row(40, 30)
    truncated, _ = fast(*rows, no, cut, 0.5, 0.8)
    terminated, _ = fast(*rows, cut, no, 0.5, 0.8)
    assert float(truncated[0, 0]) == pytest.approx(1 + 0.5 * 40 - 10)
    assert float(terminated[0, 0]) == pytest.approx(1 - 10)
    assert float(truncated[1, 0]) == float(terminated[1, 0]) == pytest.approx(-3.0)


def test_rows_that_are_not_experience_have_advantage_zero_and_cut():
    *rows, _ = random_rows(0, masked=False)
    valid = np.ones(rows[0].shape, bool)
    valid[8] = False
    advantage, _ = fast(*rows, 0.99, 0.95, valid)
    before, _ = fast(*(x[:8] for x in rows), 0.99, 0.95)
    assert (np.asarray(advantage[8]) == 0).all()
    np.testing.assert_allclose(advantage[:8], before, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_reward_to_go_equals_brute_force(gamma):
    reward, _, _, terminated, truncated, _ = random_rows(3)
    followed = returns.reward_to_go(jnp.asarray(reward, jnp.float32), *map(jnp.asarray, (terminated, truncated)), gamma)
    np.testing.assert_allclose(followed, twins.reward_to_go(reward, terminated, truncated, gamma), atol=1e-5)


def test_reward_to_go_is_gae_with_lambda_one_of_a_zero_critic_when_episodes_terminate():
    reward, value, _, terminated, _, _ = random_rows(4)
    terminated[-1] = True
    zero, no = np.zeros_like(value), np.zeros_like(terminated)
    advantage, _ = fast(reward, zero, zero, terminated, no, 0.9, 1.0)
    followed = returns.reward_to_go(jnp.asarray(reward, jnp.float32), *map(jnp.asarray, (terminated, no)), 0.9)
    np.testing.assert_allclose(advantage, followed, atol=1e-5)


def test_an_episode_ends_with_its_last_step_included():
    terminated = jnp.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]], bool)
    truncated = jnp.array([[0, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
    index = returns.episode_index(terminated, truncated)
    assert np.asarray(index).T.tolist() == [[0, 0, 1, 1], [0, 1, 1, 2], [0, 0, 0, 0]]
