"""Figures of the paper's studies. Frames in, charts out.

Summaries have the columns series, value, lo, hi and, where there are several panels, panel; `x` is what they are drawn
over. Curves have environment, seed, step, normalized and a column that names the series.
"""

from __future__ import annotations

import altair as alt
import polars as pl

from trimtab.show import style
from trimtab.show.style import BLUE, GREY, HEIGHT, ORANGE, PALETTE, ROW, WIDTH

# Learning curves -------------------------------------------------------------------------------------------


def mean_curves(curves: pl.DataFrame, series: str, order: list[str], title: str, panel: str | None = None):
    """Normalized return over training, averaged over environments; bands: standard deviation over seeds."""
    summary = _over_seeds(_shared(curves), series, panel)
    return _curves(summary, order, title, "Mean over environments; bands: one standard deviation over seeds.", 2)


def curves_by_environment(curves: pl.DataFrame, series: str, order: list[str], title: str):
    """The same, environment by environment."""
    summary = _over_seeds(_shared(curves), series, "environment")
    return _curves(summary, order, title, "Bands: one standard deviation over seeds.", 3)


def _shared(curves: pl.DataFrame) -> pl.DataFrame:
    """Steps as a share of each environment's training: bins that all environments have."""
    return curves.with_columns((pl.col("step") / pl.col("step").max().over("environment")).round(2).alias("share"))


def _over_seeds(curves: pl.DataFrame, series: str, panel: str | None) -> pl.DataFrame:
    keys = [series, "share", *([panel] if panel else [])]
    by_seed = curves.group_by(*keys, "seed").agg(pl.col("normalized").mean())
    value, spread = pl.col("normalized").mean(), pl.col("normalized").std().fill_null(0.0)
    summary = by_seed.group_by(keys).agg(
        value.alias("value"), (value - spread).alias("lo"), (value + spread).alias("hi")
    )
    renamed = {series: "series"} | ({panel: "panel"} if panel else {})
    return summary.rename(renamed).with_columns(pl.col("series").cast(pl.String)).sort("series", "share")


def _curves(summary: pl.DataFrame, order: list[str], title: str, subtitle: str, columns: int):
    x = alt.X("share:Q", title="share of training", axis=alt.Axis(format="%", grid=False, tickCount=4))
    base = alt.Chart(summary).encode(x=x, color=style.colored("series", order))
    y = alt.Y("value:Q", title="normalized return", scale=alt.Scale(zero=False))
    chart = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("lo:Q"), y2="hi:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, tooltip=["series:N", alt.Tooltip("value:Q", format=".3f")]),
    )
    panels = list(dict.fromkeys(summary["panel"])) if "panel" in summary.columns else []
    options = {"height": HEIGHT} if len(panels) <= 1 else {"height": 150}
    return style.themed(style.paneled(chart, sorted(panels), columns, **options), title, subtitle)


# Numbers with intervals ------------------------------------------------------------------------------------


def over(
    frame: pl.DataFrame,
    x: str,
    x_title: str,
    y_title: str,
    title: str,
    subtitle: str,
    order: list[str],
    columns: int = 2,
):
    """Values with intervals over an ordered axis `x`, a line for each series, a panel for each label in `panel`."""
    places = list(dict.fromkeys(frame.sort(x)[x].cast(pl.String)))
    frame = frame.with_columns(pl.col(x).cast(pl.String).alias("place"))
    axis = alt.X("place:N", sort=places, title=x_title, axis=alt.Axis(labelAngle=0, grid=False))
    colors = PALETTE if len(order) <= len(PALETTE) else None
    base = alt.Chart(frame).encode(
        x=axis,
        xOffset=alt.XOffset("series:N", sort=order),
        color=style.colored("series", order, colors and colors[: len(order)]),
    )
    points = base.mark_point(filled=True, size=46).encode(y=alt.Y("value:Q", title=y_title))
    bars = base.mark_rule(strokeWidth=2).encode(y=alt.Y("lo:Q", title=y_title), y2="hi:Q")
    lines = (
        alt.Chart(frame)
        .mark_line(strokeWidth=1, opacity=0.5)
        .encode(
            x=axis,
            y=alt.Y("value:Q", title=y_title),
            color=style.colored("series", order, colors and colors[: len(order)]),
        )
    )
    panels = list(dict.fromkeys(frame["panel"])) if "panel" in frame.columns else []
    chart = style.paneled(
        alt.layer(bars, points) if len(order) > 1 else alt.layer(lines, bars, points), panels, columns
    )
    return style.themed(chart, title, subtitle)


