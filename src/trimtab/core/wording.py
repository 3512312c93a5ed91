"""How names, values and horizons are written wherever a person reads them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any


def nearest(name: object, candidates: Iterable[str], count: int = 3, cutoff: float = 0.5) -> list[str]:
    """The candidates most like `name`, upper and lower case alike, best first; a lower cutoff offers less like ones."""
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    return [by_lower[match] for match in difflib.get_close_matches(str(name).lower(), by_lower, count, cutoff)]


def plain(value: Any) -> str:
    """A value as it is typed on the command line: none, true, 0.2, 64 64."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(map(plain, value)) if isinstance(value, tuple | list) else str(value)


def as_sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""


def horizon(discount: float) -> float:
    """1/(1-γ): over how many steps a discount looks ahead; infinite at 1."""
    return math.inf if discount >= 1 else 1 / (1 - discount)


def steps(count: float | None) -> str:
    """A number of steps in three digits, or as many as it has; none and infinity are ∞."""
    if count is None or not math.isfinite(count):
        return "∞"
    return f"{count:,.0f}" if count >= 1000 else f"{count:.3g}"


def split_name(num_envs: int, num_steps: int) -> str:
    """N × T as it is typed: 4x256."""
    return f"{num_envs}x{num_steps}"


def split_text(num_envs: int, num_steps: int) -> str:
    """N × T as people read it."""
    return f"{num_envs} × {num_steps}"


def duration(seconds: float) -> str:
    """A time as people say it: 8 s, 12 min, 3.4 h, 12 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and unit != "days"):
            count = seconds / size
            return f"{count:,.1f} {unit}" if count < 10 and unit != "min" else f"{count:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 or seconds == 0 else "under 1 s"
