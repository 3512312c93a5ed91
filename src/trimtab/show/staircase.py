"""Learning curves that climb in steps: which ones do, and why."""

from __future__ import annotations

import polars as pl

from trimtab.show.numbers import as_float

FLAT = 1 / 3  # share of a curve's points that repeat the one before, from which it is a staircase


def _steps_of(curve: pl.DataFrame) -> int | None:
    """Environment steps from one change of a curve (step, return, one seed) to the next; None if it is no staircase."""
    curve = curve.sort("step")
    if "measure" in curve.columns:
        return None  # evaluated, or credited to the steps in which returns were earned: neither waits for an end
    if "ended" in curve.columns:
        return _by_ends(curve)
    changes = curve.filter(pl.col("return").diff() != 0)
    if curve.height < 8 or (changes.is_empty() and curve["step"][0] < 2 * _gap(curve)):
        return None
    if changes.height < 2:  # too short a run to see two steps: its first episodes tell
        return int(curve["step"][0])
    moving = curve.filter(pl.col("step") <= changes["step"][-1]).height - 1  # without the end, which may be a ceiling
    if 1 - changes.height / moving < FLAT:
        return None
    width = int(as_float(changes["step"].diff().drop_nulls().median()))
    return width if width >= 2 * _gap(curve) else None  # otherwise a new return stands in most points


def _by_ends(curve: pl.DataFrame) -> int | None:
    """The same for a curve that says in which of its bins episodes ended."""
    ends = curve.filter("ended")["step"]
    if curve.height < 8 or ends.is_empty() or 1 - len(ends) / curve.height < FLAT:
        return None
    return int(ends[0]) if len(ends) < 2 else int(as_float(ends.diff().drop_nulls().mean()))


def _gap(curve: pl.DataFrame) -> int:
    """Environment steps between two points of a curve."""
    return int(as_float(curve["step"].diff().drop_nulls().median()))


def staircase_note(curves: pl.DataFrame, num_envs: dict[str, int]) -> str:
    """Words for the staircases among some curves (series, seed, step, return); `num_envs` by series."""
    staircases = {}
    for (series,), own in curves.group_by("series", maintain_order=True):
        widths = [w for _, one in own.group_by("seed") if (w := _steps_of(one))]
        if widths:
            staircases[series] = max(widths)
    if not staircases:
        return ""
    names = (
        " and ".join(staircases)
        if len(staircases) < 3
        else ", ".join(list(staircases)[:-1]) + f" and {list(staircases)[-1]}"
    )
    widest = max(staircases, key=staircases.__getitem__)
    many = num_envs.get(widest, 0)
    which = f"the {many:,} environments of {widest}" if widest and len(num_envs) > 1 else f"its {many:,} environments"
    lines = (
        f"The line of {names} climbs"
        if widest and len(staircases) == 1
        else "The line climbs"
        if not widest
        else f"The lines of {names} climb"
    )
    return (
        f"{lines} in steps. Episodes of equal length that start together also end together: {which} finish theirs "
        f"about every {staircases[widest]:,} environment steps, and no new return is recorded in between"
        f"{'; before the first end, the line has the value of the first return' if 'ended' in curves.columns else ''}."
    )
