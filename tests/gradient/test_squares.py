import numpy as np
import pytest

from trimtab.gradient.bias import bias_sq, difference_statistics
from trimtab.gradient.bootstrap import bootstrap_weights
from trimtab.gradient.squared_means import _plausible_means
from trimtab.gradient.variance import square_errors

ROWS = np.random.default_rng(0).normal(size=(24, 3)) * [2.0, 1.0, 0.3] + [0.5, 0.2, 0.1]


@pytest.fixture
def square():
    return square_errors(difference_statistics(ROWS), bootstrap_weights(24, seed=1, num_resamples=6))


def test_directions_span_the_noise_and_the_mean(square):
    """Three parameters and four directions: nothing is left out."""
    covariance = np.cov(ROWS.T) / 24
    np.testing.assert_allclose(square.directions.variances, np.linalg.eigvalsh(covariance))
    mean, residual = ROWS.mean(axis=0), ROWS - ROWS.mean(axis=0)
    np.testing.assert_allclose(square.directions.components @ square.directions.mean, residual @ mean)
    np.testing.assert_allclose(square.directions.components @ square.directions.components.T, residual @ residual.T)


def test_errors_and_what_a_resample_reports_equal_loops_over_rows(square):
    weights = bootstrap_weights(24, seed=1, num_resamples=6)
    mean, residual = ROWS.mean(axis=0), ROWS - ROWS.mean(axis=0)
    errors, reported = square.under(square.directions.mean[None])
    quadratic = []
    for i, drawn in enumerate(weights):
        pairs = [
            (drawn[m] - 1) * (drawn[n] - 1) * (residual[m] @ residual[n])
            for m in range(24)
            for n in range(24)
            if m != n
        ]
        quadratic.append(24 / 23 * sum(pairs) / 24**2)
        others = [
            sum((drawn[n] - 1) * residual[n] for n in range(24) if n != m) / 24 - residual[m] / 24 for m in range(24)
        ]
        terms = np.array([residual[m] @ mean + residual[m] @ others[m] for m in range(24)])
        along = np.cov(terms, fweights=drawn.astype(int), bias=True)
        noise = sum((residual[m] @ residual[n]) ** 2 for m in range(24) for n in range(24) if m != n)
        assert reported[i, 0] == pytest.approx(np.sqrt(4 * along / 24 + (24 / 23) ** 2 * noise / 24**4))
    linear = 2 * np.sqrt(24 / 23) * (weights - 1) @ residual @ mean / 24
    np.testing.assert_allclose(errors[:, 0], linear + quadratic - np.mean(quadratic))


def test_plausible_means_have_the_length_asked_for_and_stretch_where_noise_is():
    start, variances, root = np.array([1.0, 1.0]), np.array([1.0, 4.0]), np.array([0.0, 0.7, 3.0, 50.0])
    means = _plausible_means(root, start, variances)
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), root, atol=1e-9)
    assert means[1, 0] == pytest.approx(means[1, 1])  # shorter: the same direction
    assert means[2, 1] > 1.5 * means[2, 0] and means[3, 1] > 30 * means[3, 0]
    gap = (1 - start / means[2]) / variances  # (1 - start / mean) / v is the same eta for all
    assert gap[0] == pytest.approx(gap[1])


def test_rows_without_noise_have_an_exact_square():
    estimate = bias_sq(np.tile([3.0, 4.0], (16, 1)))
    assert (estimate.lo, estimate.value, estimate.hi) == pytest.approx((25.0, 25.0, 25.0)) and estimate.resolved


@pytest.mark.parametrize("noisy", [True, False])
def test_interval_covers_when_one_direction_has_nearly_all_the_noise(noisy):
    """A mean oblique to it, which looks far more certain when noise happens to point the other way."""
    rng = np.random.default_rng(4)
    mean = rng.normal(size=21)
    mean *= np.sqrt(400 / 128) / np.linalg.norm(mean)
    scale = np.r_[10.0 if noisy else 0.1, np.full(20, 0.1)]
    found = [bias_sq(rng.normal(size=(128, 21)) * scale + mean, seed=i) for i in range(200)]
    assert np.mean([e.lo <= mean @ mean <= e.hi for e in found]) >= 0.9
    assert np.mean([e.value for e in found]) == pytest.approx(mean @ mean, abs=0.35 if noisy else 0.01)
