"""Figures of the paper's studies. Frames in, charts out.

Summaries have the columns series, value, lo, hi and, where there are several panels, panel; `x` is what they are drawn
over. Curves have environment, seed, step, normalized and a column that names the series.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from trimtab.experiments.figures import Chart, labels_in
from trimtab.experiments.measures import number
from trimtab.show import style
from trimtab.show.style import BLUE, GREY, HEIGHT, ORANGE, PALETTE, ROW, WIDTH

SHARE_OF_TRAINING = alt.X("share:Q", title="share of training", axis=alt.Axis(format="%", grid=False, tickCount=4))


def _no_difference(axis: str, at: float = 0.0) -> alt.Chart:
    """A dashed line across an axis where there is no difference."""
    chart = alt.Chart(pl.DataFrame({"at": [at]})).mark_rule(color=GREY, strokeDash=[4, 3])
    return chart.encode(**{axis: "at:Q"})


# Learning curves -------------------------------------------------------------------------------------------


def mean_curves(curves: pl.DataFrame, series: str, order: Sequence[str], title: str, panel: str | None = None) -> Chart:
    """Normalized return over training, averaged over environments; bands: standard deviation over seeds."""
    subtitle = "Mean over environments; bands: one standard deviation over seeds."
    return _curves(_over_seeds(curves, series, panel), order, title, subtitle, 2)


def curves_by_environment(curves: pl.DataFrame, series: str, order: Sequence[str], title: str) -> Chart:
    """The same, environment by environment."""
    subtitle = "Bands: one standard deviation over seeds."
    return _curves(_over_seeds(curves, series, "environment"), order, title, subtitle, 3)


def _over_seeds(curves: pl.DataFrame, series: str, panel: str | None) -> pl.DataFrame:
    """Mean and deviation over seeds, at steps as a share of each environment's training: bins that all of them have."""
    share = (pl.col("step") / pl.col("step").max().over("environment")).round(2)
    panels = [pl.col(panel).alias("panel")] if panel else []
    keys = ["series", "share", *(["panel"] if panel else [])]
    table = curves.select(
        pl.col(series).cast(pl.String).alias("series"), share.alias("share"), *panels, "seed", "normalized"
    )
    by_seed = table.group_by(*keys, "seed").agg(pl.col("normalized").mean())
    value, spread = pl.col("normalized").mean(), pl.col("normalized").std().fill_null(0.0)
    return by_seed.group_by(keys).agg(value=value, lo=value - spread, hi=value + spread).sort("series", "share")


def _curves(summary: pl.DataFrame, order: Sequence[str], title: str, subtitle: str, columns: int) -> Chart:
    base = alt.Chart(summary).encode(x=SHARE_OF_TRAINING, color=style.colored("series", list(order)))
    y = alt.Y("value:Q", title="normalized return", scale=alt.Scale(zero=False))
    chart = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("lo:Q"), y2="hi:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, tooltip=["series:N", alt.Tooltip("value:Q", format=".3f")]),
    )
    panels = sorted(labels_in(summary, "panel"))
    return style.themed(style.paneled(chart, panels, columns, HEIGHT if len(panels) <= 1 else 150), title, subtitle)


# Numbers with intervals ------------------------------------------------------------------------------------


def over(
    frame: pl.DataFrame,
    x: str,
    x_title: str,
    y_title: str,
    title: str,
    subtitle: str,
    order: Sequence[str],
    columns: int = 2,
) -> Chart:
    """Values with intervals over an ordered axis `x`, a colour for each series, a panel for each label in `panel`."""
    places = list(dict.fromkeys(frame.sort(x)[x].cast(pl.String)))
    frame = frame.with_columns(pl.col(x).cast(pl.String).alias("place"))
    axis = alt.X("place:N", sort=places, title=x_title, axis=alt.Axis(labelAngle=0, grid=False))
    colors = PALETTE[: len(order)] if len(order) <= len(PALETTE) else None
    y, color = alt.Y("value:Q", title=y_title), style.colored("series", list(order), colors)
    base = alt.Chart(frame).encode(x=axis, xOffset=alt.XOffset("series:N", sort=list(order)), color=color)
    points = base.mark_point(filled=True, size=46).encode(y=y)
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("lo:Q", title=y_title), y2="hi:Q")
    lines = alt.Chart(frame).mark_line(strokeWidth=1, opacity=0.5).encode(x=axis, y=y, color=color)
    layers = [bars, points] if len(order) > 1 else [lines, bars, points]
    return style.themed(style.paneled(alt.layer(*layers), labels_in(frame, "panel"), columns), title, subtitle)


