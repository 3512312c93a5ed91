"""Which network family an observation gets. No JAX: `trimtab plan` asks too."""

from __future__ import annotations

SMALLEST = 36  # pixels on a side that leave one cell after the Nature network's convolutions
SMALLEST_IMAGE = {"nature": f" of {SMALLEST} × {SMALLEST} or more", "impala": ""}
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
