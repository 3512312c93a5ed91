"""Dense layers, per sample (the caller vmaps)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.nets.families import TrunkShape

ACTIVATIONS = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
}

# Up to this many inputs or outputs a product is written out.
_FEW_INPUTS, _FEW_OUTPUTS = 4, 8


@jax.custom_jvp
def product(x: Float[Array, " inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, " outputs"]:
    """x W, thin matrices written out: a call of a library's matrix product costs more than these do.

    A few inputs become scaled rows, which fuse with what follows. A few outputs become one matrix-vector product each,
    and so do their gradients.
    """
    inputs, outputs = weight.shape
    if inputs <= _FEW_INPUTS:
        return sum(x[i] * weight[i] for i in range(inputs))  # type: ignore[return-value]  # sum() starts at 0
    return _columns(x, weight) if outputs <= _FEW_OUTPUTS else x @ weight


@product.defjvp
def _product_jvp(primals, tangents):
    """Sums of scaled rows have slow gradients; the derivative of the product is made of products."""
    (x, weight), (dx, dweight) = primals, tangents
    times = _columns if weight.shape[1] <= _FEW_OUTPUTS else jnp.matmul
    return product(x, weight), times(dx, weight) + times(x, dweight)


def _columns(x: Float[Array, " inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, " outputs"]:
    return jnp.stack([x @ weight[:, k] for k in range(weight.shape[1])])


class Dense(eqx.Module):
    """y = x W + b; W orthogonal times `gain` and b zero, or without a gain both uniform within ±1/√inputs."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, gain: float | None):
        if gain is None:
            weight_key, bias_key = jax.random.split(key)
            bound = inputs**-0.5
            self.weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound)
            self.bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        else:
            self.weight = jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs), jnp.float32)
            self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return product(x, self.weight) + self.bias


class MLP(eqx.Module):
    """Hidden dense layers, each followed by the nonlinearity."""

    takes_batches: ClassVar[bool] = False
    layers: tuple[Dense, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, widths: Sequence[int], activation: str, ortho_init: bool = True):
        sizes = [inputs, *widths]
        keys = jax.random.split(key, max(1, len(widths)))
        gain = 2**0.5 if ortho_init else None
        self.layers = tuple(Dense(k, a, b, gain) for k, a, b in zip(keys, sizes, sizes[1:]))
        self.activation = activation

    def __call__(self, x: Num[Array, "*shape"]) -> Float[Array, " features"]:
        x = x.reshape(-1)
        for layer in self.layers:
            x = ACTIVATIONS[self.activation](layer(x))
        return x


CPU_GROUP = 0  # samples are not taken in groups


def trunk(key: PRNGKeyArray, shape: TrunkShape) -> MLP:
    """The dense layers before the heads."""
    return MLP(key, shape.inputs, shape.hidden_sizes, shape.activation, shape.ortho_init)
