"""Which network family an observation gets. No JAX: `trimtab plan` asks too."""

from __future__ import annotations

import math

SMALLEST = 36  # pixels on a side that leave one cell after the Nature network's convolutions
SMALLEST_IMAGE = {"nature": f" of {SMALLEST} × {SMALLEST} or more", "impala": ""}
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # outputs, kernel, stride
WIDTHS = {"mlp": (64, 64), "nature": (512,), "impala": (256,)}


def fits(network: str, obs_shape: tuple[int, ...]) -> bool:
    """Whether an image network can take observations of this shape."""
    smallest = SMALLEST if network == "nature" else 1
    return len(obs_shape) == 3 and min(obs_shape[:2]) >= smallest


def choose_network(network: str, obs_shape: tuple[int, ...]) -> str:
    """The family asked for; `auto` is the Nature network for height × width × channels that it can take, else dense."""
    if network != "auto":
        return network
    return "nature" if fits("nature", obs_shape) else "mlp"


def widths(network: str, hidden_sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Widths of the dense layers: as asked, else the family's own."""
    return WIDTHS[network] if hidden_sizes is None else hidden_sizes


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
        total, flat = _convolutions(network, obs_shape, impala_channels)
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


def _convolutions(network: str, shape: tuple[int, ...], channels: tuple[int, ...]) -> tuple[int, int]:
    """(numbers in the convolutions, features that leave them)."""
    if network == "mlp":
        return 0, math.prod(shape)
    height, width, inputs = shape
    total = 0
    if network == "nature":
        for outputs, size, stride in NATURE_LAYERS:
            total += (size * size * inputs + 1) * outputs
            height, width, inputs = (height - size) // stride + 1, (width - size) // stride + 1, outputs
    else:
        for outputs in channels:
            total += (9 * inputs + 1) * outputs + 4 * (9 * outputs + 1) * outputs
            height, width, inputs = -(-height // 2), -(-width // 2), outputs
    return total, height * width * inputs
