import dataclasses

import naive
import numpy as np
import pytest

import trimtab.anatomy as anatomy
from trimtab.gradient.bias import bias_sq, difference_statistics, mse, squared_norm_of_mean
from trimtab.gradient.correlation import gram_matrix
from trimtab.gradient.variance import decompose, gradient_statistics


def test_square_of_the_mean_equals_the_naive_twin():
    differences = np.random.default_rng(0).normal(size=(20, 3)) + 0.5
    result = bias_sq(differences, seed=2)
    assert result.value == pytest.approx(naive.squared_mean(differences))
    from_gram = squared_norm_of_mean(gram_matrix(differences), seed=2)
    assert dataclasses.astuple(result) == pytest.approx(dataclasses.astuple(from_gram))


@pytest.mark.parametrize("size", [0.0, 0.15, 0.6])
def test_interval_of_a_square_covers_where_percentiles_do_not(size):
    """Many parameters and a weak mean: |mean|² of the data lies far above |mean|² of the truth."""
    rng = np.random.default_rng(3)
    truth = np.zeros(100)
    truth[0] = size
    found = [bias_sq(rng.normal(size=(256, 100)) * 0.5 + truth, seed=i) for i in range(80)]
    highest = 1.0 if size == 0 else 0.995  # an interval of what cannot be negative fails on one side only
    assert 0.88 <= np.mean([e.lo <= size**2 <= e.hi for e in found]) <= highest
    assert np.mean([e.value for e in found]) == pytest.approx(size**2, abs=0.01)
    if size == 0:
        assert np.mean([e.resolved for e in found]) < 0.1
    if size == 0.6:
        assert all(e.resolved for e in found)


def test_mean_squared_error_is_variance_plus_squared_bias():
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(512, 3, 4))
    differences = 0.2 * gradients.mean(axis=1) + 0.3
    rows, paired = gradient_statistics(gradients), difference_statistics(differences)
    result = mse(rows, paired, num_envs=16)
    variance, bias = decompose(gradients, 16).variance, bias_sq(differences)
    assert result.value == pytest.approx(variance.value + bias.value)
    exact = 4 / (16 * 3) + 4 * 0.09
    assert result.lo <= exact <= result.hi
    widths = [e.hi - e.lo for e in (variance, bias)]
    assert max(widths) * 0.9 < result.hi - result.lo < sum(widths)


def test_the_public_names_are_there():
    assert anatomy.decompose is decompose and "bias_sq" in dir(anatomy)
    assert all(getattr(anatomy, name) for name in anatomy.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = anatomy.nothing


def test_an_error_whose_interval_reaches_below_zero_is_not_resolved():
    """Little variance beside differences that are all noise: their unbiased square may be far below 0."""
    rng = np.random.default_rng(0)
    rows = gradient_statistics(rng.normal(size=(32, 1, 5)) * 1e-3)
    noisy = [mse(rows, difference_statistics(rng.normal(size=(32, 5))), num_envs=16) for _ in range(5)]
    assert not any(e.resolved for e in noisy if e.lo <= 0) and any(e.lo <= 0 for e in noisy)


def test_environments_that_differ_do_not_lower_the_bias_of_carried_rows():
    """Without noise every replicate says the same, and |mean over environments|² is known exactly."""
    each = np.random.default_rng(0).normal(size=(4, 3))
    carried = np.broadcast_to(each, (8, 4, 3))
    assert bias_sq(carried).value == pytest.approx(each.mean(0) @ each.mean(0))
