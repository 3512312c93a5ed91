"""Epochs and shuffles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

# Up to this many samples 16 random bits or more are left beside an index in one 32-bit word.
_ONE_WORD = 2**16


def epoch(key: PRNGKeyArray, batch: int, num_minibatches: int) -> Int[Array, "minibatches size"]:
    """Indices of one pass: shuffled, cut into equal minibatches, every sample exactly once."""
    return shuffled(key, batch).reshape(num_minibatches, batch // num_minibatches)


def epoch_of_rows(
    key: PRNGKeyArray, num_envs: int, num_steps: int, num_minibatches: int
) -> Int[Array, "minibatches size"]:
    """Indices t N + n of one pass: environments shuffled, each minibatch N / minibatches whole rows.

    With more minibatches than environments each is a piece of one row, a row's pieces following each other in time, as
    in the code of Hilton et al. 2021 (arXiv 2110.00641).
    """
    pieces = max(1, num_minibatches // num_envs)
    envs = shuffled(key, num_envs).reshape(num_minibatches // pieces, 1, 1, -1)
    time = jnp.arange(num_steps).reshape(1, pieces, -1, 1)
    return (time * num_envs + envs).reshape(num_minibatches, -1)


def shuffled(key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
    """0 … size-1 in random order.

    Sorts words whose high bits are random and whose low bits are the index: on CPUs several times as fast as sorting
    pairs, which is what `jax.random.permutation` does and what a fifth of a small network's update would go to. Two
    indices with the same random bits stay in order; only a pair on both sides of a cut between minibatches could tell.
    """
    if size > _ONE_WORD:
        return jax.random.permutation(key, size)
    low = jnp.uint32((1 << max(size - 1, 1).bit_length()) - 1)
    words = (jax.random.bits(key, (size,), jnp.uint32) & ~low) | jnp.arange(size, dtype=jnp.uint32)
    return (jnp.sort(words) & low).astype(jnp.int32)
