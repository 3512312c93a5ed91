"""The convolutional network of IMPALA (Espeholt et al. 2018, arXiv 1802.01561), per sample, images as HWC."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.nets.mlp import Dense


class Conv(eqx.Module):
    """3 × 3 convolution with zero padding."""

    weight: Float[Array, "3 3 inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, gain: float = 1.0):
        flat = jax.nn.initializers.orthogonal(gain)(key, (9 * inputs, outputs), jnp.float32)
        self.weight = flat.reshape(3, 3, inputs, outputs)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "H W inputs"]) -> Float[Array, "H W outputs"]:
        return convolve(x, self.weight) + self.bias[None, None]


def convolve(x: Float[Array, "H W inputs"], weight: Float[Array, "3 3 inputs outputs"]) -> Float[Array, "H W outputs"]:
    """The library's convolution where it is fast (accelerators); a product with the nine shifted images on CPU.

    XLA's CPU convolutions, and above all their gradients, run far below the machine's matrix-product speed.
    """
    if jax.default_backend() != "cpu":
        dimensions = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x[None], weight, (1, 1), "SAME", dimension_numbers=dimensions)[0]
    height, width, channels = x.shape
    padded = jnp.pad(x, ((1, 1), (1, 1), (0, 0)))
    shifts = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(shifts, axis=-1).reshape(height * width, 9 * channels)
    return (patches @ weight.reshape(9 * channels, -1)).reshape(height, width, -1)


def max_pool(x: Float[Array, "H W C"]) -> Float[Array, "h w C"]:
    """3 × 3 windows, stride 2, halving odd sizes upward as padding "SAME" does."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 3, 1), (2, 2, 1), "SAME")


class Stack(eqx.Module):
    """Convolution, pooling and two residual blocks."""

    entry: Conv
    residual: tuple[tuple[Conv, Conv], tuple[Conv, Conv]]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int):
        keys = jax.random.split(key, 5)
        self.entry = Conv(keys[0], inputs, outputs)
        self.residual = (
            (Conv(keys[1], outputs, outputs, 2**0.5), Conv(keys[2], outputs, outputs, 0.5)),
            (Conv(keys[3], outputs, outputs, 2**0.5), Conv(keys[4], outputs, outputs, 0.5)),
        )

    def __call__(self, x: Float[Array, "H W inputs"]) -> Float[Array, "h w outputs"]:
        x = max_pool(self.entry(x))
        for first, second in self.residual:
            x = x + second(jax.nn.relu(first(jax.nn.relu(x))))
        return x


class Impala(eqx.Module):
    """Stacks, then dense layers."""

    stacks: tuple[Stack, ...]
    layers: tuple[Dense, ...]
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        widths: Sequence[int],
        scale: float,
    ):
        height, width, inputs = shape
        key, *keys = jax.random.split(key, len(channels) + 1)
        stacks = []
        for k, outputs in zip(keys, channels):
            stacks.append(Stack(k, inputs, outputs))
            inputs, height, width = outputs, -(-height // 2), -(-width // 2)
        self.stacks = tuple(stacks)
        sizes = [height * width * inputs, *widths]
        keys = jax.random.split(key, max(1, len(widths)))
        self.layers = tuple(Dense(k, a, b, 2**0.5) for k, a, b in zip(keys, sizes, sizes[1:]))
        self.scale = scale

    def __call__(self, x: Num[Array, "H W C"]) -> Float[Array, " features"]:
        x = x.astype(jnp.float32) * self.scale
        for stack in self.stacks:
            x = stack(x)
        x = jax.nn.relu(x).reshape(-1)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x