def by_environment(frame: pl.DataFrame, x_title: str, series: str, subtitle: str = "Bars: 95% intervals.") -> Chart:
    """A value with its interval for each environment, series beside each other; the line at 0 is no difference."""
    order, environments = labels_in(frame, series), labels_in(frame, "environment")
    y = alt.Y("environment:N", sort=environments, title=None, axis=alt.Axis(domain=False, ticks=False, grid=True))
    color = style.colored(series, order, PALETTE[: len(order)]) if len(order) > 1 else alt.value(BLUE)
    base = alt.Chart(frame).encode(y=y, color=color)
    if len(order) > 1:
        base = base.encode(yOffset=alt.YOffset(f"{series}:N", sort=order))
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("lo:Q", title=x_title), x2="hi:Q")
    points = base.mark_point(filled=True, size=46).encode(x="value:Q")
    height = len(environments) * (ROW if len(order) == 1 else 12 + 12 * len(order))
    chart = alt.layer(_no_difference("x"), bars, points).properties(width=WIDTH, height=height)
    return style.themed(chart, x_title, subtitle)


def comparisons(frame: pl.DataFrame) -> Chart:
    """Probability of improvement of pairs of algorithms, with van Elteren's Z beside it."""
    rounded = lambda name: pl.col(name).round(2).cast(pl.String)
    frame = frame.with_columns(
        pl.format("{} over {}", "first", "second").alias("pair"),
        pl.format("Z = {} (at most {})", rounded("z"), rounded("max_z")).alias("test"),
    )
    axis = alt.Axis(domain=False, ticks=False, labelLimit=240)
    y = alt.Y("pair:N", sort=frame["pair"].to_list(), title=None, axis=axis)
    x = alt.X("improvement_lo:Q", title="probability of improvement", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(frame).encode(y=y)
    bars = base.mark_rule(strokeWidth=2, color=BLUE).encode(x=x, x2="improvement_hi:Q")
    points = base.mark_point(filled=True, size=60, color=BLUE).encode(x="improvement:Q")
    words = base.mark_text(align="left", dy=-13, color="#5b6470").encode(x=alt.value(4), text="test:N")
    chart = alt.layer(_no_difference("x", 0.5), bars, points, words)
    chart = chart.properties(width=WIDTH - 120, height=(ROW + 10) * frame.height)
    return style.themed(
        chart, "How often a run of one beats a run of the other", "Games are strata; bars: 95% intervals."
    )


# Tables and grids ------------------------------------------------------------------------------------------


def effect_table(frame: pl.DataFrame, threshold: float) -> Chart:
    """Table 5: effect size over Z for every ablation and smaller batch; significant cells are filled."""
    frame = frame.with_columns(
        pl.col("num_envs").cast(pl.String).alias("batch"),
        pl.format("{} ({})", pl.col("effect").round(3), pl.col("z").round(2)).alias("words"),
        (pl.col("z") > threshold).alias("significant"),
    )
    batches, ablations = labels_in(frame.sort("num_envs", descending=True), "batch"), labels_in(frame, "ablation")
    title = "environments, against the largest batch"
    x = alt.X("batch:N", sort=batches, title=title, axis=alt.Axis(labelAngle=0, orient="top"))
    axis = alt.Axis(domain=False, ticks=False, labelLimit=260)
    base = alt.Chart(frame).encode(x=x, y=alt.Y("ablation:N", sort=ablations, title=None, axis=axis))
    fill = alt.condition("datum.significant", alt.value("#f3d9b1"), alt.value("#f4f6f8"))
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=fill)
    words = base.mark_text(fontSize=12, color="#20262e").encode(text="words:N")
    chart = alt.layer(cells, words).properties(width=WIDTH - 80, height=ROW * len(ablations))
    subtitle = f"Effect size (Z); filled: Z above {threshold:.2f}, the 0.1% level after Bonferroni over 16 hypotheses."
    return style.themed(chart, "The cost of leaving out an adjustment, at smaller batches", subtitle)