def by_environment(frame: pl.DataFrame, x_title: str, series: str, subtitle: str = "Bars: 95% intervals."):
    """A value with its interval for each environment, series beside each other; the line at 0 is no difference."""
    order = list(dict.fromkeys(frame[series]))
    environments = list(dict.fromkeys(frame["environment"]))
    y = alt.Y("environment:N", sort=environments, title=None, axis=alt.Axis(domain=False, ticks=False, grid=True))
    color = style.colored(series, order, PALETTE[: len(order)]) if len(order) > 1 else alt.value(BLUE)
    base = alt.Chart(frame).encode(y=y, color=color)
    if len(order) > 1:
        base = base.encode(yOffset=alt.YOffset(f"{series}:N", sort=order))
    zero = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(color=GREY, strokeDash=[4, 3]).encode(x="at:Q")
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("lo:Q", title=x_title), x2="hi:Q")
    points = base.mark_point(filled=True, size=46).encode(x="value:Q")
    height = len(environments) * (ROW if len(order) == 1 else 12 + 12 * len(order))
    chart = alt.layer(zero, bars, points).properties(width=WIDTH, height=height)
    return style.themed(chart, x_title, subtitle)


def comparisons(frame: pl.DataFrame):
    """Probability of improvement of pairs of algorithms, with van Elteren's Z beside it."""
    frame = frame.with_columns(
        (pl.col("first") + " over " + pl.col("second")).alias("pair"),
        pl.format(
            "Z = {} (at most {})", pl.col("z").round(2).cast(pl.String), pl.col("max_z").round(2).cast(pl.String)
        ).alias("test"),
    )
    y = alt.Y(
        "pair:N", sort=frame["pair"].to_list(), title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=240)
    )
    x = alt.X("improvement_lo:Q", title="probability of improvement", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(frame).encode(y=y)
    half = alt.Chart(pl.DataFrame({"at": [0.5]})).mark_rule(color=GREY, strokeDash=[4, 3]).encode(x="at:Q")
    bars = base.mark_rule(strokeWidth=2, color=BLUE).encode(x=x, x2="improvement_hi:Q")
    points = base.mark_point(filled=True, size=60, color=BLUE).encode(x="improvement:Q")
    words = base.mark_text(align="left", dy=-13, color="#5b6470").encode(x=alt.value(4), text="test:N")
    chart = alt.layer(half, bars, points, words).properties(width=WIDTH - 120, height=(ROW + 10) * frame.height)
    return style.themed(
        chart, "How often a run of one beats a run of the other", "Games are strata; bars: 95% intervals."
    )


# Tables and grids ------------------------------------------------------------------------------------------


def effect_table(frame: pl.DataFrame, threshold: float):
    """Table 5: effect size over Z for every ablation and smaller batch; significant cells are filled."""
    frame = frame.with_columns(
        pl.col("num_envs").cast(pl.String).alias("batch"),
        pl.format("{} ({})", pl.col("effect").round(3), pl.col("z").round(2)).alias("words"),
        (pl.col("z") > threshold).alias("significant"),
    )
    batches = frame.sort("num_envs", descending=True)["batch"].unique(maintain_order=True).to_list()
    ablations = frame["ablation"].unique(maintain_order=True).to_list()
    base = alt.Chart(frame).encode(
        x=alt.X(
            "batch:N",
            sort=batches,
            title="environments, against the largest batch",
            axis=alt.Axis(labelAngle=0, orient="top"),
        ),
        y=alt.Y("ablation:N", sort=ablations, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260)),
    )
    fill = alt.condition("datum.significant", alt.value("#f3d9b1"), alt.value("#f4f6f8"))
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=fill)
    words = base.mark_text(fontSize=12, color="#20262e").encode(text="words:N")
    chart = alt.layer(cells, words).properties(width=WIDTH - 80, height=ROW * len(ablations))
    subtitle = f"Effect size (Z); filled: Z above {threshold:.2f}, the 0.1% level after Bonferroni over 16 hypotheses."
    return style.themed(chart, "What leaving out an adjustment costs at smaller batches", subtitle)


