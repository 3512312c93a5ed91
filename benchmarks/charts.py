"""Figures of the benchmarks."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from trimtab.show.style import BLUE, GREY, themed


def throughput(work: dict[str, Any]) -> alt.TopLevelMixin:
    """Steps per second of both, side by side, with the ratio written at the end."""
    rows = [
        {"work": name, "who": who, "steps": r[key], "label": f"{r['ratio']:.0f}×" if key == "trimtab" else ""}
        for name, r in work.items()
        for who, key in (("trimtab", "trimtab"), ("Stable-Baselines3", "sb3"))
    ]
    order = ["trimtab", "Stable-Baselines3"]
    y = alt.Y("work:N", title=None, sort=None, axis=alt.Axis(labelPadding=8, ticks=False, domain=False))
    base = alt.Chart(pl.DataFrame(rows)).encode(y=y, yOffset=alt.YOffset("who:N", sort=order))
    bars = base.mark_bar(cornerRadiusEnd=2, height=16).encode(
        x=alt.X("steps:Q", title="environment steps per second", axis=alt.Axis(format="~s")),
        color=alt.Color(
            "who:N", title=None, sort=order, scale=alt.Scale(range=[BLUE, GREY]), legend=alt.Legend(orient="top")
        ),
        tooltip=["work", "who", alt.Tooltip("steps:Q", format=",.0f")],
    )
    text = base.mark_text(align="left", dx=5, fontWeight=600).encode(x="steps:Q", text="label")
    return themed((bars + text).properties(width=560, height=48 * len(work)), "Training throughput, the same work")
