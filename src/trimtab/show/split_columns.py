"""The columns of a table of splits, on a page and in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.core.estimate import Estimate
from trimtab.core.quantities import GRADIENT_SQ, quantity
from trimtab.show.numbers import estimate, power_of
from trimtab.show.probe_tables import PHASES
from trimtab.studies.split_result import SplitResult, SplitRow

ERROR = ("variance", "individual", "covariance", "between_rows", "bias_sq")
_TRAINED = ("fps", "auc")  # over seeds: a single seed is shown too
OUTCOME = ("mse_relative", "ess", *_TRAINED)
ALL = (*ERROR, *OUTCOME)


def power(rows: Sequence[SplitRow]) -> int:
    """Gradients squared are tiny numbers: the power of ten in which a table shows them."""
    return power_of([getattr(row, name).value for row in rows for name in ERROR])


def starts(result: SplitResult) -> str:
    """Where the measured rows start, in a sentence."""
    if result.start != "training":
        return f"Rows start {result.start}, so what environments share is not measured. "
    kinds = dict.fromkeys(PHASES[row.phases] for row in result.rows if row.phases)
    return f"Whole iterations in the phases of training ({' or '.join(kinds)}). " if kinds else ""


def fps(row: SplitRow) -> Estimate:
    """Steps per second: the interval of so few seeds may reach below 0, which no speed does."""
    return replace(row.fps, lo=max(row.fps.lo, 0.0)) if row.fps.lo == row.fps.lo else row.fps


def cell(row: SplitRow, name: str, power: int) -> str:
    """A value over its interval, or what is known of it; a dash where nothing was trained."""
    measurement: Estimate = fps(row) if name == "fps" else getattr(row, name)
    if name in _TRAINED and not measurement.known:
        return "-"
    scaled = measurement.times(10.0**-power) if quantity(name).unit == GRADIENT_SQ else measurement
    return estimate(scaled, "one seed" if name in _TRAINED else None)
