"""Epochs visit every sample exactly once, in a new order each time."""

import jax
import numpy as np
import pytest

from trimtab import minibatch


@pytest.mark.parametrize("batch, minibatches", [(12, 1), (12, 4), (12, 12), (512, 8)])
def test_an_epoch_visits_every_sample_exactly_once(batch, minibatches):
    order = np.asarray(minibatch.epoch(jax.random.key(0), batch, minibatches))
    assert order.shape == (minibatches, batch // minibatches)
    assert sorted(order.ravel().tolist()) == list(range(batch))


def test_epochs_are_shuffled_differently():
    first, second = (np.asarray(minibatch.epoch(jax.random.key(k), 64, 4)).ravel() for k in (0, 1))
    assert (first != second).any()
    assert (first != np.arange(64)).any()
