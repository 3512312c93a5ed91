"""Epochs visit every sample exactly once, in a new order each time."""

import math

import jax
import numpy as np
import pytest

from trimtab import minibatch


@pytest.mark.parametrize(
    "batch, minibatches", [(1, 1), (2, 1), (12, 1), (12, 4), (12, 12), (512, 8), (65_536, 2), (65_538, 2)]
)
def test_an_epoch_visits_every_sample_exactly_once(batch, minibatches):
    order = np.asarray(minibatch.epoch(jax.random.key(0), batch, minibatches))
    assert order.shape == (minibatches, batch // minibatches)
    assert sorted(order.ravel().tolist()) == list(range(batch))


def test_epochs_are_shuffled_differently():
    first, second = (np.asarray(minibatch.epoch(jax.random.key(k), 64, 4)).ravel() for k in (0, 1))
    assert (first != second).any()
    assert (first != np.arange(64)).any()


@pytest.mark.parametrize("size", [4, 5])  # a power of two, where the index just fits its bits, and not
def test_every_order_is_equally_likely(size):
    keys = jax.random.split(jax.random.key(0), 40_000)
    orders = np.asarray(jax.vmap(lambda key: minibatch.shuffled(key, size))(keys))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    expected = len(keys) / math.factorial(size)
    assert len(counts) == math.factorial(size)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert abs(chi2 - freedom) < 5 * math.sqrt(2 * freedom)
