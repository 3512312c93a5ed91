"""Epochs and shuffles."""

from __future__ import annotations

import jax
from jaxtyping import Array, Int, PRNGKeyArray


def epoch(key: PRNGKeyArray, batch: int, num_minibatches: int) -> Int[Array, "minibatches size"]:
    """Indices of one pass: shuffled, cut into equal minibatches, every sample exactly once."""
    return jax.random.permutation(key, batch).reshape(num_minibatches, batch // num_minibatches)
