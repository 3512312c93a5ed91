"""Ways of cutting a batch into minibatches, and expectations along rows."""

import numpy as np
import pytest

from trimtab.envs.tabular_backend import FiniteMDP
from trimtab.gradient import exact
from trimtab.gradient.minibatch_effects import WAYS, parts_of, subsampling_measured
from trimtab.gradient.noise import subsampling_variance


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_every_sample_is_in_one_minibatch(way, size):
    parts = parts_of(way, 4, 8, size, seed=3)
    assert parts.shape == (32 // size, size) and sorted(parts.ravel()) == list(range(32))


def test_rows_are_whole_while_they_can_be():
    parts = parts_of("whole rows", 4, 8, 16, seed=0)
    assert all(len(set(part // 8)) == 2 for part in parts), "two environments, all of their steps"
    assert all(len(set(part // 8)) == 1 for part in parts_of("whole rows", 4, 8, 4, seed=0)), "time is cut"


def test_blocks_are_the_same_steps_of_every_environment():
    for part in parts_of("contiguous blocks", 4, 8, 16, seed=0):
        steps, envs = part % 8, part // 8
        assert set(envs) == {0, 1, 2, 3} and steps.max() - steps.min() == 3


def test_what_cutting_adds_is_the_spread_of_minibatch_means():
    gradients = np.random.default_rng(0).normal(size=(32, 5))
    parts = parts_of("whole rows", 4, 8, 8, seed=1)
    means = np.array([gradients[part].mean(0) for part in parts])
    direct = ((means - gradients.mean(0)) ** 2).sum(1).mean()
    assert subsampling_measured(gradients @ gradients.T, parts) == pytest.approx(direct)


def test_shuffled_samples_follow_the_finite_population_formula():
    gradients = np.random.default_rng(0).normal(size=(32, 5)) * np.arange(1, 33)[:, None]
    gram = gradients @ gradients.T
    found = [subsampling_measured(gram, parts_of("shuffled samples", 4, 8, 4, seed)) for seed in range(400)]
    assert np.mean(found) == pytest.approx(subsampling_variance(gram, 4), rel=0.03)


@pytest.mark.parametrize("limit", [None, 5])
def test_rows_from_stationary_starts_have_the_expectation_of_independent_draws(limit):
    rng = np.random.default_rng(1)
    shape = (4, 2, 2)
    mdp = FiniteMDP.from_arrays(
        rng.dirichlet(np.ones(2), shape[:2]),
        rng.integers(0, 4, shape),
        rng.normal(size=shape),
        rng.random(shape) < 0.2,
        rng.dirichlet(np.ones(4)),
    )
    p = exact.problem(mdp, rng.dirichlet(np.ones(2), 4), 0.9, limit)
    score, critic = rng.normal(size=(4, 2, 3)), rng.normal(size=4)
    for num_steps in (1, 3, 7):
        drawn = exact.expected_gradient(p, score, critic, 0.8, num_steps)
        np.testing.assert_allclose(
            exact.expected_gradient_along_rows(p, score, critic, 0.8, num_steps), drawn, atol=1e-12
        )
    start = np.zeros_like(exact.stationary(p))
    start[(0, 0) if limit else 0] = 1.0
    other = exact.expected_gradient_along_rows(p, score, critic, 0.8, 7, start)
    assert np.abs(other - drawn).max() > 1e-3, "from one state it is another expectation"
