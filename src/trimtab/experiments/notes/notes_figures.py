"""Figures of the studies of the notes."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from trimtab.experiments.figures import Chart, effects, lines
from trimtab.math.stats import mean_interval
from trimtab.show.style import BLUE, ORANGE, ROW, colored, themed


def repeats(table: pl.DataFrame) -> Chart:
    """Numbers compared by configuration, coloured by whether all were the same."""
    data = table.with_columns(
        pl.when(pl.col("identical")).then(pl.lit("identical")).otherwise(pl.lit("different")).alias("outcome"),
        pl.col("compared").fill_null(0),
    )
    bars = alt.Chart(data.select("configuration", "compared", "outcome")).mark_bar(height=alt.RelativeBandSize(0.6))
    bars = bars.encode(
        y=alt.Y("configuration:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False, labelLimit=260)),
        x=alt.X("compared:Q", title="numbers compared"),
        color=colored("outcome", ["identical", "different"], [BLUE, ORANGE], symbolType="square"),
        tooltip=["configuration:N", "compared:Q", "outcome:N"],
    )
    return themed(
        bars.properties(width=380, height=ROW * max(1, len(data))),
        "Two runs of one configuration",
        "Every metric of every iteration, but those of time, compared bit for bit.",
    )


def estimators(table: pl.DataFrame, environments: list[str], stages: list[str]) -> Chart:
    """Variance of each estimator over that of whole returns, by environment and stage, on a logarithmic axis."""
    keys = ["environment", "stage", "seed"]
    own = table.filter(pl.col("estimator") == "whole return").select(*keys, pl.col("variance").alias("own"))
    data = table.join(own, on=keys).with_columns((pl.col("variance") / pl.col("own")).log().alias("log"))
    rows = []
    for environment in environments:
        for stage in stages:
            here = data.filter((pl.col("environment") == environment) & (pl.col("stage") == stage))
            for (name,), group in here.group_by("estimator", maintain_order=True):
                if name == "whole return":
                    continue
                e = mean_interval(group["log"].to_list())
                ends = pl.Series([e.value, e.lo, e.hi]).exp()
                labels = {"row": f"{environment}, {stage}", "series": name}
                rows.append(labels | dict(zip(("value", "lo", "hi"), ends)))
    return effects(
        pl.DataFrame(rows),
        "variance over that with whole returns (logarithmic)",
        "The variance of an episode's gradient, by estimator",
        "Computed from the transition table; geometric mean over seeds with its 95% interval.",
        log=True,
    )


def learning_over_minibatches(table: pl.DataFrame) -> Chart:
    """Area under the learning curve against minibatches per epoch, a panel for each environment."""
    rows = []
    here = table.filter(pl.col("split") == "8x128")
    for (environment, count), own in here.group_by("environment", "minibatches", maintain_order=True):
        e = mean_interval(own["area"].to_list())
        rows.append((environment, count, e.value, e.lo, e.hi))
    data = pl.DataFrame(rows, schema=["panel", "minibatches", "value", "lo", "hi"], orient="row")
    panels = list(dict.fromkeys(data["panel"]))
    return lines(
        data.sort("panel", "minibatches"),
        "minibatches",
        "minibatches per epoch (logarithmic)",
        "mean return over training",
        "Learning, by the number of minibatches at fixed data",
        "Area under the learning curve, mean over seeds with its 95% interval; batches of 1,024 samples.",
        panels=panels,
        log_x=True,
        zero=False,
    )


def noise_over_size(table: pl.DataFrame) -> Chart:
    """Variance of a minibatch gradient against its size, relative to the batch's."""
    between = table.filter(pl.col("quantity") == "batch_variance").select(
        "environment", "seed", pl.col("value").alias("between")
    )
    data = table.filter(pl.col("quantity") == "subsampling").join(between, on=["environment", "seed"])
    data = data.with_columns((pl.col("value") / pl.col("between") + 1).alias("relative"))
    rows = []
    for (environment, size), own in data.group_by("environment", "size", maintain_order=True):
        e = mean_interval(own["relative"].to_list())
        rows.append((environment, size, e.value, max(e.lo, 1e-3), e.hi))
    shown = pl.DataFrame(rows, schema=["series", "size", "value", "lo", "hi"], orient="row").sort("series", "size")
    return lines(
        shown,
        "size",
        "samples of a minibatch (logarithmic)",
        "variance over the batch's (logarithmic)",
        "The noise of a minibatch gradient, by its size",
        "Variance of one shuffled minibatch's gradient over that of the whole batch; mean over seeds with its 95% "
        "interval.",
        log_x=True,
        log_y=True,
    )


def rates(table: pl.DataFrame, start: Mapping[str, float], environments: list[str]) -> Chart:
    """What is learned, relative to the base batch, against how much larger the batch is, a line for each rule."""
    rows = []
    for environment in environments:
        here = table.filter(pl.col("environment") == environment)
        base = here.filter(pl.col("rule") == "base")["area"].mean()
        if base is None:
            continue
        for (rule, factor), own in here.group_by("rule", "factor", maintain_order=True):
            shares = (own["area"] - start[environment]) / (float(base) - start[environment])
            e = mean_interval(shares.to_list())
            for name in ("none", "sqrt", "linear") if rule == "base" else (rule,):
                rows.append((environment, name, factor, e.value, e.lo, e.hi))
    data = pl.DataFrame(rows, schema=["panel", "series", "factor", "value", "lo", "hi"], orient="row")
    return lines(
        data.sort("panel", "series", "factor"),
        "factor",
        "batch, times the base (logarithmic)",
        "area, relative to the base",
        "What a larger batch keeps, by the rule for its learning rate",
        "Area under the learning curve above an untrained policy, over that of the base batch; mean over seeds with "
        "its 95% interval.",
        series=["none", "sqrt", "linear"],
        panels=environments,
        log_x=True,
        zero=False,
    )
