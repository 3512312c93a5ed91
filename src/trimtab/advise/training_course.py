"""What the course of returns and losses shows: returns that swing from update to update, batches learned by heart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimtab.advise.evidence import Evidence
from trimtab.advise.finding import Finding
from trimtab.math import stats

BINS = 40  # parts of training whose mean returns are compared with their neighbours
FEWEST_BINS, FEWEST_EPISODES = 8, 8
WILD = 0.2  # swings of so much of the whole range of returns; the notes say "wild", the number is this project's
FEWEST_EVALUATIONS = 6
COLLAPSED = 0.5  # of its first third's size, when a loss has fallen that far


def check_course(records: Evidence) -> Iterator[Finding]:
    """Every rule about the course of a run."""
    yield _swings(records)
    if len(records.evaluations) >= FEWEST_EVALUATIONS:
        yield _overfitting(records)


def swings(returns: np.ndarray, bins: int) -> tuple[float, float]:
    """How far mean returns jump from one part of training to the next, as a share of their whole range, and how sure.

    Of the squared jumps (m_{k+1} − m_k)² what the spread of single episodes explains, s²/n of both parts, is taken
    away; the second number is what is left over its standard error.
    """
    parts = np.array_split(np.asarray(returns, float), bins)
    means = np.array([part.mean() for part in parts])
    noise = np.array([part.var(ddof=1) / len(part) for part in parts])
    excess = np.diff(means) ** 2 - (noise[1:] + noise[:-1])
    error = excess.std(ddof=1) / np.sqrt(len(excess))
    jump = np.sqrt(max(excess.mean(), 0.0) / 2)
    return float(jump / max(np.ptp(means), 1e-12)), float(excess.mean() / max(error, 1e-12))


def _swings(records: Evidence) -> Finding:
    bins = min(BINS, len(records.returns) // FEWEST_EPISODES, max(records.iterations, FEWEST_BINS))
    if bins < FEWEST_BINS:
        return Finding("swings", "unknown", "too few episodes finished to see whether returns swing")
    size, sure = swings(records.returns, bins)
    statement = f"from one {_ordinal(bins)} of the episodes to the next the return jumps by {size:.0%} of its range"
    if size < WILD or sure < 2:
        return Finding("swings", "fine", statement, source="notes", value=size)
    advice = "wild: take a larger batch, normalize advantages or returns, or give the critic more to do"
    return Finding("swings", "watch", statement, advice, {"num_envs": 2 * records.config.num_envs}, "notes", size)


def _ordinal(bins: int) -> str:
    return {2: "half", 3: "third", 4: "quarter"}.get(bins, f"{bins}th")


def _overfitting(records: Evidence) -> Finding:
    """The loss of training falls while evaluations stay where they are."""
    loss = records.metrics.get("train/value_loss", np.zeros(0))
    loss = loss[np.isfinite(loss)]
    half, third = len(records.evaluations) // 2, len(loss) // 3
    if third < FEWEST_BINS:
        return Finding("overfitting", "unknown", "too few iterations recorded a loss")
    rise = stats.difference(records.evaluations[:half], records.evaluations[half:])
    first, last = float(np.median(loss[:third])), float(np.median(loss[-third:]))
    statement = (
        f"value loss {first:.3g} in the first third, {last:.3g} in the last; evaluations changed by {rise.value:+.3g} "
        f"({rise.lo:+.3g} to {rise.hi:+.3g})"
    )
    numbers = dict(source="notes", value=rise.value, lo=rise.lo, hi=rise.hi)
    flat = rise.lo <= 0 and rise.value < 0.25 * np.ptp(records.evaluations)
    if not flat or last > COLLAPSED * first:
        return Finding("overfitting", "fine", statement, **numbers)
    several = records.config.update_epochs > 1
    change = {"update_epochs": 1} if several else {"num_envs": 2 * records.config.num_envs}
    advice = "batches are learned by heart: fewer epochs, a larger batch, or more entropy"
    return Finding("overfitting", "watch", statement, advice, change, **numbers)
