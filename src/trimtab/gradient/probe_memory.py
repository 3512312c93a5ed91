"""The memory a probe needs, from its sizes alone, so that what cannot fit is refused before anything is drawn."""

from __future__ import annotations

from trimtab.config import ConfigError
from trimtab.gradient.bootstrap import NUM_RESAMPLES
from trimtab.training.resource_estimates import format_bytes, host_memory

DOUBLE, SINGLE = 8, 4  # bytes
RESAMPLED = 7  # arrays [resamples, rows] that exist at once while an interval is found
BY_LAG = 6  # arrays [rows, T]


def needed(num_rows: int, num_steps: int, width: int, bias: bool) -> int:
    """Bytes at least: gradients summed by row (with a bias also paired differences, references, both centred too)."""
    vectors = (5 if bias else 1) * SINGLE * width
    products = (3 if bias else 1) * DOUBLE * num_rows if width >= num_rows else 0  # then inner products are kept
    return num_rows * (vectors + products + RESAMPLED * NUM_RESAMPLES * DOUBLE + BY_LAG * num_steps * DOUBLE)


def refuse_what_cannot_fit(
    replicates: int, num_envs: int, num_steps: int, width: int, bias: bool, available: int | None = None
) -> None:
    """Raise if so many replicates need more than `available` bytes (the host's, if not given)."""
    available = host_memory() if available is None else available
    size = lambda count: needed(count * num_envs, num_steps, width, bias)
    if available is None or size(replicates) <= available:
        return
    problem = (
        f"{replicates * num_envs:,} rows of {width:,} numbers need at least {format_bytes(size(replicates))} of memory "
        f"and {format_bytes(available)} are available"
    )
    fits, too_many = 1, replicates
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if size(middle) <= available else (fits, middle)
    if fits < 2:
        raise ConfigError(
            "num_envs", num_envs, f"2 replicates alone need {format_bytes(size(2))} of memory; nearest: fewer"
        )
    raise ConfigError("replicates", replicates, f"{problem}; nearest: {fits}")
