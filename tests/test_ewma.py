"""EWMA: what is kept step by step equals the weighted sum written out."""

import jax.numpy as jnp
import numpy as np
import pytest
import twins

from trimtab.math import ewma


def average(values, decay):
    kept = ewma.init(jnp.asarray(values[0], jnp.float32))
    for value in values[1:]:
        kept = ewma.update(kept, jnp.asarray(value, jnp.float32), decay)
    return kept


@pytest.mark.parametrize("decay", [0.0, 0.3, 8 / 9, 0.999])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_updating_equals_the_weighted_sum_written_out(decay, count):
    values = np.random.default_rng(count).normal(size=(count, 3))
    kept = average(values, decay)
    np.testing.assert_allclose(kept.value, twins.weighted_average(values, decay), rtol=1e-5, atol=1e-6)
    assert float(kept.weight) == pytest.approx(sum(decay**k for k in range(count)), rel=1e-5)


def test_decay_zero_is_the_current_value():
    values = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert np.array_equal(average(values, 0.0).value, values[-1])


def test_a_huge_centre_of_mass_is_the_average_since_the_start():
    values = np.random.default_rng(1).normal(size=(30, 3))
    kept = average(values, ewma.decay_from_com(1e8))
    np.testing.assert_allclose(kept.value, values.mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("com", [0.0, 0.5, 8.0, 16.0, 100.0, 1000.0])
@pytest.mark.parametrize("count", [1, 2, 10, 300])
def test_mean_age_equals_the_mean_age_written_out(com, count):
    decay = ewma.decay_from_com(com)
    kept = average(np.zeros((count, 1)), decay)
    assert float(kept.age) == pytest.approx(twins.mean_age(count, decay), rel=1e-4, abs=1e-5)


def test_mean_age_tends_to_the_centre_of_mass():
    decay = ewma.decay_from_com(8.0)
    assert float(average(np.zeros((400, 1)), decay).age) == pytest.approx(8.0, rel=1e-4)


@pytest.mark.parametrize("com", [0.0, 1.0, 8.0, 250.0])
def test_centre_of_mass_and_decay_are_inverse(com):
    decay = ewma.decay_from_com(com)
    assert 1 / (1 - decay) - 1 == pytest.approx(com)
    assert ewma.decay_from_com(8.0) == pytest.approx(8 / 9)
