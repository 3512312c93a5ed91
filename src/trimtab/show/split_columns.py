"""The columns of a table of splits, on a page and in a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trimtab.core.estimate import Estimate
from trimtab.core.quantities import GRADIENT_SQ, quantity
from trimtab.show.numbers import estimate, power_of

ERROR = ("variance", "individual", "covariance", "bias_sq")
TRAINED = ("fps", "auc")  # of seeds: one alone is still told
OUTCOME = ("mse_relative", "ess", *TRAINED)
ALL = (*ERROR, *OUTCOME)


def power(rows: list[dict[str, Any]]) -> int:
    """Gradients squared are tiny numbers: the power of ten in which a table shows them."""
    return power_of([Estimate.from_dict(row[name]).value for row in rows for name in ERROR])


def fps(row: dict[str, Any]) -> Estimate:
    """Steps per second: the interval of so few seeds may reach below 0, where no speed is."""
    speed = Estimate.from_dict(row["fps"])
    return replace(speed, lo=max(speed.lo, 0.0)) if speed.lo == speed.lo else speed


def cell(row: dict[str, Any], name: str, power: int) -> str:
    """A value over its interval, or what is known of it; a dash where nothing was trained."""
    measurement = fps(row) if name == "fps" else Estimate.from_dict(row[name])
    if name in TRAINED and not measurement.known:
        return "-"
    scaled = measurement.times(10.0**-power) if quantity(name).unit == GRADIENT_SQ else measurement
    return estimate(scaled, "one seed" if name in TRAINED else None)