def grid(frame: pl.DataFrame, subtitle: str):
    """Score over centre of mass and KL coefficient; diagonals keep their product."""
    short = lambda column: [f"{value:g}" for value in frame[column]]
    coms = [f"{value:g}" for value in sorted(frame["com"].unique())]
    penalties = [f"{value:g}" for value in sorted(frame["kl_coef"].unique(), reverse=True)]
    middle = (frame["value"].min() + frame["value"].max()) / 2
    frame = frame.with_columns(pl.Series("com", short("com")), pl.Series("kl_coef", short("kl_coef")))
    title = "centre of mass of the proximal EWMA, gradient steps"
    base = alt.Chart(frame).encode(
        x=alt.X("com:N", sort=coms, title=title, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("kl_coef:N", sort=penalties, title="KL coefficient"),
    )
    shade = alt.Color("value:Q", title="score", scale=alt.Scale(range=["#eef2f6", style.RAMP[1], style.RAMP[0]]))
    ink = alt.condition(f"datum.value > {middle}", alt.value("white"), alt.value("#20262e"))
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=shade)
    words = base.mark_text(fontSize=12).encode(text=alt.Text("value:Q", format=".2f"), color=ink)
    panels = list(dict.fromkeys(frame["panel"]))
    chart = style.paneled(alt.layer(cells, words), panels, 2, alt.Step(ROW))
    return style.themed(chart, "Age of the proximal policy against the strength of the penalty", subtitle)


# Mechanisms ------------------------------------------------------------------------------------------------


def against_distance(frame: pl.DataFrame, losses: list[str], regimes: list[str], marks: tuple[float, float]):
    """Change of the score against the distance between the policy and its data, a point per case."""
    x = alt.X("nats:Q", title="KL from the policy that acted, nats", scale=alt.Scale(type="log"))
    y = alt.Y("change:Q", title="score, stale − fresh")
    shape = alt.Shape("regime:N", sort=regimes, legend=style.legend(regimes, None))
    points = (
        alt.Chart(frame)
        .mark_point(filled=True, size=54, opacity=0.75)
        .encode(
            x=x,
            y=y,
            color=style.colored("loss", losses, PALETTE[: len(losses)]),
            shape=shape,
            tooltip=["environment:N", "regime:N", "loss:N", "staleness:Q", alt.Tooltip("change:Q", format=".3f")],
        )
    )
    none = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(color=GREY, strokeDash=[4, 3]).encode(y="at:Q")
    edges = alt.Chart(pl.DataFrame({"nats": list(marks)})).mark_rule(color=GREY, opacity=0.5).encode(x="nats:Q")
    chart = alt.layer(none, edges, points).properties(width=WIDTH, height=HEIGHT + 60)
    return style.themed(
        chart,
        "What distance from the data costs",
        "Means over seeds; medians of KL over training; lines: the bounds named above.",
    )


def deviations(frame: pl.DataFrame, order: list[str]):
    """Advantage deviation estimates over training, unsmoothed, first seed: how much they oscillate."""
    x = alt.X("share:Q", title="share of training", axis=alt.Axis(format="%", grid=False, tickCount=4))
    y = alt.Y("value:Q", title="deviation", scale=alt.Scale(type="log"))
    lines = (
        alt.Chart(frame)
        .mark_line(strokeWidth=1, opacity=0.8)
        .encode(x=x, y=y, color=style.colored("series", order, title="environments"))
    )
    panels = list(dict.fromkeys(frame["panel"]))
    return style.themed(
        style.paneled(lines, panels, 3, 140 if len(panels) > 1 else HEIGHT, y="independent"),
        "Estimates of the advantages' deviation from one batch",
        "Without the adjustment, first seed, not smoothed; logarithmic.",
    )


def power_law(frame: pl.DataFrame, marks: pl.DataFrame, y_title: str, title: str, subtitle: str, order: list[str]):
    """Lines (series) over minibatch size, both logarithmic, with a vertical mark (noise scale) in each panel."""
    x = alt.X(
        "size:Q",
        title="minibatch, samples",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(grid=False, format="~s"),
    )
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(type="log"))
    data = pl.concat([frame, marks], how="diagonal")
    base = alt.Chart(data)
    color = style.colored("series", order, [BLUE, ORANGE, GREY][: len(order)])
    lines = (
        base.transform_filter("isValid(datum.value)").mark_line(strokeWidth=2, point=True).encode(x=x, y=y, color=color)
    )
    band = (
        base.transform_filter("isValid(datum.value) && isValid(datum.lo)")
        .mark_area(opacity=0.15)
        .encode(x=x, y=alt.Y("lo:Q"), y2="hi:Q", color=color)
    )
    rule = (
        base.transform_filter("isValid(datum.at)").mark_rule(color=style.RED, strokeDash=[5, 3]).encode(x=alt.X("at:Q"))
    )
    panels = list(dict.fromkeys(frame["panel"]))
    return style.themed(style.paneled(alt.layer(band, lines, rule), panels, 2, y="independent"), title, subtitle)
