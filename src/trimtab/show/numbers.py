"""Numbers in tables, on pages and in terminals: short, with their intervals."""

from __future__ import annotations

import math

from trimtab.core.estimate import Estimate

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def raised(power: int) -> str:
    """10⁻⁶."""
    return f"10{str(power).translate(_RAISED)}"


def power_of(values: list[float]) -> int:
    """The power of ten that makes a column of numbers short; 0 when they are short already."""
    largest = max((abs(v) for v in values if v and math.isfinite(v)), default=1.0)
    return 0 if 1e-2 <= largest < 1e4 else math.floor(math.log10(largest))


def estimate(measurement: Estimate, alone: str | None = None) -> str:
    """A value over its interval, or "inconclusive" where that is unbounded.

    `alone` is said of a value without interval that still counts.
    """
    bounded = not (math.isnan(measurement.lo) or math.isnan(measurement.hi))
    interval = f"{number(measurement.lo, 2)} to {number(measurement.hi, 2)}" if bounded else ""
    whole = math.isfinite(measurement.lo) and math.isfinite(measurement.hi)
    if math.isnan(measurement.value) or (alone is None and not measurement.resolved and not whole):
        return f"inconclusive\n{interval}"
    return f"{number(measurement.value)}\n{interval or alone or ''}"


def as_float(value: object) -> float:
    """A number that came out of a polars column, whose type mypy does not know."""
    assert isinstance(value, int | float)
    return float(value)


def number(value: float, digits: int = 3) -> str:
    """So many digits: 1.23e−5, 0.0123, 12.3, 12,300."""
    if math.isnan(value):
        return "–"
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    value = float(f"{value:.{digits}g}") if abs(value) < 100 else value  # 9.996 is 10.0
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e6):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    digits = max(digits, 3) if size >= 100 else digits
    rounded = float(f"{value:.{digits}g}")
    places = 0 if size == 0 else max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{rounded:,.{places}f}".replace("-", "−")
