"""Epochs visit every sample exactly once, in a new order each time."""

import math

import jax
import numpy as np
import pytest

from trimtab.math import minibatch

# One program each: step by step, every shape would compile a dozen.
epoch = jax.jit(minibatch.epoch, static_argnums=(1, 2))
epoch_of_rows = jax.jit(minibatch.epoch_of_rows, static_argnums=(1, 2, 3))


@pytest.mark.parametrize(
    "batch, minibatches", [(1, 1), (2, 1), (12, 1), (12, 4), (12, 12), (512, 8), (65_536, 2), (65_538, 2)]
)
def test_an_epoch_visits_every_sample_exactly_once(batch, minibatches):
    order = np.asarray(epoch(jax.random.key(0), batch, minibatches))
    assert order.shape == (minibatches, batch // minibatches)
    assert sorted(order.ravel().tolist()) == list(range(batch))


def test_epochs_are_shuffled_differently():
    first, second = (np.asarray(epoch(jax.random.key(k), 64, 4)).ravel() for k in (0, 1))
    assert (first != second).any()
    assert (first != np.arange(64)).any()


@pytest.mark.parametrize("size", [4, 5])  # a power of two, where the index just fits its bits, and not
def test_every_order_is_equally_likely(size):
    keys = jax.random.split(jax.random.key(0), 40_000)
    orders = np.asarray(jax.jit(jax.vmap(lambda key: minibatch.shuffled(key, size)))(keys))
    _, counts = np.unique(orders, axis=0, return_counts=True)
    expected = len(keys) / math.factorial(size)
    assert len(counts) == math.factorial(size)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    assert abs(chi2 - freedom) < 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("num_envs, num_steps, minibatches", [(6, 4, 1), (6, 4, 3), (6, 4, 6), (6, 4, 12), (1, 4, 4)])
def test_an_epoch_of_rows_keeps_them_whole_and_visits_every_sample_once(num_envs, num_steps, minibatches):
    order = np.asarray(epoch_of_rows(jax.random.key(0), num_envs, num_steps, minibatches))
    assert sorted(order.ravel().tolist()) == list(range(num_envs * num_steps))
    for chosen in order:
        envs, times = chosen % num_envs, chosen // num_envs
        if minibatches <= num_envs:  # each environment that is there is there from its first step to its last
            assert sorted(zip(envs, times)) == [(n, t) for n in sorted(set(envs)) for t in range(num_steps)]
        else:  # a piece of one row
            assert len(set(envs)) == 1 and (np.diff(times) == 1).all()
    pieces = max(1, minibatches // num_envs)
    firsts = order[:, 0].reshape(-1, pieces)  # pieces of a row follow each other
    assert (firsts % num_envs == firsts[:, :1] % num_envs).all() and (np.diff(firsts) > 0).all()
    assert (
        minibatches == 1
        or (order != epoch_of_rows(jax.random.key(1), num_envs, num_steps, minibatches)).any()
        or num_envs == 1
    )
