"""The random bits of JAX's own keys, by a program without a loop.

For CPUs JAX compiles its hash (Threefry-2x32, Salmon et al. 2011) as a loop of five passes over the data; the twenty
rounds written out run sooner. Where a run draws much, `unrolled` keys are used: every function of `jax.random` takes
them and gives the same bits as for the key they were made from.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend import random as extend
from jaxtyping import Array, PRNGKeyArray, UInt32

Words = UInt32[Array, "*shape"]
Key = UInt32[Array, "two"]

_JAX = extend.threefry_prng_impl
_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def unrolled(key: PRNGKeyArray) -> PRNGKeyArray:
    """The same key, hashed by the program without a loop."""
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_UNROLLED)


def _hash(key: Key, shape: tuple[int, ...]) -> tuple[Words, Words]:
    """Two random words for each place of an array, from its index there."""
    words = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY)
    index = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    x, y = jnp.broadcast_to(words[0], shape), index + words[1]
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << r) | (y >> (32 - r)))
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def _split(key: Key, shape: tuple[int, ...]) -> Words:
    return jnp.stack(_hash(key, shape), axis=-1)


def _bits(key: Key, width: int, shape: tuple[int, ...]) -> Words:
    if width != 32:
        return _JAX.random_bits(key, width, shape)
    x, y = _hash(key, shape)
    return x ^ y


_UNROLLED = extend.define_prng_impl(
    key_shape=(2,),
    seed=_JAX.seed,
    split=_split,
    random_bits=_bits,
    fold_in=_JAX.fold_in,
    name="threefry2x32_unrolled",
    tag="fru",
)
