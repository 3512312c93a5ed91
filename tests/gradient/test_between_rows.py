"""The third term: the covariance between rows of one iteration."""

import naive
import numpy as np
import pytest

from trimtab.anatomy import decompose, decompose_rows, iteration_statistics, noise_scale
from trimtab.envs.tabular_backend import FiniteMDP
from trimtab.gradient import exact


def iterations(rng, count, rows, steps=3, parameters=4, shared=1.0):
    """Rows of an iteration share a vector; steps of a row share another."""
    common = shared * rng.normal(size=(count, 1, 1, parameters))
    own = rng.normal(size=(count, rows, 1, parameters))
    return common + own + rng.normal(size=(count, rows, steps, parameters)) + np.arange(steps)[:, None]


def test_equals_the_naive_twin():
    gradients = iterations(np.random.default_rng(0), 6, 4)
    for num_envs in (4, 9):
        found = decompose(gradients.reshape(24, 3, 4), num_envs, iterations=6)
        individual, within, between = naive.decompose_iterations(gradients, num_envs)
        assert found.individual.value == pytest.approx(individual)
        assert found.covariance.value == pytest.approx(within)
        assert found.between_rows.value == pytest.approx(between)
        assert found.variance.value == pytest.approx(individual + within + between)
        assert found.variance_floor.value == pytest.approx(between * num_envs / (num_envs - 1))
        assert found.ess.value == pytest.approx(num_envs * 3 * individual / found.variance.value)


def test_the_variance_of_a_batch_as_measured_is_that_of_batch_means():
    gradients = iterations(np.random.default_rng(1), 12, 5)
    found = decompose(gradients.reshape(60, 3, 4), 5, iterations=12)
    means = gradients.mean(axis=(1, 2))
    assert found.variance.value == pytest.approx(np.var(means, axis=0, ddof=1).sum())
    assert found.grad_sq.value == pytest.approx(naive.squared_mean(means))


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_intervals_hold_the_truth(shared):
    """Individual 4 (1 + 1 + shared²) / (N T), within rows 4 (1 + shared²) (T − 1) / (N T), between rows 4 shared²."""
    rng, held = np.random.default_rng(2), []
    truth = (4 * (2 + shared**2) / 24, 4 * (1 + shared**2) * 2 / 24, 7 / 8 * 4 * shared**2)
    for _ in range(60):
        found = decompose(iterations(rng, 32, 8, shared=shared).reshape(256, 3, 4), 8, iterations=32)
        estimates = (found.individual, found.covariance, found.between_rows, found.variance)
        held.append([e.lo <= value <= e.hi for e, value in zip(estimates, (*truth, sum(truth)))])
    assert (np.mean(held, axis=0) >= 0.85).all(), np.mean(held, axis=0)


def test_independent_rows_are_what_they_were():
    """With one row in an iteration the estimates are those of independent rows, intervals included."""
    gradients = iterations(np.random.default_rng(3), 24, 1)
    alone = decompose(gradients[:, 0], 1)
    found = decompose(gradients[:, 0], 1, iterations=24)
    for name in ("variance", "individual", "covariance", "ess", "grad_sq"):
        a, b = getattr(found, name), getattr(alone, name)
        assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi)), name
    np.testing.assert_allclose(found.lag_covariance, alone.lag_covariance)
    assert found.between_rows.value == 0 and not alone.between_rows.known
    with pytest.raises(ValueError, match="one row do not tell"):
        decompose(gradients[:, 0], 2, iterations=24)


def test_samples_that_are_no_experience_do_not_count():
    """A masked sample never enters, whatever stands there."""
    rng = np.random.default_rng(4)
    gradients, mask = iterations(rng, 10, 4), rng.random((10, 4, 3)) < 0.8
    broken = np.where(mask[..., None], gradients, np.nan)
    found = decompose_rows(iteration_statistics(broken, mask), 4)
    sums = np.where(mask[..., None], gradients, 0).sum(axis=2)
    gradient = sums.sum(axis=(0, 1)) / mask.sum()
    residuals = (sums - mask.sum(axis=2)[..., None] * gradient).sum(axis=1)
    assert found.variance.value == pytest.approx(np.sum(residuals**2) / 9 / (mask.sum() / 10) ** 2)
    assert found.num_masked == (~mask).sum()


def test_the_noise_scale_is_that_of_the_measured_number_of_rows():
    gradients = iterations(np.random.default_rng(5), 40, 8) + 3.0
    rows = iteration_statistics(gradients)
    found, parts = noise_scale(rows), decompose_rows(rows, 8)
    assert found.trajectory.value == pytest.approx(24 * parts.variance.value / parts.grad_sq.value)
    assert found.environments.value == pytest.approx(8 * parts.variance.value / parts.grad_sq.value)
    assert found.floor.value == pytest.approx(parts.variance_floor.value / parts.grad_sq.value)
    assert found.floor.lo < found.floor.value < found.floor.hi


def clock(limit=6):
    """What an action is worth alternates with the state, and the state is the time into the episode."""
    prob = np.zeros((limit, 2, limit))
    for s in range(limit):
        prob[s, :, (s + 1) % limit] = 1.0
    worth = np.where(np.arange(limit)[:, None] < limit / 2, [[1.0, -1.0]], [[-2.0, 2.0]])
    reward = np.broadcast_to(worth[:, :, None], prob.shape)
    rho = np.eye(limit)[0]
    return FiniteMDP.from_arrays(prob, np.arange(limit), reward, False, rho, time_limit=limit, name="clock")


def test_phases_of_a_lockstep_are_averaged_over_one_cycle():
    mdp, rng = clock(), np.random.default_rng(6)
    p = exact.problem(mdp, rng.dirichlet(np.ones(2), 6), 0.9, 6)
    score, critic = rng.normal(size=(6, 2, 3)), rng.normal(size=6)
    for num_steps, phases in ((1, 6), (4, 3), (6, 1), (12, 1)):
        gradients = exact.lockstep_gradients(p, score, critic, 0.8, num_steps)
        assert len(gradients) == phases
        stationary = exact.expected_gradient(p, score, critic, 0.8, num_steps)
        if num_steps == 1:
            np.testing.assert_allclose(gradients.mean(axis=0), stationary, atol=1e-12)
        assert (exact.between_rows(gradients) == pytest.approx(0, abs=1e-12)) == (phases == 1)
