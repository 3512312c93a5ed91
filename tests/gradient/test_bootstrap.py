import numpy as np
import pytest

from trimtab.gradient.bootstrap import bootstrap_weights, mean_and_error, percentile


def test_percentiles_are_those_of_the_resampled_values():
    assert percentile(np.array([1.0, 2.0, 10.0]), confidence=1.0) == (1.0, 10.0)
    assert percentile(np.arange(101.0), confidence=0.9) == pytest.approx((5.0, 95.0))


def test_weights_are_resamples_within_strata():
    weights = bootstrap_weights(12, seed=0, num_strata=3, num_resamples=500)
    assert weights.shape == (500, 12)
    np.testing.assert_array_equal(weights.reshape(500, 3, 4).sum(axis=2), 4)
    np.testing.assert_allclose(weights.mean(axis=0), 1, atol=0.2)
    np.testing.assert_array_equal(weights, bootstrap_weights(12, 0, 3, 500))


def test_mean_and_error_of_a_resample_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(12, 2))
    weights = bootstrap_weights(12, seed=1, num_strata=3, num_resamples=5)
    means, errors_sq = mean_and_error(terms, weights, num_strata=3)
    drawn = [np.repeat(terms, w.astype(int), axis=0) for w in weights]
    np.testing.assert_allclose(means, [rows.mean(axis=0) for rows in drawn])
    within = [sum(s.var(axis=0) * 4 for s in np.split(rows, 3)) / 12**2 for rows in drawn]
    np.testing.assert_allclose(errors_sq, within)
    with pytest.raises(ValueError):
        mean_and_error(terms, weights[:, :5], num_strata=1)


def test_a_variance_carried_by_a_few_rows_is_not_resolved():
    """Rewards so rare that three rows of two thousand hold all of the gradient."""
    from trimtab.gradient.variance import decompose

    gradients = np.zeros((2048, 4, 3))
    gradients[:3] = np.random.default_rng(0).normal(size=(3, 4, 3)) * np.array([1.0, 10.0, 100.0])[:, None, None]
    assert not decompose(gradients, num_envs=16).variance.resolved
    steady = np.random.default_rng(1).normal(size=(256, 4, 3))
    assert decompose(steady, num_envs=16).variance.resolved
