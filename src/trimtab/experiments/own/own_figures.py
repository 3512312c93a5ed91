"""Figures of this library's studies of itself."""

from __future__ import annotations

import altair as alt
import polars as pl

from trimtab.show import style

FATES = ["recommended", "remaining", "learned less", "larger error", "slower"]
COLORS = [style.BLUE, "#a9c4e6", style.ORANGE, style.RED, style.GREY]


def fates(frame: pl.DataFrame) -> alt.TopLevelMixin:
    """What became of every split in every repetition (columns: env_id, repetition, split, fate)."""
    order = list(dict.fromkeys(frame["split"]))
    x = alt.X("repetition:O", title="repetition", axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    y = alt.Y("split:N", title=None, sort=order, axis=alt.Axis(ticks=False, domain=False))
    present = [fate for fate in FATES if fate in set(frame["fate"])]
    color = style.colored("fate", present, [COLORS[FATES.index(fate)] for fate in present])
    base = alt.Chart(frame.with_columns(pl.col("env_id").alias("panel"))).encode(x=x, y=y, color=color)
    panels = list(dict.fromkeys(frame["env_id"]))
    chart = style.paneled(base.mark_rect(cornerRadius=2, stroke="white"), panels, 2, alt.Step(26), y="independent")
    return style.themed(chart, "What became of every split, repetition by repetition")


def rounds(frame: pl.DataFrame) -> alt.TopLevelMixin:
    """Return after each round of following advice (columns: case, round, value, lo, hi)."""
    x = alt.X("round:O", title="suggestions taken", axis=alt.Axis(labelAngle=0, grid=False))
    base = alt.Chart(frame.with_columns(pl.col("case").alias("panel"))).encode(x=x)
    y = alt.Y("value:Q", title="return of the last 100 episodes", scale=alt.Scale(zero=False))
    line = base.mark_line(color=style.BLUE).encode(y=y)
    points = base.mark_point(filled=True, size=50, color=style.BLUE).encode(y=y)
    bars = base.mark_rule(color=style.BLUE).encode(y=alt.Y("lo:Q"), y2="hi:Q")
    panels = list(dict.fromkeys(frame["case"]))
    chart = style.paneled(alt.layer(bars, line, points), panels, 2, 160, y="independent")
    return style.themed(chart, "What following the doctor gains", "Mean over seeds with 95% intervals.")
