"""The disk a run takes, and how many checkpoints it keeps unless told otherwise. From numbers alone. No JAX."""

from __future__ import annotations

from trimtab.config import Config

FLOAT = 4  # bytes of a float32
USUAL = 20  # checkpoints over a run where they are small
MOST_BYTES = 512_000_000  # of all checkpoints of a run that was not told how many to keep
FEWEST = 2  # however large they are: a run that is killed half-way goes on from somewhere
ROW = 1_000  # bytes an iteration adds to metrics.jsonl, about


def checkpoint_bytes(config: Config, count: int) -> int:
    """A checkpoint of a run with `count` parameters: they, the optimizer's moments, the EWMA; the rest is small."""
    moments = config.descent.vectors
    copies = 1 + moments + (1 if config.is_ewma else 0) + (moments if config.is_ppg else 0)
    return FLOAT * count * copies


def usual_checkpoints(size: int) -> int:
    """Checkpoints over a run, besides the one at its start: 20, or fewer so that all stay within 512 MB."""
    return max(FEWEST, min(USUAL, MOST_BYTES // max(size, 1) - 1))


def checkpoint_iterations(iterations: int, count: int) -> list[int]:
    """The iterations after which a run of so many leaves its `count` checkpoints, spread evenly; its last is one."""
    count = max(1, min(count, iterations))
    return sorted({round(k * iterations / count) for k in range(1, count + 1)})


def run_bytes(config: Config, size: int, checkpoints: int) -> int:
    """All of a run: its checkpoints with the one at the start, and a line of metrics for each iteration."""
    return (checkpoints + 1) * size + config.iterations * ROW
