"""A measured number with its interval. Light: no NumPy, no SciPy, no JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, repr=False)
class Estimate:
    """A value, the ends of its interval (95% unless said otherwise), and whether the data resolve it at all.

    `freedom` are the degrees of freedom of Student's t behind the interval, where it is one.
    """

    value: float
    lo: float
    hi: float
    resolved: bool = True
    freedom: float | None = None

    def __str__(self) -> str:
        if not (self.resolved or self._bounded):
            return "inconclusive"
        digits = next((d for d in range(2, 8) if _compact(self.lo, d) != _compact(self.hi, d)), 3)
        lo, hi = _compact(self.lo, digits), _compact(self.hi, digits)
        return f"{_compact(self.value, max(3, digits))} [{lo}, {hi}]"

    def __repr__(self) -> str:
        value = "" if self.resolved or self._bounded or not self.known else f"{_compact(self.value, 3)}, "
        return f"<Estimate {value}{self}>"

    @property
    def _bounded(self) -> bool:
        """Whether all three are finite numbers: an interval that is wide, or that touches 0, still says something."""
        return all(map(math.isfinite, (self.value, self.lo, self.hi)))

    @property
    def known(self) -> bool:
        """Whether there is a value at all, resolved or not."""
        return math.isfinite(self.value)

    def times(self, factor: float) -> Estimate:
        """In other units; factor > 0."""
        return replace(self, value=self.value * factor, lo=self.lo * factor, hi=self.hi * factor)

    def over(self, unit: float) -> Estimate:
        """In multiples of a unit > 0."""
        return replace(self, value=self.value / unit, lo=self.lo / unit, hi=self.hi / unit)

    def within(self, margin: float) -> Estimate:
        """margin − |x|: positive where x is smaller than the margin, with the interval that follows."""
        ends = abs(self.lo), abs(self.hi)
        nearest = 0.0 if self.lo <= 0 <= self.hi else min(ends)
        return replace(self, value=margin - abs(self.value), lo=margin - max(ends), hi=margin - nearest)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, where what is not a finite number is None."""
        ends = {name: getattr(self, name) for name in ("value", "lo", "hi")}
        numbers = {name: float(x) if math.isfinite(x) else None for name, x in ends.items()}
        return numbers | {"resolved": bool(self.resolved)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Estimate:
        """What `as_dict` wrote; None becomes NaN."""
        value, lo, hi = (math.nan if entry.get(name) is None else float(entry[name]) for name in ("value", "lo", "hi"))
        return cls(value, lo, hi, bool(entry.get("resolved", True)))


UNRESOLVED = Estimate(math.nan, math.nan, math.nan, resolved=False)


def unresolved(value: float) -> Estimate:
    """A value whose interval would mean nothing."""
    return Estimate(float(value), math.nan, math.nan, resolved=False)


def _compact(x: float, digits: int) -> str:
    """x with so many significant digits: 1.23e-4, 0.0123, 1230, 1.23e6."""
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    mantissa, exponent = f"{x:.{digits - 1}e}".split("e")
    if 1e-3 <= abs(x) < 1e5:
        plain = f"{float(f'{mantissa}e{exponent}'):.{max(0, digits - 1 - int(exponent))}f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return f"{mantissa}e{int(exponent)}"
