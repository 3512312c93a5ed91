"""The values the notes sweep, and the next one up or down."""

from __future__ import annotations

LEARNING_RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
EPOCHS = (1, 2, 4)
CLIP_NORMS = (0.5, 1.0, 2.0)
GAMMAS = (0.95, 0.98, 0.99, 0.995, 0.999)
ENTROPY = {"discrete": 0.01, "continuous": 0.001}
ENTROPY_FACTORS = (0.3, 1.0, 3.0)
ENTROPY_ANNEALED = (0.0, 0.5, 0.8)  # the last shares of training over which the bonus falls to 0
VALUE_RATE_FACTORS = (1.0, 2.0)  # of the policy's step size
EQUAL = 1e-6  # relative difference below which two values are the same rung


def below(value: float, ladder: tuple[float, ...]) -> float:
    """The next lower rung; under the lowest, a third of the value."""
    return max((rung for rung in ladder if rung < value * (1 - EQUAL)), default=_short(value / 3))


def above(value: float, ladder: tuple[float, ...]) -> float:
    """The next higher rung; over the highest, three times the value."""
    return min((rung for rung in ladder if rung > value * (1 + EQUAL)), default=_short(value * 3))


def around(value: float, ladder: tuple[float, ...]) -> tuple[float, ...]:
    """The value with the rungs next to it, where there are any."""
    return tuple(v for v in (below(value, ladder), value, above(value, ladder)) if v == value or v in ladder)


def _short(value: float) -> float:
    return float(f"{value:.2g}")
