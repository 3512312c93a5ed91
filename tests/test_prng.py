"""Unrolled keys give the bits of the keys they were made from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.math.prng import unrolled

DRAWS = {
    "bits": lambda key: jax.random.bits(key, (7, 5)),
    "one word": lambda key: jax.random.bits(key),
    "bytes": lambda key: jax.random.bits(key, (6,), jnp.uint8),
    "uniform": lambda key: jax.random.uniform(key, (3,)),
    "normal": lambda key: jax.random.normal(key, (4, 4)),
    "gumbel": lambda key: jax.random.gumbel(key, (2, 3, 2)),
    "permutation": lambda key: jax.random.permutation(key, 11),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (3, 4))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 5)),
    "vmap": lambda key: jax.vmap(lambda k: jax.random.uniform(k, (4,)))(jax.random.split(key, 6)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("seed", [0, 123])
def test_the_bits_are_those_of_jax(draw, seed):
    key = jax.random.key(seed)
    assert np.array_equal(jax.jit(draw)(unrolled(key)), draw(key))
