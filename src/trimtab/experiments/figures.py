"""Kinds of figures that studies share: lines with bands, effects with intervals, distributions, heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from trimtab.show.style import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    ROW,
    SHORT_NUMBER,
    colored,
    on_cells,
    ordered,
    paneled,
    themed,
)

Chart = alt.TopLevelMixin
BINS = 30
ZERO = alt.Chart().mark_rule(color="#9aa3ad", strokeWidth=1)


def lines(
    data: pl.DataFrame,
    x: str,
    x_title: str,
    y_title: str,
    title: str,
    subtitle: str,
    *,
    series: Sequence[str] = (),
    panels: Sequence[str] = (),
    log_x: bool = False,
    log_y: bool = False,
    zero: bool = True,
    dashed: Sequence[str] = (),
) -> Chart:
    """Value against x with its interval as a band; columns value, lo, hi, and series and panel where there are any."""
    if "series" not in data.columns:
        data = data.with_columns(pl.lit("").alias("series"))
    labels = list(series) or sorted(data["series"].unique())
    scale = alt.Scale(type="log", nice=False) if log_x else alt.Scale(nice=False)
    ticks = alt.Axis(grid=False, values=sorted(set(data[x].drop_nulls()))[:14], labelOverlap=True, format=".4~g")
    ends = alt.Scale(type="log", nice=False) if log_y else alt.Scale(zero=False)
    y = lambda field: alt.Y(f"{field}:Q", title=y_title, scale=ends, axis=alt.Axis(labelExpr=SHORT_NUMBER, tickCount=5))
    several = len(labels) > 1
    colors = PALETTE[: len(labels)] if len(labels) <= 3 else ordered(len(labels))
    color = colored("series", labels, colors, symbolType="stroke") if several else alt.value(BLUE)
    base = alt.Chart(data).encode(x=alt.X(f"{x}:Q", title=x_title, scale=scale, axis=ticks), color=color)
    dash = alt.condition(
        alt.FieldOneOfPredicate(field="series", oneOf=list(dashed)), alt.value([5, 4]), alt.value([1, 0])
    )
    layers = [] if log_y or not zero else [ZERO.encode(y=alt.datum(0))]
    layers.append(base.mark_area(opacity=0.15).encode(y=y("lo"), y2="hi:Q"))
    tooltip = [f"{x}:Q", alt.Tooltip("value:Q", format=".3g"), *(["series:N"] if several else [])]
    layers.append(base.mark_line(strokeWidth=2, point=True).encode(y=y("value"), strokeDash=dash, tooltip=tooltip))
    resolve = {} if len(panels) <= 1 else {"y": "independent"}
    return themed(paneled(alt.layer(*layers, data=data), list(panels), height=200, **resolve), title, subtitle)


def effects(data: pl.DataFrame, x_title: str, title: str, subtitle: str, *, log: bool = False) -> Chart:
    """A point with its interval for every row (columns row, value, lo, hi; series tells colours apart)."""
    rows = list(dict.fromkeys(data["row"]))
    several = "series" in data.columns and data["series"].n_unique() > 1
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260))
    ends = alt.Scale(type="log") if log else alt.Scale(zero=True)
    labels = list(dict.fromkeys(data["series"])) if several else []
    color = colored("series", labels, PALETTE[: len(labels)], symbolType="circle") if several else alt.value(BLUE)
    base = alt.Chart(data).encode(y=y, color=color)
    if several:
        base = base.encode(yOffset=alt.YOffset("series:N", sort=labels))
    axis = alt.Axis(labelExpr=SHORT_NUMBER, tickCount=6)
    rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("lo:Q", title=x_title, scale=ends, axis=axis), x2="hi:Q")
    tooltip = ["row:N", *[alt.Tooltip(f"{c}:Q", format=".3g") for c in ("value", "lo", "hi")]]
    point = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("value:Q", scale=ends), tooltip=tooltip)
    line = ZERO.encode(x=alt.datum(1 if log else 0))
    height = max(1, len(rows)) * (ROW if not several else ROW - 6 + 12 * len(labels))
    return themed(alt.layer(line, rule, point, data=data).properties(width=400, height=height), title, subtitle)


def distributions(
    data: pl.DataFrame, title: str, subtitle: str, *, panels: Sequence[str], kinds: Sequence[str], columns: int = 4
) -> Chart:
    """Outlines over a filled histogram of cosines (columns panel, kind, value); the last kind is filled."""
    rows = []
    for (panel, kind), group in data.group_by("panel", "kind", maintain_order=True):
        density, edges = np.histogram(group["value"].drop_nans().to_numpy(), bins=BINS, range=(-1, 1), density=True)
        rows += [
            {"panel": panel, "kind": kind, "x": float(a), "density": float(d)} for a, d in zip(edges, [*density, 0])
        ]
    shown = pl.DataFrame(rows)
    colors = ["#b4bac2"] if len(kinds) == 1 else [*[ORANGE, BLUE, RED][: len(kinds) - 1], "#b4bac2"]
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1], grid=False, format="~g", labelOverlap=True)
    base = alt.Chart(shown).encode(
        x=alt.X("x:Q", title="cosine", scale=alt.Scale(domain=[-1, 1]), axis=axis),
        y=alt.Y("density:Q", title="density", stack=None, axis=alt.Axis(tickCount=3)),
        color=colored("kind", list(kinds), colors, symbolType="square") if len(kinds) > 1 else alt.value(BLUE),
    )
    is_filled = f"datum.kind == '{kinds[-1]}'"
    filled = base.transform_filter(is_filled).mark_area(interpolate="step-after", opacity=0.7)
    outline = base.transform_filter(f"!({is_filled})").mark_line(interpolate="step-after", strokeWidth=1.8)
    layers = alt.layer(filled, outline, data=shown)
    return themed(paneled(layers, list(panels), columns=min(columns, len(panels)), height=120), title, subtitle)


def heat_maps(data: pl.DataFrame, title: str, subtitle: str, *, panels: Sequence[str], text: bool = True) -> Chart:
    """Cosines between batches (columns panel, i, j, value): blue agrees, red opposes."""
    axis = alt.Axis(labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(data).encode(x=alt.X("i:O", title="batch", axis=axis), y=alt.Y("j:O", title="batch", axis=axis))
    scale = alt.Scale(domain=[-1, 0, 1], range=[RED, "#ffffff", BLUE], interpolate="lab")
    bar = alt.Legend(orient="top", title="cosine", gradientLength=180, values=[-1, 0, 1], format="~g")
    layers = [base.mark_rect(stroke="#e3e7eb").encode(color=alt.Color("value:Q", scale=scale, legend=bar))]
    if text:
        layers.append(base.mark_text(fontSize=11).encode(text=alt.Text("value:Q", format=".2f"), color=on_cells()))
    return themed(paneled(alt.layer(*layers, data=data), list(panels), columns=2, height=220), title, subtitle)


def stacked(
    data: pl.DataFrame, parts: Sequence[str], x_title: str, title: str, subtitle: str, *, panels: Sequence[str] = ()
) -> Chart:
    """Bars stacked by part, one row each (columns row, part, value, panel where there are any)."""
    rows = list(dict.fromkeys(data["row"]))
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False))
    order = {part: k for k, part in enumerate(parts)}
    data = data.with_columns(pl.col("part").replace_strict(order, return_dtype=pl.Int64).alias("order"))
    bars = alt.Chart(data).mark_bar(height=alt.RelativeBandSize(0.65))
    bars = bars.encode(
        y=y,
        x=alt.X("value:Q", title=x_title, stack="zero", axis=alt.Axis(labelExpr=SHORT_NUMBER, tickCount=5)),
        color=colored("part", list(parts), [BLUE, ORANGE, GREY][: len(parts)], symbolType="square"),
        order=alt.Order("order:Q"),
        tooltip=["row:N", "part:N", alt.Tooltip("value:Q", format=".3g")],
    )
    layers: Any = alt.layer(bars, ZERO.encode(x=alt.datum(0)), data=data)
    return themed(paneled(layers, list(panels), height=ROW * len(rows)), title, subtitle)
