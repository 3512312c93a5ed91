"""Which checkpoint of a run to measure when none is named."""

from __future__ import annotations

from typing import NamedTuple

from trimtab.core.errors import RunError
from trimtab.math import stats
from trimtab.training.run import Run

FEWEST = 4  # episodes on either side of a comparison


class Chosen(NamedTuple):
    """A checkpoint, and a sentence that says why this one."""

    step: int
    reason: str


def choose(run: Run) -> Chosen:
    """The last checkpoint after which the return still changed (the very last if it did so to the end).

    Later there may be nothing left to measure. Changed: the episodes of all later training differ in mean return from
    those since the checkpoint before, by three standard errors.
    """
    steps = [checkpoint.step for checkpoint in run.checkpoints]
    if not steps:
        raise RunError(f"{run.path} has no checkpoint")
    episodes = run.episodes
    at, returns = episodes["step"].to_numpy(), episodes["return"].to_numpy()
    ends = [step for step in steps if step > 0]
    cuts = [0, ends[0] // 2, *ends] if ends else []  # nothing is saved within the first stretch: its halves
    for begin, middle, end in reversed(list(zip(cuts, cuts[1:], cuts[2:]))):
        before, after = returns[(at > begin) & (at <= middle)], returns[at > middle]
        change = stats.difference(before, after) if min(len(before), len(after)) >= FEWEST else None
        if change is None or change.lo <= 0 <= change.hi:
            continue
        moved = f"by {change.value:+.3g}, {change.lo:+.3g} to {change.hi:+.3g}"
        if end == steps[-1]:
            return Chosen(
                end, f"measured at step {end:,}: the last checkpoint; the return was still changing ({moved})"
            )
        step = middle if middle in ends else end
        return Chosen(step, f"measured at step {step:,}: the last checkpoint after which the return changed ({moved})")
    return Chosen(
        steps[-1], f"measured at step {steps[-1]:,}: the last checkpoint; the return never measurably changed"
    )
