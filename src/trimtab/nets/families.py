"""Network families, each with everything that other code asks about it. No JAX: `trimtab plan` asks too.

A family is an entry of `FAMILIES` and a module with `trunk(key, shape)` and `CPU_GROUP`, loaded when it is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

Image = tuple[int, int, int]  # height, width, channels
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # outputs, kernel, stride


class TrunkShape(NamedTuple):
    """What a trunk is built for."""

    obs_shape: tuple[int, ...]
    inputs: int  # numbers that a dense trunk sees
    hidden_sizes: tuple[int, ...]
    channels: tuple[int, ...]
    scale: float  # of bytes
    activation: str
    ortho_init: bool

    @property
    def image(self) -> Image:
        """The observation as height, width and channels, for networks that see images."""
        height, width, channels = self.obs_shape
        return height, width, channels


@dataclass(frozen=True)
class _Family:
    """One family of networks."""

    name: str
    """Its value of the option `network`."""
    summary: str
    """What it is, as half a sentence, for help texts."""
    widths: tuple[int, ...]
    """Default widths of its dense layers."""
    fields: tuple[str, ...]
    """The fields of `Config` that only it uses."""
    smallest: int | None
    """Pixels on a side that it needs; None for a family that does not see images."""
    convolutions: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, int]]
    """(numbers in what comes before the dense layers, features that leave it), from the observation and channels."""
    kernels: Callable[[dict[str, Any]], dict[str, Any]] = lambda weights: {}
    """What export changes of its weights, for programs that know only ordinary convolutions."""

    @property
    def sees_images(self) -> bool:
        return self.smallest is not None

    @property
    def module(self) -> Any:
        """The module that builds it; imports JAX."""
        return import_module(f"trimtab.nets.{self.name}")

    def fits(self, obs_shape: tuple[int, ...]) -> bool:
        """Whether it can take observations of this shape."""
        return self.smallest is None or (len(obs_shape) == 3 and min(obs_shape[:2]) >= self.smallest)

    @property
    def needed(self) -> str:
        """The images that it needs, for messages."""
        return f"images of {self.smallest} × {self.smallest} or more" if (self.smallest or 0) > 1 else "images"


def _dense(shape: tuple[int, ...], channels: tuple[int, ...]) -> tuple[int, int]:
    return 0, math.prod(shape)


def _nature(shape: tuple[int, ...], channels: tuple[int, ...]) -> tuple[int, int]:
    (height, width, inputs), total = shape, 0
    for outputs, size, stride in NATURE_LAYERS:
        total += (size * size * inputs + 1) * outputs
        height, width, inputs = (height - size) // stride + 1, (width - size) // stride + 1, outputs
    return total, height * width * inputs


def _impala(shape: tuple[int, ...], channels: tuple[int, ...]) -> tuple[int, int]:
    (height, width, inputs), total = shape, 0
    for outputs in channels:
        total += (9 * inputs + 1) * outputs + 4 * (9 * outputs + 1) * outputs
        height, width, inputs = -(-height // 2), -(-width // 2), outputs
    return total, height * width * inputs


def _nature_kernels(weights: dict[str, Any]) -> dict[str, Any]:
    """Convolutions as [row, column, input, output]; training keeps them in the order of its patches."""
    import numpy as np

    kernels: dict[str, Any] = {"strides": np.asarray([stride for _, _, stride in NATURE_LAYERS], np.int64)}
    for k, (outputs, size, stride) in enumerate(NATURE_LAYERS):
        cells = size // stride
        by_cell = weights[f"convolutions.{k}.weight"].reshape(cells, cells, stride, stride, -1, outputs)
        kernels[f"convolutions.{k}.weight"] = by_cell.transpose(0, 2, 1, 3, 4, 5).reshape(size, size, -1, outputs)
    return kernels


_ALL = (
    _Family("mlp", "dense layers", (64, 64), ("activation", "ortho_init"), None, _dense),
    # 36 pixels leave one cell after its convolutions.
    _Family("nature", "the convolutional network of Mnih et al. 2015", (512,), (), 36, _nature, _nature_kernels),
    _Family("impala", "the residual network of Espeholt et al. 2018", (256,), ("impala_channels",), 1, _impala),
)
FAMILIES = {family.name: family for family in _ALL}
AUTOMATIC = ("nature", "mlp")  # what `auto` takes: the first that fits
if TYPE_CHECKING:
    NetworkName = str
else:
    NetworkName = Literal[("auto", *FAMILIES)]


def choose_network(network: str, obs_shape: tuple[int, ...]) -> str:
    """The requested family; `auto` is the Nature network for height × width × channels that it can take, else dense."""
    if network != "auto":
        return network
    return next(name for name in AUTOMATIC if FAMILIES[name].fits(obs_shape))


def widths(network: str, hidden_sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Widths of the dense layers: as asked, else the family's own."""
    return FAMILIES[network].widths if hidden_sizes is None else hidden_sizes


def parameters(
    network: str,
    obs_shape: tuple[int, ...],
    outputs: int,
    hidden_sizes: tuple[int, ...] | None,
    impala_channels: tuple[int, ...] = (16, 32, 32),
    *,
    arch: str = "dual",
    critic: bool = True,
    auxiliary: bool = False,
    free: int = 0,
    seen: tuple[int | None, int | None] = (None, None),
) -> int:
    """Numbers in the networks of an agent; `free` are log deviations, `seen` what each network sees of a vector."""
    sizes = widths(network, hidden_sizes)

    def trunk(inputs: int | None) -> tuple[int, int]:
        """(numbers, features)"""
        total, flat = FAMILIES[network].convolutions(obs_shape, impala_channels)
        flat = inputs if inputs is not None else flat
        for width in sizes:
            total, flat = total + (flat + 1) * width, width
        return total, flat

    total, features = trunk(seen[0])
    total += (features + 1) * (outputs + auxiliary) + free
    if not critic:
        return total
    own, value_features = trunk(seen[1]) if arch == "dual" else (0, features)
    return total + own + value_features + 1
