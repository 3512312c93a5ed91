"""The convolutional network of Mnih et al. 2015 (Nature 518:529), on batches of images as NHWC.

Every convolution is a matrix product: kernels are m strides wide, so an image cut into stride × stride cells needs
m × m shifts and no other gather, and its gradients are products too. XLA's CPU convolutions are slow inside compiled
loops (see `impala`), where all training is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.nets.families import NATURE_LAYERS, TrunkShape
from trimtab.nets.mlp import Dense

GROUP = 1024  # images at a time: 0.7 GB of patches for those of Atari
CPU_GROUP = 32  # of a gradient: so few stay in the caches


def _convolve(
    x: Float[Array, "B H W inputs"], weight: Float[Array, "patch outputs"], kernel: int, stride: int
) -> Float[Array, "B h w outputs"]:
    """No padding; the kernel is a whole number m of strides wide, its weights in the order of a patch.

    That order is the cell, then the pixel in the cell, then the channel. Rearranging the weights here instead would
    have XLA rearrange the patches, which are far larger.
    """
    m = kernel // stride
    batch, height, width = x.shape[0], (x.shape[1] - kernel) // stride + 1, (x.shape[2] - kernel) // stride + 1
    cells = _cells(x[:, : (height + m - 1) * stride, : (width + m - 1) * stride], stride)
    places = [(i, j) for i in range(m) for j in range(m)]
    if weight.shape[1] < cells.shape[-1]:  # shifts of outputs are smaller than shifts of inputs
        by_place = weight.reshape(m * m, cells.shape[-1], -1).transpose(1, 0, 2)
        products = jnp.tensordot(cells, by_place, 1)
        shifted = [products[:, i : i + height, j : j + width, k] for k, (i, j) in enumerate(places)]
        return sum(shifted)  # type: ignore[return-value]  # sum() starts at 0
    shifts = [cells[:, i : i + height, j : j + width] for i, j in places]
    patches = jnp.concatenate(shifts, axis=-1).reshape(batch * height * width, -1)
    return (patches @ weight).reshape(batch, height, width, -1)


def _cells(x: Float[Array, "B H W C"], size: int) -> Float[Array, "B h w cell"]:
    """Cells of size × size pixels, each as one vector."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // size, size, width // size, size, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // size, width // size, -1)


class _Conv(eqx.Module):
    """Convolution without padding, orthogonal times √2."""

    weight: Float[Array, "patch outputs"]
    bias: Float[Array, " outputs"]
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, size: int, stride: int):
        self.weight = jax.nn.initializers.orthogonal(2**0.5)(key, (size * size * inputs, outputs), jnp.float32)
        self.bias = jnp.zeros(outputs)
        self.size, self.stride = size, stride

    @property
    def kernel(self) -> Float[Array, "k k inputs outputs"]:
        """The weights as other libraries write them: row, column, input, output."""
        cells, outputs = self.size // self.stride, self.weight.shape[1]
        by_cell = self.weight.reshape(cells, cells, self.stride, self.stride, -1, outputs)
        return by_cell.transpose(0, 2, 1, 3, 4, 5).reshape(self.size, self.size, -1, outputs)

    def __call__(self, x: Float[Array, "B H W inputs"]) -> Float[Array, "B h w outputs"]:
        return _convolve(x, self.weight, self.size, self.stride) + self.bias[None, None, None]


class Nature(eqx.Module):
    """Three convolutions and dense layers, each followed by a relu; a batch at a time."""

    takes_batches: ClassVar[bool] = True
    convolutions: tuple[_Conv, ...]
    layers: tuple[Dense, ...]
    scale: float = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, shape: tuple[int, int, int], widths: Sequence[int], scale: float):
        height, width, inputs = shape
        last_key, *conv_keys = jax.random.split(key, len(NATURE_LAYERS) + 1)
        convolutions = []
        for k, (outputs, kernel, stride) in zip(conv_keys, NATURE_LAYERS):
            convolutions.append(_Conv(k, inputs, outputs, kernel, stride))
            height, width, inputs = (height - kernel) // stride + 1, (width - kernel) // stride + 1, outputs
        self.convolutions = tuple(convolutions)
        sizes = [height * width * inputs, *widths]
        keys = jax.random.split(last_key, max(1, len(widths)))
        self.layers = tuple(Dense(k, a, b, 2**0.5) for k, a, b in zip(keys, sizes, sizes[1:]))
        self.scale = scale

    def __call__(self, x: Num[Array, "B H W C"]) -> Float[Array, "B features"]:
        """Features of each image; many go group by group, and again for the gradient, which bounds the memory."""
        count = x.shape[0]
        if count <= GROUP:
            return self._features(x)
        groups = -(-count // GROUP)
        size = -(-count // groups)
        x = jnp.pad(x, ((0, groups * size - count), (0, 0), (0, 0), (0, 0)))
        each = jax.checkpoint(lambda group: self._features(group))
        return jax.lax.map(each, x.reshape(groups, size, *x.shape[1:])).reshape(groups * size, -1)[:count]

    def _features(self, x: Num[Array, "B H W C"]) -> Float[Array, "B features"]:
        x = x.astype(jnp.float32) * self.scale
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        x = x.reshape(x.shape[0], -1)
        for layer in self.layers:
            x = jax.nn.relu(jax.vmap(layer)(x))
        return x


def trunk(key: PRNGKeyArray, shape: TrunkShape) -> Nature:
    """The convolutions and dense layers before the heads."""
    return Nature(key, shape.image, shape.hidden_sizes, shape.scale)
