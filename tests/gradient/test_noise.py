import naive
import numpy as np
import pytest

from trimtab.gradient import noise
from trimtab.gradient.correlation import gram_matrix
from trimtab.gradient.minibatch_effects import subsampling
from trimtab.gradient.variance import decompose, gradient_statistics


def correlated_rows(rng, rows, steps, gradient):
    """Each row has a shift of its own: Tr Cov(g_t) = 2 + 2, Tr Cov(S) = 2 T + 2 T²."""
    return rng.normal(size=(rows, steps, 2)) + rng.normal(size=(rows, 1, 2)) + gradient


def test_noise_scales_of_rows_with_a_shift():
    rng = np.random.default_rng(0)
    gradients = correlated_rows(rng, 1500, 4, np.array([1.0, 0.0]))
    result = noise.noise_scale(gradient_statistics(gradients))
    exact = {"simple": 4.0, "trajectory": 2 + 2 * 4, "environments": 2 / 4 + 2, "grad_sq": 1.0}
    for name, value in exact.items():
        estimate = getattr(result, name)
        assert estimate.resolved and estimate.lo <= value <= estimate.hi, name
        assert estimate.value == pytest.approx(value, rel=0.15)
    split = decompose(gradients, num_envs=7)
    assert result.row_variance.value == pytest.approx(7 * 4 * split.variance.value)
    assert result.sample_variance.value == pytest.approx(7 * 4 * split.individual.value)
    assert result.trajectory.value == pytest.approx(result.row_variance.value / result.grad_sq.value)


def test_no_number_without_a_gradient():
    gradients = correlated_rows(np.random.default_rng(1), 256, 4, np.zeros(2))
    result = noise.noise_scale(gradient_statistics(gradients))
    for estimate in (result.simple, result.trajectory, result.environments):
        assert str(estimate) == "inconclusive"
    assert not result.grad_sq.resolved and result.grad_sq.lo < 0 < result.grad_sq.hi, "a wide interval is shown"
    assert str(result.grad_sq) != "inconclusive"
    assert np.isnan(result.simple.value) and result.sample_variance.resolved


def test_noise_scale_interval_covers():
    rng = np.random.default_rng(2)
    hits = []
    for seed in range(60):
        rows = gradient_statistics(correlated_rows(rng, 256, 2, np.array([0.5, 0.5])))
        estimate = noise.noise_scale(rows, seed).trajectory
        hits.append(estimate.lo <= 12.0 <= estimate.hi)
    assert 0.87 <= np.mean(hits) <= 1.0


def test_lag_covariance_gives_the_variance_at_the_measured_steps():
    gradients = correlated_rows(np.random.default_rng(3), 64, 6, np.arange(6)[:, None])
    result = decompose(gradients, num_envs=8)
    predicted = noise.predict_variance(result.lag_covariance, 8, 6)
    assert predicted.value == pytest.approx(result.variance.value, rel=1e-12) and not predicted.extrapolated


def test_extrapolated_variance_is_marked_and_smaller_steps_refused():
    predicted = noise.predict_variance([1.0, 0.5], num_envs=2, num_steps=4)
    assert predicted == noise.Prediction((1 + 2 * 0.75 * 0.5) / 8, extrapolated=True)
    with pytest.raises(ValueError, match="num_steps"):
        noise.predict_variance([1.0, 0.5], num_envs=2, num_steps=1)


def test_blocks_keep_rows_together():
    rows = np.arange(12).reshape(2, 6)
    assert noise.split_blocks(rows, 3).tolist() == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]
    with pytest.raises(ValueError, match="num_steps"):
        noise.split_blocks(rows, 4)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_subsampling_variance_over_all_minibatches(size):
    samples = np.random.default_rng(4).normal(size=(6, 3)) + 2.0
    measured = noise.subsampling_variance(gram_matrix(samples), size)
    assert measured == pytest.approx(naive.subsampling_variance(samples, size), abs=1e-12)
    with pytest.raises(ValueError, match="minibatch_size"):
        noise.subsampling_variance(gram_matrix(samples), 7)


@pytest.mark.parametrize("minibatches", [1, 2, 4, 8])
def test_subsampling_by_rows_over_all_minibatches(minibatches):
    samples = np.random.default_rng(5).normal(size=(4, 6, 3)) + np.arange(4)[:, None, None]  # 4 rows, unlike each other
    pieces = max(1, minibatches // 4)
    means = samples.reshape(4 * pieces, 6 // pieces, 3).mean(1)
    wanted = naive.subsampling_variance(means, max(1, 4 // minibatches))
    gram = gram_matrix(samples.reshape(24, 3))
    assert noise.row_subsampling_variance(gram, 4, minibatches) == pytest.approx(wanted, abs=1e-12)
    found = subsampling(gram, 4, 6, minibatches, seed=0)
    assert found["subsampling_rows_measured"] == pytest.approx(wanted, rel=0.2, abs=1e-12)
    assert found["subsampling_measured"] == pytest.approx(found["subsampling_formula"], rel=0.2, abs=1e-12)


def test_noise_scale_and_error_take_plain_arrays():
    from trimtab.anatomy import mse

    rng = np.random.default_rng(0)
    gradients = 1.0 + rng.normal(size=(64, 4, 3))
    differences = 0.1 + 0.01 * rng.normal(size=(64, 3))
    assert noise.noise_scale(gradients) == noise.noise_scale(gradient_statistics(gradients))
    found = mse(gradients, differences, num_envs=8)
    assert found.resolved and found.lo < found.value < found.hi
