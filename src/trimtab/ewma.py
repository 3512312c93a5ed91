"""Debiased exponentially weighted moving averages (Hilton et al. 2021, appendix A)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = float | Float[Array, ""]


class Ewma(NamedTuple):
    """An average and the total weight of what is in it."""

    value: Float[Array, "*shape"]
    weight: Float[Array, ""]


def decay_from_com(com: Scalar) -> Scalar:
    """β = COM / (1 + COM), where COM = 1/(1-β) - 1 is the mean age of a term."""
    return com / (1.0 + com)


def init(value: Float[Array, "*shape"]) -> Ewma:
    """Start from one term of weight 1."""
    return Ewma(value, jnp.ones((), value.dtype))


def update(average: Ewma, value: Float[Array, "*shape"], decay: Scalar) -> Ewma:
    """w' = 1 + β w;  x̄ ← x / w' + (β w / w') x̄."""
    kept = decay * average.weight
    weight = 1.0 + kept
    return Ewma(value / weight + (kept / weight) * average.value, weight)


def mean_age(average: Ewma, decay: Scalar) -> Float[Array, ""]:
    """Mean age Σ k βᵏ / Σ βᵏ of the terms in the average so far, in updates; COM in the limit.

    After t updates w = Σ_{k≤t} βᵏ, so βᵗ⁺¹ = 1 - w (1 - β) gives both sums from w alone (β < 1).
    """
    one_minus = jnp.maximum(1.0 - decay, 1e-12)
    tail = jnp.clip(1.0 - average.weight * one_minus, 0.0, 1.0)  # β^(t+1)
    count = jnp.where(tail > 0, jnp.log(jnp.maximum(tail, 1e-30)) / jnp.log(jnp.clip(decay, 1e-12, 1 - 1e-12)), 0.0)
    age = decay / one_minus - count * tail / jnp.maximum(1.0 - tail, 1e-12)
    return jnp.where(decay < 1e-9, 0.0, jnp.maximum(age, 0.0))
