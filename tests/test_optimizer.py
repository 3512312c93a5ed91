"""Adam and momentum against optax's, step by step."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from trimtab.math.optimizers import OPTIMIZERS
from trimtab.math.step_sizes import descend

HYPERS = {
    "adam_beta1": 0.8,
    "adam_beta2": 0.95,
    "adam_eps": 1e-3,
    "momentum": 0.7,
    "weight_decay": 0.01,
}


@pytest.mark.parametrize(
    "kind, peer",
    [("adam", optax.scale_by_adam(0.8, 0.95, 1e-3)), ("sgd", optax.trace(0.7))],
)
def test_steps_are_those_of_optax(kind, peer):
    rng = np.random.default_rng(0)
    params = there = jnp.asarray(rng.normal(size=7), jnp.float32)
    state, other = OPTIMIZERS[kind].init(params), peer.init(there)
    hypers = {name: jnp.float32(value) for name, value in HYPERS.items()}
    for _ in range(5):
        gradient = jnp.asarray(rng.normal(size=7), jnp.float32)
        params, state = descend(hypers, params, gradient, state, jnp.float32(0.1))
        direction, other = peer.update(gradient, other)
        there = there - 0.1 * (direction + 0.01 * there)
        np.testing.assert_allclose(params, there, rtol=2e-6, atol=1e-6)
