"""Figures: data in, Altair chart out. Pure; every chart can be saved as HTML, SVG, PNG and PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from trimtab.config import ConfigError

alt.data_transformers.disable_max_rows()

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b6fb6", "#e08a1e", "#3f8f5b", "#c0392b", "#7d5ba6", "#8a8f98"
PALETTE = [BLUE, ORANGE, GREEN, RED, PURPLE, GREY]
FORMATS = (".png", ".svg", ".pdf", ".html", ".json")


def themed(chart: alt.TopLevelMixin, title: str | None = None, subtitle: str | None = None) -> alt.TopLevelMixin:
    """The one look of every figure."""
    if title:
        heading = alt.TitleParams(title, anchor="start", fontSize=15, fontWeight=600, offset=12)
        if subtitle:
            heading.subtitle, heading.subtitleColor, heading.subtitleFontSize = subtitle, "#5b6470", 12
        chart = chart.properties(title=heading)
    return (
        chart.configure(font="Inter, Helvetica Neue, Helvetica, Arial, sans-serif", background="white")
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            titleColor="#3c434d",
            labelColor="#5b6470",
            gridColor="#edf0f3",
            domainColor="#c9cfd6",
            tickColor="#c9cfd6",
        )
        .configure_view(strokeWidth=0)
        .configure_legend(labelFontSize=12, titleFontSize=12, titleFontWeight="normal", symbolStrokeWidth=3)
        .configure_range(category=PALETTE)
        .configure_header(labelFontSize=12, titleFontSize=12, labelFontWeight=600)
    )


def save(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart; the ending chooses the format. HTML is one file that needs no network."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError("save", str(path), f"must end in one of {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.tmp{suffix}")
    if suffix == ".png":
        chart.save(str(temporary), format="png", scale_factor=2.0)
    elif suffix == ".html":
        chart.save(str(temporary), format="html", inline=True)
    else:
        chart.save(str(temporary), format=suffix[1:])
    temporary.replace(path)


def learning_curve_of(rows: list[dict[str, Any]], title: str) -> alt.TopLevelMixin:
    """The training return of one run."""
    frame = pl.DataFrame(
        {
            "step": [r["time/total_timesteps"] for r in rows if "rollout/ep_rew_mean" in r],
            "return": [r["rollout/ep_rew_mean"] for r in rows if "rollout/ep_rew_mean" in r],
        }
    )
    return learning_curves(frame.with_columns(pl.lit("").alias("series"), pl.lit(0).alias("seed")), title)


def thin(frame: pl.DataFrame, points: int = 300) -> pl.DataFrame:
    """Average a curve (step, return, series, seed) into at most `points` bins of steps."""
    if frame.is_empty():
        return frame
    width = max(1, int(frame["step"].max()) // points)
    return (
        frame.with_columns((pl.col("step") // width * width + width // 2).alias("step"))
        .group_by("series", "seed", "step", maintain_order=True)
        .agg(pl.col("return").mean())
    )


def learning_curves(
    frame: pl.DataFrame, title: str, subtitle: str | None = None, order: list[str] | None = None
) -> alt.TopLevelMixin:
    """Return against environment steps: mean over seeds, band from the lowest to the highest seed, one line per series."""
    summary = (
        thin(frame)
        .group_by("series", "step", maintain_order=True)
        .agg(
            pl.col("return").mean().alias("mean"),
            pl.col("return").min().alias("low"),
            pl.col("return").max().alias("high"),
        )
        .sort("series", "step")
    )
    several = frame["series"].n_unique() > 1
    x = alt.X("step:Q", title="environment steps", axis=alt.Axis(format="~s", grid=False))
    color = (
        alt.Color(
            "series:N",
            title=None,
            sort=order,
            legend=alt.Legend(orient="top"),
            scale=alt.Scale(range=PALETTE),
        )
        if several
        else alt.value(BLUE)
    )
    base = alt.Chart(summary).encode(x=x, color=color)
    y = alt.Y("mean:Q", title="return of the last 100 episodes", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q"), y2="high:Q")
    tooltip = [
        alt.Tooltip("series:N"),
        alt.Tooltip("step:Q", format=",.0f"),
        alt.Tooltip("mean:Q", format=".4g"),
    ]
    line = base.mark_line(strokeWidth=2.2).encode(y=y, tooltip=tooltip if several else tooltip[1:])
    return themed((band + line).properties(width=620, height=320), title, subtitle)
