"""Figures of the studies."""

from __future__ import annotations

import altair as alt
import polars as pl

from trimtab.report.style import PALETTE, themed


def by_staleness(frame: pl.DataFrame) -> alt.TopLevelMixin:
    """Final return against staleness, one line per loss (columns: loss, staleness, mean, lo, hi)."""
    order = ["decoupled", "behavior", "recent"]
    x = alt.X("staleness:O", title="staleness, iterations", axis=alt.Axis(labelAngle=0, grid=False))
    color = alt.Color("loss:N", title=None, sort=order, scale=alt.Scale(range=PALETTE), legend=alt.Legend(orient="top"))
    base = alt.Chart(frame).encode(x=x, color=color, xOffset=alt.XOffset("loss:N", sort=order))
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("lo:Q", title="final return, mean and 95% interval"), y2="hi:Q")
    points = base.mark_point(filled=True, size=60).encode(y="mean:Q")
    return themed(
        (bars + points).properties(width=560, height=300), "What waiting costs, by loss", "PPO on CartPole-v1, 5 seeds"
    )
