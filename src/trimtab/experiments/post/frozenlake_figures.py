"""Figures of the draft's study of FrozenLake."""

from __future__ import annotations

import altair as alt
import polars as pl

from trimtab.experiments.figures import ZERO, Chart, lines
from trimtab.math.stats import mean_interval
from trimtab.show.style import BLUE, GREY, ORANGE, RED, colored, paneled, themed

COLUMNS = ["4 × 32", "32 × 4"]


def against_others(values: pl.DataFrame, update: int) -> Chart:
    """cos(g_i of batch 0, mean of batch j): a row for each j from 0 to 4, a column for each split."""
    here = values.filter(pl.col("update") == update).with_columns(
        pl.col("split").str.replace("x", " × ").alias("column"),
        pl.format("batch {}", "batch").alias("row"),
        pl.col("value").round(3),
    )
    rows, data = sorted(set(here["row"])), here.select("column", "row", "sample", "value")
    base = alt.Chart(data)
    x = alt.X("sample:Q", title="sample", axis=alt.Axis(grid=False, tickCount=4), scale=alt.Scale(nice=False))
    axis = alt.Axis(values=[-0.5, 0.5], format="~g")
    y = alt.Y("value:Q", title="cosine", stack=None, scale=alt.Scale(domain=[-1, 1]), axis=axis)
    sign = alt.condition("datum.value < 0", alt.value(RED), alt.value(BLUE))
    bars = base.mark_bar(width=2).encode(x=x, y=y, color=sign)
    cells = alt.layer(bars, ZERO.encode(y=alt.datum(0)), data=data)
    grid = cells.properties(width=280, height=56).facet(
        column=alt.Column("column:N", sort=COLUMNS, title=None),
        row=alt.Row("row:N", sort=rows, title=None, header=alt.Header(labelAngle=0, labelAlign="left")),
        spacing=8,
    )
    return themed(
        grid.properties(usermeta={"columns": len(COLUMNS), "labels": 34}),
        f"Batch 0 against the means of batches 0 to 4, update {update:,}",
        "Cosine of each sample's gradient in batch 0 with the mean gradient of batch j. Blue agrees, red opposes.",
    )


def spreads(alignments: pl.DataFrame) -> Chart:
    """Standard deviation over pairs of batches of the mean alignment, by update, with the interval over seeds."""
    by_seed = alignments.group_by("seed", "split", "update", maintain_order=True).agg(pl.col("value").std())
    rows = []
    for (split, update), own in by_seed.group_by("split", "update", maintain_order=True):
        e = mean_interval(own["value"].drop_nulls().to_list())
        rows.append((split.replace("x", " × "), update, e.value, max(e.lo, 0.0), e.hi))  # no spread is below 0
    data = pl.DataFrame(rows, schema=["series", "update", "value", "lo", "hi"], orient="row").sort("series", "update")
    return lines(
        data,
        "update",
        "update",
        "standard deviation of mean cosines",
        "How much batches differ in agreeing with one another",
        "Over pairs of independent batches: spread of the mean cosine of one's samples with the other's mean; over "
        "seeds with its 95% interval.",
        series=COLUMNS,
    )


def courses(course: pl.DataFrame) -> Chart:
    """cos(g_t, trajectory mean) along the first episodes of one seed, a panel for each update."""
    label = pl.format("update {}, {} episodes", "update", pl.col("episode").n_unique().over("update"))
    data = course.with_columns(label.alias("panel"), pl.len().over("update", "episode").alias("length"))
    data = data.with_columns((1 / pl.col("length").sqrt()).alias("chance"))
    panels = list(dict.fromkeys(data["panel"]))
    y = alt.Y("value:Q", title="cosine", scale=alt.Scale(domain=[-1, 1]))
    x = alt.X("t:Q", title="step of the episode", axis=alt.Axis(grid=False))
    base = alt.Chart(data)
    line = base.mark_line(strokeWidth=1.4, opacity=0.8, color=BLUE).encode(x=x, y=y, detail="episode:N")
    chance = base.mark_line(strokeDash=[5, 4], color=GREY).encode(x=x, y="chance:Q", detail="episode:N")
    return themed(
        paneled(alt.layer(line, chance, ZERO.encode(y=alt.datum(0)), data=data), panels, height=200),
        "How a gradient agrees with its trajectory, along single episodes",
        "Cosine of g_t with the mean gradient of its episode (solid), and 1/√L for its length L (dashed).",
    )


def by_length(episodes: pl.DataFrame) -> Chart:
    """Mean cosine of an episode against its length, many episodes, over 1/√L."""
    data = episodes.sample(min(len(episodes), 1500), seed=0).with_columns(
        pl.format("update {}", "update").alias("series"), pl.lit("episodes").alias("kind")
    )
    labels = sorted(set(data["series"]))
    longest = max(int(data["length"].max() or 2), 4)
    curve = pl.DataFrame({"length": list(range(2, longest + 1))}).with_columns(
        (1 / pl.col("length").sqrt()).alias("value")
    )
    x = alt.X("length:Q", title="steps of the episode (logarithmic)", scale=alt.Scale(type="log", nice=False))
    points = (
        alt.Chart(data)
        .mark_point(filled=True, size=16, opacity=0.35)
        .encode(
            x=x,
            y=alt.Y("value:Q", title="mean cosine with the trajectory's mean"),
            color=colored("series", labels, [BLUE, ORANGE][: len(labels)], symbolType="circle"),
        )
    )
    line = alt.Chart(curve).mark_line(color="#23282f", strokeDash=[5, 4]).encode(x=x, y="value:Q")
    return themed(
        alt.layer(points, line).properties(width=520, height=260),
        "Episodes against chance",
        "Each point an episode; dashed, 1/√L: the cosine that L independent gradients have with their own mean.",
    )


def advantage_noise(data: pl.DataFrame) -> Chart:
    """Variance of advantages against T, with the interval over seeds."""
    return lines(
        data.sort("num_steps"),
        "num_steps",
        "T, steps of a row (logarithmic)",
        "variance of advantages",
        "How noisy advantages are, by the length of rows",
        "Raw advantages of batches of 128 samples, mean over updates and seeds with its 95% interval.",
        log_x=True,
    )
