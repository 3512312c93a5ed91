"""Figures of minibatches: variance by size and way of cutting, drift and clip bias by epoch."""

from __future__ import annotations

import polars as pl

from trimtab.experiments.figures import Chart, lines
from trimtab.math.stats import mean_interval

WAYS = ["shuffled samples", "whole rows", "contiguous blocks"]
TITLES = {
    "drift": (
        "Drift: how far updates still follow the batch gradient",
        "Cosine of each minibatch gradient with the gradient of the whole batch before the first update, mean of each "
        "epoch; over seeds with its 95% interval.",
        "mean cosine",
    ),
    "clip_bias": (
        "Clip bias: how far clipping moves the gradient",
        "Distance of the clipped from the importance-weighted minibatch gradient over the latter's norm, mean of each "
        "epoch; over seeds with its 95% interval.",
        "relative distance",
    ),
}


def by_size(table: pl.DataFrame) -> Chart:
    """Variance of a minibatch gradient by size, relative to independent samples, a line for each way of cutting."""
    keys = ["stage", "split", "seed"]
    pick = lambda name: table.filter(pl.col("quantity") == name).select(*keys, pl.col("value").alias(name))
    data = table.filter(pl.col("quantity") == "subsampling").join(pick("batch_variance"), on=keys)
    data = data.join(pick("sample_variance"), on=keys).with_columns(
        ((pl.col("value") + pl.col("batch_variance")) * pl.col("size") / pl.col("sample_variance")).alias("relative"),
        pl.format("{}, {}", pl.col("split").str.replace("x", " × "), "stage").alias("panel"),
    )
    rows = []
    for (panel, way, size), own in data.group_by("panel", "way", "size", maintain_order=True):
        e = mean_interval(own["relative"].to_list())
        rows.append((panel, way, size, e.value, e.lo, e.hi))
    shown = pl.DataFrame(rows, schema=["panel", "series", "size", "value", "lo", "hi"], orient="row")
    return lines(
        shown.sort("panel", "series", "size"),
        "size",
        "samples of a minibatch (logarithmic)",
        "variance / independent samples'",
        "The noise of a minibatch gradient, by how minibatches are cut",
        "Variance of one minibatch gradient relative to that of as many independent samples; mean over seeds with its "
        "95% interval.",
        series=WAYS,
        panels=list(dict.fromkeys(shown["panel"])),
        log_x=True,
        zero=False,
    )


def by_epoch(table: pl.DataFrame, quantity: str, stages: list[str]) -> Chart:
    """Drift or clip bias by epoch, a line for each stage."""
    title, subtitle, axis = TITLES[quantity]
    rows = []
    here = table.filter((pl.col("quantity") == quantity) & pl.col("stage").is_in(stages))
    for (stage, epoch), own in here.group_by("stage", "epoch", maintain_order=True):
        e = mean_interval(own["value"].to_list())
        rows.append((stage, epoch + 1, e.value, e.lo, e.hi))
    data = pl.DataFrame(rows, schema=["series", "epoch", "value", "lo", "hi"], orient="row").sort("series", "epoch")
    return lines(data, "epoch", "epoch", axis, title, subtitle, series=stages)
