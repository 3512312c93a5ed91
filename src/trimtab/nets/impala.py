"""The convolutional network of IMPALA (Espeholt et al. 2018, arXiv 1802.01561), on batches of images as NHWC.

Accelerators get the library's operations. On CPU the same mathematics is arranged for XLA, whose plain convolution and
pooling gradients run about thirty times slower inside a compiled loop (and all training is inside one): see
`_convolve`, `_pool` and `_convolve_and_pool`. Measured by `python -m benchmarks.impala`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.nets.families import TrunkShape
from trimtab.nets.mlp import Dense

# Images at a time. On CPU so few that their activations (1.5 MB each) stay in the caches: this wins more than computing
# them again for the gradient costs. Elsewhere 3 GB of them: the minibatch of one of the paper's workers.
CPU_GROUP, GROUP = 16, 2048


class _Conv(eqx.Module):
    """3 × 3 convolution with zero padding."""

    weight: Float[Array, "3 3 inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, gain: float = 1.0):
        flat = jax.nn.initializers.orthogonal(gain)(key, (9 * inputs, outputs), jnp.float32)
        self.weight = flat.reshape(3, 3, inputs, outputs)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "B H W inputs"]) -> Float[Array, "B H W outputs"]:
        return convolve(x, self.weight) + self.bias[None, None, None]


# Convolution -----------------------------------------------------------------------------------------------


def convolve(
    x: Float[Array, "B H W inputs"], weight: Float[Array, "3 3 inputs outputs"]
) -> Float[Array, "B H W outputs"]:
    """3 × 3, stride 1, zero padding."""
    return _convolve(x, weight) if _on_cpu() else _library_convolution(x, weight)


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _library_convolution(x: Array, weight: Array) -> Array:
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (1, 1), ((1, 1), (1, 1)), dimension_numbers=dimensions)


@jax.custom_vjp
def _convolve(x: Array, weight: Array) -> Array:
    """The library's convolution with both gradients written as NHWC × HWIO convolutions too.

    Measured: the gradients that JAX derives, in other layouts, are fast outside a compiled loop and about thirty times
    slower within one (presumably XLA's CPU backend only rearranges convolutions outside loops); these are fast in both.
    """
    return _library_convolution(x, weight)


def _convolve_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _library_convolution(x, weight), (x, weight)


def _convolve_backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = residuals
    to_x = _library_convolution(gradient, weight[::-1, ::-1].swapaxes(2, 3))
    if x.shape[0] == 1:  # one sample, as in vmap(grad), where a convolution would become a grouped one
        return to_x, _weight_gradient_by_product(x, gradient)
    # Channels as the batch, samples as the channels, the gradient as the kernel: [inputs, 3, 3, outputs].
    to_weight = _library_convolution(x.transpose(3, 1, 2, 0), gradient.transpose(1, 2, 0, 3))
    return to_x, to_weight.transpose(1, 2, 0, 3)


_convolve.defvjp(_convolve_forward, _convolve_backward)


def _weight_gradient_by_product(x: Array, gradient: Array) -> Array:
    """One product of the horizontally shifted inputs with the vertically shifted gradients."""
    _, height, width, inputs = x.shape
    outputs = gradient.shape[-1]
    wide = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    tall = jnp.pad(gradient, ((0, 0), (1, 1), (0, 0), (0, 0)))
    x3 = jnp.concatenate([wide[:, :, j : j + width] for j in range(3)], axis=-1).reshape(-1, 3 * inputs)
    g3 = jnp.concatenate([tall[:, 2 - i : 2 - i + height] for i in range(3)], axis=-1).reshape(-1, 3 * outputs)
    return (x3.T @ g3).reshape(3, inputs, 3, outputs).transpose(2, 0, 1, 3)


# Pooling ---------------------------------------------------------------------------------------------------


def max_pool(x: Float[Array, "B H W C"]) -> Float[Array, "B h w C"]:
    """3 × 3 windows, stride 2, halving odd sizes upward as padding "SAME" does."""
    return _apart(_pool)(x) if _on_cpu() else _library_pool(x)


def _library_pool(x: Array) -> Array:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@jax.custom_jvp
def _larger(a: Array, b: Array) -> Array:
    """The larger one; gradients go to the first of equals, as in the library's pooling (images have flat regions)."""
    return jnp.maximum(a, b)


@_larger.defjvp
def _larger_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    return jnp.maximum(a, b), jnp.where(a >= b, da, db)


def _pool(x: Array) -> Array:
    """Columns, then rows, by slices: the scatter behind the library's gradient takes five times as long on CPU."""
    _, height, width, _ = x.shape
    pad = ((0, 0), (height % 2, 1), (width % 2, 1), (0, 0))
    x = jnp.pad(x, pad, constant_values=-jnp.inf)
    h, w = -(-height // 2), -(-width // 2)
    x = _larger(_larger(x[:, :, 0 : 2 * w - 1 : 2], x[:, :, 1 : 2 * w : 2]), x[:, :, 2 : 2 * w + 1 : 2])
    return _larger(_larger(x[:, 0 : 2 * h - 1 : 2], x[:, 1 : 2 * h : 2]), x[:, 2 : 2 * h + 1 : 2])


def _apart(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function`, computed once: its value and its gradient are kept from being fused into what uses them.

    XLA's CPU backend repeats elementwise work in every consumer, here in the middle of transpositions, and drops
    optimization barriers before it does. A conditional it must keep: the predicate holds for every finite image.
    """

    def when_finite(x: Array, compute: Callable[..., Array], *arguments: Array) -> Array:
        shape = jax.eval_shape(compute, *arguments).shape
        return jax.lax.cond(jnp.ravel(x)[0] < jnp.inf, compute, lambda *_: jnp.full(shape, jnp.nan), *arguments)

    @jax.custom_vjp
    def once(x):
        return when_finite(x, function, x)

    def backward(x, gradient):
        def pull_back(x: Array, g: Array) -> Array:
            return jax.vjp(function, x)[1](g)[0]

        return (when_finite(x, pull_back, x, gradient),)

    once.defvjp(lambda x: (once(x), x), backward)
    return once


# The first convolution -------------------------------------------------------------------------------------

_TAPS = np.array(
    [[t - a + 1 for a in range(2)] for t in range(4)]
).ravel()  # of a kernel padded by 1, [4 inputs, 2 outputs]


def _convolve_and_pool(x: Array, weight: Array) -> Array:
    """`max_pool(convolve(x))` for images with few channels and even sizes, where convolutions are slow on CPU.

    A 4 × 4 patch of the padded image holds all that a 2 × 2 block of outputs needs, so the convolution is one product
    of the patches at stride 2 with a kernel of [16 inputs, 4 outputs], and pooling is a maximum over whole blocks.
    """
    batch, height, width, inputs = x.shape
    outputs = weight.shape[-1]
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifts = [padded[:, t : t + height - 1 : 2, u : u + width - 1 : 2] for t in range(4) for u in range(4)]
    patches = jnp.concatenate(shifts, axis=-1).reshape(-1, 16 * inputs)
    kernel = jnp.pad(weight, ((1, 1), (1, 1), (0, 0), (0, 0)))[_TAPS][:, _TAPS].reshape(4, 2, 4, 2, inputs, outputs)
    kernel = kernel.transpose(0, 2, 4, 1, 3, 5).reshape(16 * inputs, 4 * outputs)
    return _apart(_pool_blocks)((patches @ kernel).reshape(batch, height // 2, width // 2, 4 * outputs))


def _pool_blocks(x: Array) -> Array:
    """`_pool` of an image given as 2 × 2 blocks of pixels, the four side by side as channels."""
    corner, right, below, across = jnp.split(x, 4, axis=-1)
    next_column = lambda y: jnp.pad(y[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=-jnp.inf)
    next_row = lambda y: jnp.pad(y[:, 1:], ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=-jnp.inf)
    top = _larger(_larger(corner, right), next_column(corner))
    bottom = _larger(_larger(below, across), next_column(below))
    return _larger(_larger(top, bottom), next_row(top))


# The network -----------------------------------------------------------------------------------------------


class _Stack(eqx.Module):
    """Convolution, pooling and two residual blocks."""

    entry: _Conv
    residual: tuple[tuple[_Conv, _Conv], tuple[_Conv, _Conv]]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int):
        keys = jax.random.split(key, 5)
        self.entry = _Conv(keys[0], inputs, outputs)
        self.residual = (
            (_Conv(keys[1], outputs, outputs, 2**0.5), _Conv(keys[2], outputs, outputs, 0.5)),
            (_Conv(keys[3], outputs, outputs, 2**0.5), _Conv(keys[4], outputs, outputs, 0.5)),
        )

    def __call__(self, x: Float[Array, "B H W inputs"]) -> Float[Array, "B h w outputs"]:
        _, height, width, inputs = x.shape
        if _on_cpu() and inputs <= 4 and height % 2 == width % 2 == 0:
            x = _convolve_and_pool(x, self.entry.weight) + self.entry.bias[None, None, None]
        else:
            x = max_pool(self.entry(x))
        for first, second in self.residual:
            x = x + second(jax.nn.relu(first(jax.nn.relu(x))))
        return x


class Impala(eqx.Module):
    """Stacks, then dense layers; a batch at a time, because gradients of weights are fastest over a whole batch."""

    takes_batches: ClassVar[bool] = True
    stacks: tuple[_Stack, ...]
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
        last_key, *stack_keys = jax.random.split(key, len(channels) + 1)
        stacks = []
        for k, outputs in zip(stack_keys, channels):
            stacks.append(_Stack(k, inputs, outputs))
            inputs, height, width = outputs, -(-height // 2), -(-width // 2)
        self.stacks = tuple(stacks)
        sizes = [height * width * inputs, *widths]
        keys = jax.random.split(last_key, max(1, len(widths)))
        self.layers = tuple(Dense(k, a, b, 2**0.5) for k, a, b in zip(keys, sizes, sizes[1:]))
        self.scale = scale

    def __call__(self, x: Num[Array, "B H W C"]) -> Float[Array, "B features"]:
        """Features of each image, group by group, and again for the gradient, which bounds the memory it takes."""
        count = x.shape[0]
        groups = -(-count // (CPU_GROUP if _on_cpu() else GROUP))
        if groups <= 1:
            return self._features(x)
        size = -(-count // groups)
        x = jnp.pad(x, ((0, groups * size - count), (0, 0), (0, 0), (0, 0)))
        features = jax.lax.map(
            jax.checkpoint(lambda group: self._features(group)), x.reshape(groups, size, *x.shape[1:])
        )
        return features.reshape(groups * size, -1)[:count]

    def _features(self, x: Num[Array, "B H W C"]) -> Float[Array, "B features"]:
        x = x.astype(jnp.float32) * self.scale
        for stack in self.stacks:
            x = stack(x)
        x = jax.nn.relu(x).reshape(x.shape[0], -1)
        for layer in self.layers:
            x = jax.nn.relu(jax.vmap(layer)(x))
        return x


def trunk(key: PRNGKeyArray, shape: TrunkShape) -> Impala:
    """The convolutions and dense layers before the heads."""
    return Impala(key, shape.image, shape.channels, shape.hidden_sizes, shape.scale)
