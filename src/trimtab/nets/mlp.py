"""Dense layers, per sample (the caller vmaps)."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}


class Dense(eqx.Module):
    """y = x W + b, W orthogonal times `gain`, b zero."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, gain: float):
        self.weight = jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs), jnp.float32)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Hidden dense layers, each followed by the nonlinearity."""

    layers: tuple[Dense, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, widths: Sequence[int], activation: str):
        sizes = [inputs, *widths]
        keys = jax.random.split(key, max(1, len(widths)))
        self.layers = tuple(Dense(k, a, b, 2**0.5) for k, a, b in zip(keys, sizes, sizes[1:]))
        self.activation = activation

    def __call__(self, x: Num[Array, "*shape"]) -> Float[Array, " features"]:
        x = x.reshape(-1)
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        return x
