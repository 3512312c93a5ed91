"""Why one split learns less than another: what differs between their gradients, in words.

All splits of a batch make as many updates of as many samples. What can differ is the noise within rows (single samples
and their correlation along a row), the noise between rows (what environments share), and the bias of short rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.core.estimate import Estimate
from trimtab.studies.split_result import SplitRow

_CLOSE = 1.25  # factor below which two estimates count as equal


def explanations(rows: Sequence[SplitRow], less: Sequence[str], horizon: float, staggered: bool) -> tuple[str, ...]:
    """What differs between each split that learned less and the one that learned most.

    Args:
        rows: all splits.
        less: those that learned significantly less.
        horizon: 1/(1 − γλ), how far advantages look ahead.
        staggered: whether the first resets were spread.

    Returns:
        One text for the split that learned least, and for each in `less`.
    """
    trained = [row for row in rows if row.areas]
    if len(trained) < 2:
        return ()
    best, least = max(trained, key=_area), min(trained, key=_area)
    chosen = [row for row in trained if row is not best and (row is least or row.name in less)]
    return tuple(_explanation(row, best, horizon, staggered) for row in chosen)


def _explanation(row: SplitRow, best: SplitRow, horizon: float, staggered: bool) -> str:
    parts = [part for part in (_within(row, best), _between(row), _bias(row, best, horizon)) if part]
    text = f"Compared with {best.name}, which learned most, the gradient of {row.name} differs: {'; '.join(parts)}. "
    text += "Both make as many updates of as many samples."
    if _significant(row.between_rows) and not staggered:
        text += " Staggered resets (--stagger-resets true) remove the noise between rows."
    if row.mse.resolved and best.mse.resolved and row.mse.value < best.mse.value:
        text += (
            f" {row.name} has the smaller error and learned less all the same: errors are measured for one update of "
            "one run's policies, and successive iterations at the same phases repeat their error."
        )
    return text


def _within(row: SplitRow, best: SplitRow) -> str:
    """The noise of single samples and of their correlation along rows, relative to the other split's."""
    mine, other = (r.individual.value + r.covariance.value for r in (row, best))
    if not (math.isfinite(mine) and mine > 0 and other > 0):
        return ""
    return f"its noise within rows is {_times(mine / other)}"


def _between(row: SplitRow) -> str:
    """The share of the variance that comes from what environments share."""
    between, variance = row.between_rows, row.variance
    if not between.known or not variance.known or variance.value <= 0:
        return "its noise between rows was not measured"
    share = between.value / variance.value
    if _significant(between):
        return f"{share:.0%} of its variance is between rows, because environments are at the same phase of episodes"
    return f"its noise between rows is not significant ({share:.0%} of the variance)"


def _bias(row: SplitRow, best: SplitRow, horizon: float) -> str:
    """The squared bias relative to the other split's, and T beside the horizon of advantages."""
    where = f"T = {row.num_steps} against a horizon 1/(1−γλ) of {horizon:.3g} steps"
    if not (row.bias_sq.resolved and best.bias_sq.resolved and best.bias_sq.value > 0):
        return f"its bias² is inconclusive ({where})"
    return f"its bias² is {_times(row.bias_sq.value / best.bias_sq.value)} ({where})"


def _times(ratio: float) -> str:
    return "about the same" if 1 / _CLOSE < ratio < _CLOSE else f"{ratio:.2g} times as large"


def _significant(part: Estimate) -> bool:
    return part.resolved and part.lo > 0


def _area(row: SplitRow) -> float:
    return sum(row.areas) / len(row.areas)
