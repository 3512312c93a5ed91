"""Figures of directions: how alike gradients are along a trajectory, across environments, with their means."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from trimtab.show.probe_series import Series, by_lag, few, last_step, measured, named
from trimtab.show.style import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    colored,
    lag_axis,
    layered,
    legend,
    on_cells,
    ordered,
    paneled,
    themed,
)

Chart = alt.TopLevelMixin
WITHIN, ACROSS = "within trajectories", "across environments"
SHORT, LONG = (1, 3, 5, 7), (1, 5, 10, 40)
BINS = 26
AXES = {"cosine": "mean cosine", "covariance": "correlation"}  # of the two lines, within and across


def of_frame(frame: pl.DataFrame) -> dict[str, Chart | None]:
    return {
        "cosine_correlation": _cosine_correlation(frame),
        "covariance_correlation": _covariance_correlation(frame),
        "cosine_distributions": _cosine_distributions(frame, SHORT),
        "cosine_distributions_long": _cosine_distributions(frame, LONG) if _reaches(frame, 10) else None,
        "trajectory_alignment": _trajectory_alignment(frame),
        "batch_alignment": _batch_alignment(frame),
        "replicate_cosines": _replicate_cosines(frame),
    }


# By lag ----------------------------------------------------------------------------------------------------


def _cosine_correlation(frame: pl.DataFrame) -> Chart | None:
    """Mean cosine of centred gradients k steps apart in a trajectory, and of pairs across environments."""
    return _by_lag(
        frame,
        "cosine",
        "Do gradients of one trajectory point the same way?",
        "Mean cosine, about the batch mean, of two gradients k steps apart in one trajectory (solid) and from "
        "different environments (dashed), for k up to T/2. "
        "A gap between the lines means that longer rows add less information.",
    )


def _covariance_correlation(frame: pl.DataFrame) -> Chart | None:
    """E[(g_i − μ)·(g_j − μ)] / E|g − μ|²: the correlation that enters the variance."""
    return _by_lag(
        frame,
        "covariance",
        "The correlation that adds to the variance",
        "Covariance of two gradients k steps apart, relative to the variance of one: in one trajectory (solid), "
        "across environments (dashed). Large gradients weigh more here than in the mean cosine: the two can disagree.",
    )


def _by_lag(frame: pl.DataFrame, name: str, title: str, subtitle: str) -> Chart | None:
    s = named(few(measured(frame, f"{name}_within", f"{name}_across")))
    within = by_lag(s.pick(f"{name}_within"))
    if within.is_empty():
        return None
    ends = within.group_by("series", "panel").agg(pl.col("lag").min().alias("first"), pl.col("lag").max().alias("last"))
    flat = s.pick(f"{name}_across").drop("lag").join(ends, on=["series", "panel"])
    across = pl.concat([flat.with_columns(pl.col(end).alias("lag")) for end in ("first", "last")])
    columns = ["series", "panel", "lag", "value", "kind"]
    data = pl.concat(
        [
            within.with_columns(pl.lit(WITHIN).alias("kind")).select(columns),
            across.with_columns(pl.lit(ACROSS).alias("kind")).select(columns),
        ]
    )
    several, kinds = len(s.series) > 1, [WITHIN, ACROSS]
    shown = None if several else legend(kinds, symbolType="stroke")
    dash = alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 4]]), legend=shown, title=None)
    color = colored("series", s.series, ordered(len(s.series)), s.title)
    color = color if several else colored("kind", kinds, [BLUE, GREY], symbolType="stroke")
    lines = (
        alt.Chart(data)
        .mark_line(strokeWidth=2.2)
        .encode(
            x=lag_axis(),
            y=alt.Y("value:Q", title=AXES[name]),
            color=color,
            strokeDash=dash,
            tooltip=["series:N", "kind:N", "lag:Q", alt.Tooltip("value:Q", format=".3f")],
        )
    )
    zero = alt.Chart().mark_rule(color="#9aa3ad").encode(y=alt.datum(0))
    return themed(paneled(layered(zero, lines, data=data), s.present(data)), title, _with(subtitle, s))


def _trajectory_alignment(frame: pl.DataFrame) -> Chart | None:
    """cos(g_t, mean of its trajectory) by t, with the middle nine tenths."""
    measurements, note = last_step(measured(frame, "cosine_trajectory_mean"))
    s = named(few(measurements))
    cosines = s.pick("cosine_trajectory_mean")
    if cosines.is_empty():
        return None
    width = max(1, max(cosines["lag"].to_list()) // 40)
    means = [pl.col(c).mean() for c in ("lag", "value", "lo", "hi")]
    data = cosines.group_by("series", "panel", pl.col("lag").floordiv(width).alias("bin"), maintain_order=True).agg(
        means
    )
    color = colored("series", s.series, ordered(len(s.series)), s.title) if len(s.series) > 1 else alt.value(BLUE)
    base = alt.Chart(data).encode(x=alt.X("lag:Q", title="step within the trajectory", axis=alt.Axis(grid=False)))
    layers = [alt.Chart().mark_rule(color="#9aa3ad").encode(y=alt.datum(0))]
    if len(s.series) == 1:
        layers.append(base.mark_area(opacity=0.15, color=BLUE).encode(y="lo:Q", y2="hi:Q"))
    y = alt.Y("value:Q", title="mean cosine")
    layers.append(base.mark_line(strokeWidth=2).encode(y=y, color=color, tooltip=["lag:Q", "value:Q"]))
    return themed(
        paneled(layered(*layers, data=data), s.present(data)),
        "Which part of a trajectory agrees with its mean gradient",
        _with(
            "Mean cosine of g_t with the mean gradient of its trajectory."
            + (" Band: the middle nine tenths of samples." if len(s.series) == 1 else ""),
            s,
            note,
        ),
    )


# Distributions ---------------------------------------------------------------------------------------------


def _cosine_distributions(frame: pl.DataFrame, lags: tuple[int, ...]) -> Chart | None:
    """Histograms of cosines within trajectories at some lags, over the histogram across environments."""
    measurements, note = last_step(measured(frame, "cosine_within_value", "cosine_across_value"))
    s = named(few(measurements, 3))
    within = s.pick("cosine_within_value").filter(pl.col("lag").is_in(lags))
    lags = tuple(k for k in lags if k in set(within["lag"]))
    complete = pl.col("lag").n_unique().over("series", "panel") == len(lags)  # short rows have no long lags
    within = within.filter(complete)
    if within.is_empty():
        return None
    rows, panels = [], []
    for (series, panel), own in within.group_by("series", "panel", maintain_order=True):
        across = s.pick("cosine_across_value").filter((pl.col("series") == series) & (pl.col("panel") == panel))
        where = ", ".join(p for p in (panel, series) if p) + ": " if len(s.series) * len(s.panels) > 1 else ""
        for lag in lags:
            label = f"{where}lag {lag}"
            panels.append(label)
            rows += _histogram(across["value"], panel=label, kind=ACROSS)
            rows += _histogram(own.filter(pl.col("lag") == lag)["value"], panel=label, kind=WITHIN)
    data = pl.DataFrame(rows)
    return themed(
        paneled(_over(data), panels, columns=min(4, len(lags)), height=120),
        f"Gradients {_listed(lags)} steps apart: more alike than gradients of different environments?",
        _with(
            "Cosines about the batch mean of pairs in one trajectory, over pairs from different environments.", s, note
        ),
    )


def _batch_alignment(frame: pl.DataFrame) -> Chart | None:
    """Distribution of cos(g_i, batch mean), one panel for each probe."""
    measurements, note = last_step(measured(frame, "cosine_batch_mean_value"))
    s = named(few(measurements))
    rows, panels = [], []
    for (series, panel), own in s.pick("cosine_batch_mean_value").group_by("series", "panel", maintain_order=True):
        panels.append(", ".join(p for p in (panel, series) if p))
        rows += _histogram(own["value"], panel=panels[-1], kind="samples", mean=own["value"].mean())
    if not rows:
        return None
    data = pl.DataFrame(rows)
    mean = alt.Chart(data).mark_rule(color=RED, strokeWidth=1.6).encode(x="mean(mean):Q")
    bars = alt.Chart(data).mark_area(interpolate="step-after", color=BLUE, opacity=0.55).encode(**_density())
    chart = layered(bars, mean, data=data)
    return themed(
        paneled(chart, panels, columns=min(3, len(panels)), height=130),
        "How well single samples agree with the batch gradient",
        _with(
            "Cosine of each sample's gradient with the batch mean; red, the average. The two sides of 0 cancel.",
            s,
            note,
        ),
    )


def _histogram(values: pl.Series, **labels: Any) -> list[dict[str, Any]]:
    """Densities at the left edges of bins, and 0 at the right end; nothing where there are no values."""
    if values.is_empty():
        return []
    density, edges = np.histogram(values.to_numpy(), bins=BINS, range=(-1, 1), density=True)
    return [{"x": float(x), "density": float(d), **labels} for x, d in zip(edges, [*density, 0.0])]


def _over(data: pl.DataFrame) -> alt.LayerChart:
    """An outline for pairs within trajectories over a filled histogram of pairs across environments."""
    color = colored("kind", [WITHIN, ACROSS], [ORANGE, "#b4bac2"], symbolType="square")
    base = alt.Chart(data).encode(**_density(), color=color)
    across = base.transform_filter(f"datum.kind == '{ACROSS}'").mark_area(interpolate="step-after", opacity=0.75)
    within = base.transform_filter(f"datum.kind == '{WITHIN}'").mark_line(interpolate="step-after", strokeWidth=1.8)
    return layered(across, within, data=data)


def _density() -> dict[str, Any]:
    axis = alt.Axis(values=[-1, -0.5, 0, 0.5, 1], grid=False, format="~g", labelOverlap=True)
    return {
        "x": alt.X("x:Q", title="cosine", scale=alt.Scale(domain=[-1, 1]), axis=axis),
        "y": alt.Y("density:Q", title="density", stack=None, axis=alt.Axis(tickCount=3)),
    }


# Batches ---------------------------------------------------------------------------------------------------


def _replicate_cosines(frame: pl.DataFrame) -> Chart | None:
    """Cosines between the mean gradients of independent batches from the same policy."""
    measurements, note = last_step(measured(frame, "replicate_cosine"))
    s = named(few(measurements))
    cosines = s.pick("replicate_cosine")
    if cosines.is_empty():
        return None
    place = pl.col("note").str.split(",").list
    several = len(s.series) * len(s.panels) > 1
    label = pl.when(pl.col("panel") == "").then(pl.col("series")).otherwise(pl.col("panel") + ", " + pl.col("series"))
    data = cosines.with_columns(place.get(0).alias("i"), place.get(1).alias("j"), label.alias("panel"))
    panels = list(dict.fromkeys(data["panel"])) if several else [""]
    data = data.select("panel", "i", "j", "value")
    axis = alt.Axis(labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(data).encode(x=alt.X("i:O", title="batch", axis=axis), y=alt.Y("j:O", title="batch", axis=axis))
    scale = alt.Scale(domain=[-1, 0, 1], range=[RED, "#ffffff", BLUE], interpolate="lab")
    bar = alt.Legend(orient="top", title="cosine", gradientLength=180, values=[-1, 0, 1])
    cells = base.mark_rect(stroke="#e3e7eb").encode(color=alt.Color("value:Q", scale=scale, legend=bar))
    text = base.mark_text(fontSize=11).encode(
        text=alt.Text("value:Q", format=".2f"),
        color=on_cells(),
    )
    chart = paneled(layered(cells, text, data=data), panels, columns=min(3, len(panels)), height=200)
    if not several:
        chart = chart.properties(width=280, height=250, usermeta={"fixed": True})
    return themed(
        chart,
        "Do independent batches agree on the direction?",
        _with(
            "Cosines between mean gradients of independent batches from one frozen policy. Blue agrees, red opposes.",
            s,
            note,
        ),
    )


def _reaches(frame: pl.DataFrame, lag: int) -> bool:
    return not frame.filter((pl.col("quantity") == "cosine_within_value") & (pl.col("lag") >= lag)).is_empty()


def _with(subtitle: str, s: Series, note: str = "") -> str:
    return " ".join(p for p in (subtitle, note, f"{s.where}." if s.where else "") if p)


def _listed(lags: tuple[int, ...]) -> str:
    return str(lags[0]) if len(lags) == 1 else ", ".join(map(str, lags[:-1])) + f" and {lags[-1]}"