def grid(frame: pl.DataFrame, subtitle: str) -> Chart:
    """Score over centre of mass and KL coefficient; diagonals keep their product."""
    text = lambda values: [f"{value:g}" for value in values]
    coms, penalties = text(sorted(frame["com"].unique())), text(sorted(frame["kl_coef"].unique(), reverse=True))
    middle = ((number(frame["value"].min()) or 0.0) + (number(frame["value"].max()) or 0.0)) / 2
    named = [pl.Series(name, text(frame[name])) for name in ("com", "kl_coef")]
    title = "centre of mass of the proximal EWMA, gradient steps"
    base = alt.Chart(frame.with_columns(named)).encode(
        x=alt.X("com:N", sort=coms, title=title, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("kl_coef:N", sort=penalties, title="KL coefficient"),
    )
    shade = alt.Color("value:Q", title="score", scale=alt.Scale(range=["#eef2f6", style.RAMP[1], style.RAMP[0]]))
    ink = alt.condition(f"datum.value > {middle}", alt.value("white"), alt.value("#20262e"))
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=shade)
    words = base.mark_text(fontSize=12).encode(text=alt.Text("value:Q", format=".2f"), color=ink)
    chart = style.paneled(alt.layer(cells, words), labels_in(frame, "panel"), 2, alt.Step(ROW))
    return style.themed(chart, "Age of the proximal policy against the strength of the penalty", subtitle)


# Mechanisms ------------------------------------------------------------------------------------------------


def against_distance(
    frame: pl.DataFrame, losses: Sequence[str], regimes: Sequence[str], marks: tuple[float, float]
) -> Chart:
    """Change of the score against the distance between the policy and its data, a point per case."""
    x = alt.X("nats:Q", title="KL from the policy that acted, nats", scale=alt.Scale(type="log"))
    y = alt.Y("change:Q", title="score, stale − fresh")
    shape = alt.Shape("regime:N", sort=list(regimes), legend=style.legend(list(regimes), None))
    color = style.colored("loss", list(losses), PALETTE[: len(losses)])
    tooltip = ["environment:N", "regime:N", "loss:N", "staleness:Q", alt.Tooltip("change:Q", format=".3f")]
    points = alt.Chart(frame).mark_point(filled=True, size=54, opacity=0.75)
    points = points.encode(x=x, y=y, color=color, shape=shape, tooltip=tooltip)
    edges = alt.Chart(pl.DataFrame({"nats": list(marks)})).mark_rule(color=GREY, opacity=0.5).encode(x="nats:Q")
    chart = alt.layer(_no_difference("y"), edges, points).properties(width=WIDTH, height=HEIGHT + 60)
    subtitle = "Means over seeds; medians of KL over training; lines: the bounds named above."
    return style.themed(chart, "The cost of a policy that is far from its data", subtitle)


def deviations(frame: pl.DataFrame, order: Sequence[str]) -> Chart:
    """Advantage deviation estimates over training, unsmoothed, first seed: how much they oscillate."""
    y = alt.Y("value:Q", title="deviation", scale=alt.Scale(type="log"))
    color = style.colored("series", list(order), title="environments")
    lines = alt.Chart(frame).mark_line(strokeWidth=1, opacity=0.8).encode(x=SHARE_OF_TRAINING, y=y, color=color)
    panels = labels_in(frame, "panel")
    return style.themed(
        style.paneled(lines, panels, 3, 140 if len(panels) > 1 else HEIGHT, y="independent"),
        "Estimates of the advantages' deviation from one batch",
        "Without the adjustment, first seed, not smoothed; logarithmic.",
    )


def power_law(
    frame: pl.DataFrame, marks: pl.DataFrame, y_title: str, title: str, subtitle: str, order: Sequence[str]
) -> Chart:
    """Lines (series) over minibatch size, both logarithmic, with a vertical mark (noise scale) in each panel."""
    scale = alt.Scale(type="log", base=2)
    x = alt.X("size:Q", title="minibatch, samples", scale=scale, axis=alt.Axis(grid=False, format="~s"))
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(type="log"))
    base = alt.Chart(pl.concat([frame, marks], how="diagonal"))
    color = style.colored("series", list(order), [BLUE, ORANGE, GREY][: len(order)])
    lines = base.transform_filter("isValid(datum.value)").mark_line(strokeWidth=2, point=True)
    band = base.transform_filter("isValid(datum.value) && isValid(datum.lo)").mark_area(opacity=0.15)
    rule = base.transform_filter("isValid(datum.at)").mark_rule(color=style.RED, strokeDash=[5, 3])
    layers = (
        band.encode(x=x, y=alt.Y("lo:Q"), y2="hi:Q", color=color),
        lines.encode(x=x, y=y, color=color),
        rule.encode(x=alt.X("at:Q")),
    )
    panels = labels_in(frame, "panel")
    return style.themed(style.paneled(alt.layer(*layers), panels, 2, y="independent"), title, subtitle)
