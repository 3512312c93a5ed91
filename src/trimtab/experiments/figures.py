"""Figures that studies share: lines with bands, effects with intervals, distributions, heat maps, stacked bars.

Frames in, charts out. Altair is imported when a chart is drawn, so a study can declare its figures and stay light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from trimtab.studies.source_result import CaptionedFigure

if TYPE_CHECKING:
    import altair as alt

Chart: TypeAlias = "alt.TopLevelMixin"
Figure: TypeAlias = CaptionedFigure
BINS = 30


def zero_rule() -> alt.Chart:
    """A thin line, to be placed at 0 (or at whatever means no difference)."""
    import altair as alt

    return alt.Chart().mark_rule(color="#9aa3ad", strokeWidth=1)


def labels_in(data: pl.DataFrame, column: str) -> list[str]:
    """The different labels of a column, in the order of the rows."""
    return list(dict.fromkeys(data[column])) if column in data.columns else []


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
    import altair as alt

    from trimtab.show import style

    if "series" not in data.columns:
        data = data.with_columns(pl.lit("").alias("series"))
    labels = list(series) or sorted(data["series"].unique())
    scale = alt.Scale(type="log", nice=False) if log_x else alt.Scale(nice=False)
    ticks = alt.Axis(grid=False, values=sorted(set(data[x].drop_nulls()))[:14], labelOverlap=True, format=".4~g")
    ends = alt.Scale(type="log", nice=False) if log_y else alt.Scale(zero=False)
    axis = alt.Axis(labelExpr=style.SHORT_NUMBER, tickCount=5)
    y = lambda field: alt.Y(f"{field}:Q", title=y_title, scale=ends, axis=axis)
    several = len(labels) > 1
    colors = style.PALETTE[: len(labels)] if len(labels) <= 3 else style.ordered(len(labels))
    color = style.colored("series", labels, colors, symbolType="stroke") if several else alt.value(style.BLUE)
    base = alt.Chart(data).encode(x=alt.X(f"{x}:Q", title=x_title, scale=scale, axis=ticks), color=color)
    is_dashed = alt.FieldOneOfPredicate(field="series", oneOf=list(dashed))
    dash = alt.condition(is_dashed, alt.value([5, 4]), alt.value([1, 0]))
    layers = [] if log_y or not zero else [zero_rule().encode(y=alt.datum(0))]
    layers.append(base.mark_area(opacity=0.15).encode(y=y("lo"), y2="hi:Q"))
    tooltip = [f"{x}:Q", alt.Tooltip("value:Q", format=".3g"), *(["series:N"] if several else [])]
    layers.append(base.mark_line(strokeWidth=2, point=True).encode(y=y("value"), strokeDash=dash, tooltip=tooltip))
    resolve = {} if len(panels) <= 1 else {"y": "independent"}
    chart = style.paneled(alt.layer(*layers, data=data), list(panels), 2, 200, **resolve)
    return style.themed(chart, title, subtitle)


def effects(data: pl.DataFrame, x_title: str, title: str, subtitle: str, *, log: bool = False) -> Chart:
    """A point with its interval for every row (columns row, value, lo, hi; series tells colours apart)."""
    import altair as alt

    from trimtab.show import style

    rows, labels = labels_in(data, "row"), labels_in(data, "series")
    several = len(labels) > 1
    y = alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260))
    ends = alt.Scale(type="log") if log else alt.Scale(zero=True)
    colors = style.PALETTE[: len(labels)]
    color = style.colored("series", labels, colors, symbolType="circle") if several else alt.value(style.BLUE)
    base = alt.Chart(data).encode(y=y, color=color)
    if several:
        base = base.encode(yOffset=alt.YOffset("series:N", sort=labels))
    axis = alt.Axis(labelExpr=style.SHORT_NUMBER, tickCount=6)
    rule = base.mark_rule(strokeWidth=2).encode(x=alt.X("lo:Q", title=x_title, scale=ends, axis=axis), x2="hi:Q")
    tooltip = ["row:N", *[alt.Tooltip(f"{c}:Q", format=".3g") for c in ("value", "lo", "hi")]]
    point = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("value:Q", scale=ends), tooltip=tooltip)
    line = zero_rule().encode(x=alt.datum(1 if log else 0))
    height = max(1, len(rows)) * (style.ROW if not several else style.ROW - 6 + 12 * len(labels))
    return style.themed(alt.layer(line, rule, point, data=data).properties(width=400, height=height), title, subtitle)


def distributions(
    data: pl.DataFrame, title: str, subtitle: str, *, panels: Sequence[str], kinds: Sequence[str], columns: int = 4
) -> Chart:
    """Outlines over a filled histogram of cosines (columns panel, kind, value); the last kind is filled."""
    import altair as alt

    from trimtab.show import style

    rows = []
    for (panel, kind), group in data.group_by("panel", "kind", maintain_order=True):
        density, edges = np.histogram(group["value"].drop_nans().to_numpy(), bins=BINS, range=(-1, 1), density=True)
        rows += [(panel, kind, float(a), float(d)) for a, d in zip(edges, [*density, 0])]
    shown = pl.DataFrame(rows, schema=["panel", "kind", "x", "density"], orient="row")
    grey = "#b4bac2"
    colors = [*[style.ORANGE, style.BLUE, style.RED][: len(kinds) - 1], grey]
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1], grid=False, format="~g", labelOverlap=True)
    several = len(kinds) > 1
    base = alt.Chart(shown).encode(
        x=alt.X("x:Q", title="cosine", scale=alt.Scale(domain=[-1, 1]), axis=axis),
        y=alt.Y("density:Q", title="density", stack=None, axis=alt.Axis(tickCount=3)),
        color=style.colored("kind", list(kinds), colors, symbolType="square") if several else alt.value(style.BLUE),
    )
    is_filled = f"datum.kind == '{kinds[-1]}'"
    filled = base.transform_filter(is_filled).mark_area(interpolate="step-after", opacity=0.7)
    outline = base.transform_filter(f"!({is_filled})").mark_line(interpolate="step-after", strokeWidth=1.8)
    layers = alt.layer(filled, outline, data=shown)
    return style.themed(style.paneled(layers, list(panels), min(columns, len(panels)), 120), title, subtitle)


def heat_maps(pairs: pl.DataFrame, title: str, subtitle: str, *, panels: Sequence[str] = ()) -> Chart:
    """Cosines between batches: blue agrees, red opposes.

    Args:
        pairs: the columns panel, i, j and value, of every pair i < j; the other half and the diagonal follow.
        title: of the figure.
        subtitle: of the figure.
        panels: the panels to show, in this order; by default those of the pairs.

    Returns:
        The chart.
    """
    import altair as alt

    from trimtab.show import style

    panels = panels or labels_in(pairs, "panel")
    pairs = pairs.filter(pl.col("panel").is_in(panels))
    batches = sorted({*pairs["i"], *pairs["j"]})
    own = pl.DataFrame([(p, k, k, 1.0) for p in panels for k in batches], schema=pairs.schema, orient="row")
    data = pl.concat([pairs, pairs.rename({"i": "j", "j": "i"}).select(pairs.columns), own])
    axis = alt.Axis(labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(data).encode(x=alt.X("i:O", title="batch", axis=axis), y=alt.Y("j:O", title="batch", axis=axis))
    scale = alt.Scale(domain=[-1, 0, 1], range=[style.RED, "#ffffff", style.BLUE], interpolate="lab")
    bar = alt.Legend(orient="top", title="cosine", gradientLength=180, values=[-1, 0, 1], format="~g")
    cells = base.mark_rect(stroke="#e3e7eb").encode(color=alt.Color("value:Q", scale=scale, legend=bar))
    words = base.mark_text(fontSize=11).encode(text=alt.Text("value:Q", format=".2f"), color=style.on_cells())
    return style.themed(style.paneled(alt.layer(cells, words, data=data), list(panels), 2, 220), title, subtitle)


def stacked(
    data: pl.DataFrame, parts: Sequence[str], x_title: str, title: str, subtitle: str, *, panels: Sequence[str] = ()
) -> Chart:
    """Bars stacked by part, one row each (columns row, part, value, panel where there are any)."""
    import altair as alt

    from trimtab.show import style

    rows = labels_in(data, "row")
    order = {part: k for k, part in enumerate(parts)}
    data = data.with_columns(pl.col("part").replace_strict(order, return_dtype=pl.Int64).alias("order"))
    bars = alt.Chart(data).mark_bar(height=alt.RelativeBandSize(0.65))
    colors = [style.BLUE, style.ORANGE, style.GREY][: len(parts)]
    bars = bars.encode(
        y=alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("value:Q", title=x_title, stack="zero", axis=alt.Axis(labelExpr=style.SHORT_NUMBER, tickCount=5)),
        color=style.colored("part", list(parts), colors, symbolType="square"),
        order=alt.Order("order:Q"),
        tooltip=["row:N", "part:N", alt.Tooltip("value:Q", format=".3g")],
    )
    layers: Any = alt.layer(bars, zero_rule().encode(x=alt.datum(0)), data=data)
    return style.themed(style.paneled(layers, list(panels), 2, style.ROW * len(rows)), title, subtitle)


def curves_by_environment(curves: pl.DataFrame, environments: Iterable[str]) -> dict[str, Figure]:
    """Learning curves, a figure for each environment; a series is named by its environment and its arm."""
    from trimtab.show.style import learning_curves

    figures = {}
    for env_id in environments:
        mine = curves.filter(pl.col("series").str.starts_with(f"{env_id} "))
        if not mine.is_empty():
            named = mine.with_columns(pl.col("series").str.strip_prefix(f"{env_id} "))
            chart = learning_curves(named, env_id, "Mean over seeds; bands from the lowest to the highest.")
            figures[env_id] = Figure(chart, "")
    return figures
