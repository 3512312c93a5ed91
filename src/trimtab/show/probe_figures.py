"""Figures of probes: the table of measurements in, charts by name out. Only what the table holds is drawn."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from trimtab.core.quantities import labels, quantity
from trimtab.show import cosine_figures
from trimtab.show.probe_series import Series, by_lag, few, measured, named
from trimtab.show.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    ROW,
    SHORT_NUMBER,
    colored,
    lag_axis,
    layered,
    ordered,
    paneled,
    rows_of,
    themed,
)

Chart = alt.TopLevelMixin
COLORS = {"individual": BLUE, "covariance": ORANGE, "between_rows": GREEN, "bias_sq": PURPLE, "variance": BLUE}
TERMS = {quantity(name).label: color for name, color in COLORS.items()}
ZERO = alt.Chart().mark_rule(color="#9aa3ad", strokeWidth=1)


def of_frame(frame: pl.DataFrame) -> dict[str, Chart]:
    """Every figure the table has measurements for."""
    charts = {
        "variance": _variance(frame),
        "bias_variance": _bias_variance(frame),
        "lag_covariance": _lag_covariance(frame),
        **cosine_figures.of_frame(frame),
        "noise_scale": _noise_scale(frame),
        "noise_scale_environments": _noise_scale_environments(frame),
        "minibatch_drift": _minibatch_drift(frame),
        "clip_bias": _clip_bias(frame),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


# Variance and bias -----------------------------------------------------------------------------------------


def _variance(frame: pl.DataFrame) -> Chart | None:
    """Var(G_B) as individual + within rows + between rows, with the interval of their sum."""
    s = named(frame)
    shared = not s.pick("between_rows").is_empty()
    return _stacked_terms(
        s,
        labels("individual", "covariance", *(["between_rows"] if shared else [])),
        "variance",
        "Variance of the batch gradient: what single samples add, and what their correlation adds",
        "Bars: individual samples, correlation within rows"
        + (", and between rows (what environments share)" if shared else "")
        + ". Dot and line: their sum with its 95% interval. A bar left of 0 means correlation cancels noise.",
    )


def _bias_variance(frame: pl.DataFrame) -> Chart | None:
    """MSE = variance + |bias|², with the interval of the sum."""
    return _stacked_terms(
        named(frame),
        labels("variance", "bias_sq"),
        "mse",
        "Error of the batch gradient: noise against bias",
        "Bars: variance and squared bias. Dot and line: mean squared error with its 95% interval.",
    )


def _stacked_terms(s: Series, parts: dict[str, str], total: str, title: str, subtitle: str) -> Chart | None:
    """Stacked bars of some quantities, one row for each series, and the total as a point with its interval."""
    terms = s.pick(*parts).with_columns(pl.col("quantity").replace(parts).alias("part"))
    if terms["part"].n_unique() < len(parts):
        return None
    sums = s.pick(total).with_columns(pl.lit("total").alias("part"))
    terms, sums, x = _comparable(terms, sums, next(iter(parts)), quantity(total).axis)
    order = {name: i for i, name in enumerate(parts.values())}
    columns = ["series", "panel", "part", "value", "lo", "hi"]
    data = pl.concat([terms.select(columns), sums.select(columns)]).with_columns(
        pl.col("part").replace_strict(order, default=None, return_dtype=pl.Int64).alias("order")
    )
    layers = stacked_layers(data, list(parts.values()), s.series, s.title, x)
    chart = paneled(layers, s.present(data), height=ROW * len(s.series) + 6, x="independent")
    return themed(chart, title, _join(subtitle, s.where and f"{s.where}."))


def _comparable(terms: pl.DataFrame, sums: pl.DataFrame, first: str, x: str) -> tuple[pl.DataFrame, pl.DataFrame, str]:
    """Over training gradients change by orders of magnitude: then every row is relative to its own first term."""
    sizes: list[float] = sums["value"].drop_nulls().to_list()
    if not sizes or min(sizes) <= 0 or max(sizes) / min(sizes) < 30:
        return terms, sums, x
    keys = ["series", "panel"]
    own = terms.filter(pl.col("quantity") == first).select(*keys, pl.col("value").alias("own"))
    terms, sums = (
        f.join(own, on=keys).with_columns(pl.col("value", "lo", "hi") / pl.col("own")).drop("own")
        for f in (terms, sums)
    )
    return terms, sums, f"relative to each row's own {first} term"


def stacked_layers(
    data: pl.DataFrame, parts: list[str], rows: list[str], row_title: str | None, x: str
) -> alt.LayerChart:
    """Bars stacked by `part`, one row for each of `series`; part `total` as a point with its interval."""
    y = rows_of(rows, row_title)
    base = alt.Chart(data).encode(y=y)
    axis = alt.Axis(labelExpr=SHORT_NUMBER, tickCount=5)
    bars = (
        base.transform_filter("datum.part != 'total'")
        .mark_bar(height=alt.RelativeBandSize(0.62))
        .encode(
            x=alt.X("value:Q", title=x, axis=axis, stack="zero"),
            color=colored("part", parts, [TERMS[p] for p in parts], symbolType="square"),
            order=alt.Order("order:Q"),
            tooltip=["series:N", "part:N", *_tooltip()],
        )
    )
    totals = base.transform_filter("datum.part == 'total'")
    rule = totals.mark_rule(strokeWidth=2, color="#23282f").encode(x="lo:Q", x2="hi:Q")
    dot = totals.mark_point(filled=True, size=44, color="#23282f", opacity=1).encode(
        x="value:Q", tooltip=["series:N", *_tooltip()]
    )
    zero = ZERO.encode(x=alt.datum(0))
    return layered(bars, zero, rule, dot, data=data)


def _lag_covariance(frame: pl.DataFrame) -> Chart | None:
    """C_k, the covariance of gradients k steps apart, up to half of T."""
    s = named(few(measured(frame, "lag_covariance")))
    covariances = s.pick("lag_covariance")
    own = covariances.filter(pl.col("lag") == 0).select("series", "panel", pl.col("value").alias("own"))
    data = by_lag(covariances).join(own, on=["series", "panel"]).filter(pl.col("own") > 0)
    if data.is_empty():
        return None
    data = data.with_columns(pl.col("value", "lo", "hi") / pl.col("own")).drop("own")
    base = alt.Chart(data).encode(x=lag_axis())
    y = alt.Y("value:Q", title=f"{quantity('lag_covariance').symbol} / C_0")
    band = base.mark_area(opacity=0.16).encode(y=alt.Y("lo:Q"), y2="hi:Q", color=_color(s))
    line = base.mark_line(strokeWidth=2).encode(y=y, color=_color(s), tooltip=["series:N", "lag:Q", *_tooltip()])
    return themed(
        paneled(layered(band, ZERO.encode(y=alt.datum(0)), line, data=data), s.present(data)),
        "How long gradients along a row stay correlated",
        _join(
            "Covariance C_k of gradients k steps apart over C_0, for k up to T/2 (long lags averaged), with 95% bands. "
            "Above 0, neighbouring steps repeat each other; at 0, they are as good as new samples.",
            s.where and f"{s.where}, C_0 = {own['own'][0]:.3g} {quantity('lag_covariance').unit}.",
        ),
    )


# Noise scales ----------------------------------------------------------------------------------------------


def _noise_scale(frame: pl.DataFrame) -> Chart | None:
    """Batch sizes, in samples, at which noise equals signal, beside the batch that was measured."""
    kinds = {"noise_scale": "as if independent", "noise_scale_trajectory": "as correlated"}
    batch = (pl.col("num_envs") * pl.col("num_steps")).cast(pl.Float64)
    return _scales(
        named(frame),
        kinds,
        batch,
        "Batch size at which noise equals signal",
        "Noise scales with 95% intervals, in samples: if samples were independent, and with their correlation. "
        "Grey tick: the batch N × T. Left of the tick, more samples buy little.",
    )


def _noise_scale_environments(frame: pl.DataFrame) -> Chart | None:
    """The number of environments, at the measured T, at which noise equals signal."""
    return _scales(
        named(frame),
        {"noise_scale_environments": "environments"},
        pl.col("num_envs").cast(pl.Float64),
        "Environments at which noise equals signal, at each T",
        "Noise scale in rows of T steps with its 95% interval. Grey tick: the N measured.",
    )


def _scales(s: Series, kinds: dict[str, str], size: pl.Expr, title: str, subtitle: str) -> Chart | None:
    measurements = s.frame.filter(pl.col("quantity").is_in(list(kinds)))
    if not measurements["value"].count():
        return None
    data = measurements.with_columns(
        pl.col("quantity").replace(kinds).alias("kind"),
        size.alias("size"),
        pl.col("hi").is_infinite().alias("open"),
        pl.when("resolved").then(pl.lit("")).otherwise(pl.lit("inconclusive")).alias("text"),
    )
    ends = [v for c in ("value", "lo", "hi", "size") for v in data[c].drop_nulls() if 0 < v < float("inf")]
    low, high = min(ends) / 1.6, max(ends) * 1.6
    data = data.with_columns(pl.col("hi").clip(upper_bound=high), pl.col("lo").clip(lower_bound=low)).select(
        "series", "panel", "kind", "size", "value", "lo", "hi", "open", "text"
    )
    y = rows_of(s.series, s.title)
    labels = list(kinds.values())
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    at = alt.X("value:Q", title=_unit_axis(*kinds), scale=scale, axis=alt.Axis(format="~s", tickCount=4, grid=False))
    color = colored("kind", labels, [BLUE, ORANGE][: len(labels)]) if len(labels) > 1 else alt.value(BLUE)
    base = alt.Chart(data).encode(y=y, yOffset=alt.YOffset("kind:N", sort=labels))
    resolved = base.transform_filter("datum.text == ''")
    layers = layered(
        alt.Chart(data).mark_tick(color=GREY, thickness=3, height=24).encode(y=y, x=alt.X("size:Q", scale=scale)),
        resolved.mark_rule(strokeWidth=2.5).encode(x=alt.X("lo:Q", scale=scale), x2="hi:Q", color=color),
        resolved.mark_point(filled=True, size=64, opacity=1).encode(x=at, color=color, tooltip=["kind:N", *_tooltip()]),
        resolved.transform_filter("datum.open")
        .mark_point(shape="triangle-right", filled=True, size=70, opacity=1)
        .encode(x=alt.X("hi:Q", scale=scale), color=color),
        alt.Chart(data)
        .transform_filter(f"datum.text != '' && datum.kind == '{labels[0]}'")
        .mark_text(align="left", dx=4, color="#5b6470", fontSize=11)
        .encode(y=y, x=alt.datum(low), text="text:N"),
        data=data,
    )
    height = ROW * len(s.series) + 10
    return themed(paneled(layers, s.present(data), height=height), title, _join(subtitle, s.where and f"{s.where}."))


# Minibatches -----------------------------------------------------------------------------------------------


def _minibatch_drift(frame: pl.DataFrame) -> Chart | None:
    """Cosine of each minibatch gradient with the batch gradient of the start, over the updates of one iteration."""
    return _updates(
        frame,
        "minibatch_drift",
        "How far updates within an iteration drift from the batch gradient",
        "Cosine of each minibatch gradient with the gradient of the whole batch before the first update",
    )


def _clip_bias(frame: pl.DataFrame) -> Chart | None:
    """|clipped − importance-weighted| over |importance-weighted|, over the updates of one iteration."""
    return _updates(
        frame,
        "minibatch_clip_bias",
        "How much clipping changes the gradient as an iteration goes on",
        "Difference of the clipped and the importance-weighted gradient, relative to the latter",
    )


def _updates(frame: pl.DataFrame, name: str, title: str, subtitle: str) -> Chart | None:
    s = named(few(_distinct(frame.filter(pl.col("quantity") == name))))
    data = s.pick(name).select("series", "panel", "lag", "value")
    last: int = max(data["lag"].to_list(), default=0)  # update
    if last < 1:
        return None
    window = max(1, (last + 1) // 12)
    smooth = pl.col("value").rolling_mean(window, min_samples=1, center=True).over("series", "panel")
    data = data.with_columns(smooth.alias("mean"), pl.col("lag") + 1)
    x = alt.X(
        "lag:Q",
        title="update within the iteration",
        axis=alt.Axis(grid=False, tickMinStep=1, tickCount=8),
        scale=alt.Scale(domain=[1, last + 1], nice=False),
    )
    base = alt.Chart(data).encode(x=x, color=_color(s))
    at = alt.Y(
        "mean:Q", title=quantity(name).axis, scale=alt.Scale(domainMax=0.1) if max(data["value"]) <= 0 else alt.Scale()
    )
    line = base.mark_line(strokeWidth=2.4).encode(y=at, tooltip=["lag:Q", alt.Tooltip("mean:Q", format=".3g")])
    dots = base.mark_point(filled=True, size=16, opacity=0.35).encode(y="value:Q")
    layers = [ZERO.encode(y=alt.datum(0)), *([dots] if len(s.series) == 1 else []), line]
    words = "dots, each minibatch; line, a running mean." if len(s.series) == 1 else "a running mean."
    return themed(
        paneled(layered(*layers, data=data), s.present(data)),
        title,
        _join(f"{subtitle}: {words}", s.where and f"{s.where}."),
    )


def _distinct(frame: pl.DataFrame) -> pl.DataFrame:
    """One λ, where the updates are the same for all."""
    same = frame.group_by("split", "step", "lag").agg(pl.col("value").n_unique())["value"]
    return frame if frame.is_empty() or max(same) > 1 else frame.filter(pl.col("gae_lambda") == frame["gae_lambda"][0])


# Shared ----------------------------------------------------------------------------------------------------


def _color(s: Series) -> Any:
    return colored("series", s.series, ordered(len(s.series)), s.title) if len(s.series) > 1 else alt.value(BLUE)


def _unit_axis(*names: str) -> str:
    """The title of an axis that several quantities of one unit share."""
    unit, scale = {(quantity(name).unit, quantity(name).scale) for name in names}.pop()
    return f"{unit}, logarithmic" if scale == "log" else unit


def _tooltip() -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:Q", format=".3g") for name in ("value", "lo", "hi")]


def _join(*parts: str) -> str:
    return " ".join(p for p in parts if p)
