"""Debiased exponentially weighted moving averages (Hilton et al. 2021, appendix A)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = float | Float[Array, ""]


class Ewma(NamedTuple):
    """An average, the total weight of what is in it, and the mean age of that, in updates."""

    value: Float[Array, "*shape"]
    weight: Float[Array, ""]
    age: Float[Array, ""]


def decay_from_com(com: Scalar) -> Scalar:
    """β = COM / (1 + COM), where COM = 1/(1-β) - 1 is the mean age of a term."""
    return com / (1.0 + com)


def init(value: Float[Array, "*shape"]) -> Ewma:
    """Start from one term of weight 1."""
    return Ewma(value, jnp.ones((), value.dtype), jnp.zeros((), value.dtype))


def update(average: Ewma, value: Float[Array, "*shape"], decay: Scalar) -> Ewma:
    """w' = 1 + β w;  x̄ ← x / w' + (β w / w') x̄;  the older terms age by one: a ← (β w / w') (a + 1)."""
    decayed_weight = decay * average.weight
    weight = 1.0 + decayed_weight
    share = decayed_weight / weight
    return Ewma(value / weight + share * average.value, weight, share * (average.age + 1.0))
