"""Figures of the post's study of λ."""

from __future__ import annotations

import polars as pl

from trimtab.experiments.figures import Chart, distributions, heat_maps, lines
from trimtab.math.stats import mean_interval

SHOWN = (0.0, 0.95, 1.0)


def _over_seeds(data: pl.DataFrame, ratios: bool = False) -> pl.DataFrame:
    """Mean (geometric, of ratios) with its interval over seeds by series and λ."""
    rows = []
    for (series, gae_lambda), own in data.group_by("series", "gae_lambda", maintain_order=True):
        values = own["value"].drop_nulls()
        e = mean_interval((values.log() if ratios else values).to_list())
        ends = pl.Series([e.value, e.lo, e.hi])
        interval = dict(zip(("value", "lo", "hi"), ends.exp() if ratios else ends))
        rows.append({"series": series, "gae_lambda": gae_lambda} | interval)
    return pl.DataFrame(rows).sort("series", "gae_lambda")


def variance_over_lambda(numbers: pl.DataFrame, splits: list[str]) -> Chart:
    """Variance against λ, relative to the variance at 0.95 of the same split and seed."""
    here = numbers.filter(pl.col("quantity") == "variance")
    own = here.filter(pl.col("gae_lambda") == 0.95).select("seed", "split", pl.col("value").alias("own"))
    data = here.join(own, on=["seed", "split"]).with_columns(
        (pl.col("value") / pl.col("own")).alias("value"), pl.col("split").str.replace("x", " × ").alias("series")
    )
    return lines(
        _over_seeds(data.filter(pl.col("series").is_in(splits)), ratios=True),
        "gae_lambda",
        "λ",
        "variance, relative to λ = 0.95",
        "What λ does to the variance of the batch gradient",
        "Relative to the same split's variance at λ = 0.95; mean over seeds with its 95% interval of logarithms.",
        series=splits,
        log_y=True,
    )


def bias_over_lambda(numbers: pl.DataFrame, splits: list[str]) -> Chart:
    """bias² against λ, in units of a sample's variance at 4 × 256 and 0.95."""
    unit = numbers.filter(
        (pl.col("quantity") == "per_sample") & (pl.col("split") == "4x256") & (pl.col("gae_lambda") == 0.95)
    ).select("seed", pl.col("value").alias("unit"))
    data = numbers.filter(pl.col("quantity") == "bias_sq").join(unit, on="seed")
    data = data.with_columns(
        (pl.col("value") / pl.col("unit")).alias("value"), pl.col("split").str.replace("x", " × ").alias("series")
    )
    return lines(
        _over_seeds(data.filter(pl.col("series").is_in(splits))),
        "gae_lambda",
        "λ",
        "bias², in variances of a sample",
        "What λ does to the bias of the batch gradient",
        "Squared distance of the expected gradient from the true one, without the bias of squaring noise; mean over "
        "seeds with its 95% interval, which may reach below 0.",
        series=splits,
    )


def far_cosines(values: pl.DataFrame) -> Chart:
    """Cosines of pairs 40 steps apart over those of strangers, at λ = 0 and 1."""
    here = values.filter((pl.col("split") == "4x256") & pl.col("gae_lambda").is_in([0.0, 1.0]))
    kinds = {"cosine_within_value": "within trajectories, lag 40", "cosine_across_value": "across environments"}
    data = here.filter(pl.col("quantity").is_in(list(kinds))).select(
        pl.format("λ = {}", pl.col("gae_lambda").cast(pl.Int64)).alias("panel"),
        pl.col("quantity").replace_strict(kinds, return_dtype=pl.String).alias("kind"),
        "value",
    )
    return distributions(
        data,
        "Still alike 40 steps later, whatever λ?",
        "Cosines about the batch mean at 4 × 256, all seeds.",
        panels=["λ = 0", "λ = 1"],
        kinds=list(kinds.values()),
        columns=2,
    )


def sample_alignment(values: pl.DataFrame) -> Chart:
    """cos(g_i, mean of its batch) at three λ and both splits."""
    here = values.filter((pl.col("quantity") == "sample_own_value") & pl.col("gae_lambda").is_in(SHOWN))
    data = here.select(
        pl.col("split").str.replace("x", " × ").alias("panel"), _lambda_label().alias("kind"), "value"
    ).sort("panel", "kind", descending=[True, False])
    return distributions(
        data,
        "How well single samples agree with their batch, over λ",
        "Cosine of each sample's gradient with the mean of its batch, many batches, all seeds.",
        panels=list(dict.fromkeys(data["panel"])),
        kinds=["λ = 0.0", "λ = 0.95", "λ = 1.0"],
        columns=2,
    )


def five_batches(batches: pl.DataFrame) -> Chart:
    """Cosines between the means of five batches of the first seed at 4 × 256, one panel for each λ."""
    here = batches.filter((pl.col("split") == "4x256") & (pl.col("seed") == batches["seed"].min()))
    here = here.filter((pl.col("i") < 5) & (pl.col("j") < 5) & pl.col("gae_lambda").is_in([0.0, 0.5, 0.95, 1.0]))
    here = here.select(_lambda_label().alias("panel"), "i", "j", "value")
    mirrored = here.rename({"i": "j", "j": "i"}).select(here.columns)
    panels = list(dict.fromkeys(here["panel"]))
    own = pl.DataFrame([(p, k, k, 1.0) for p in panels for k in range(5)], schema=here.schema, orient="row")
    return heat_maps(
        pl.concat([here, mirrored, own]),
        "Do batches of one policy pull the same way? Five of them, over λ",
        "Cosines between mean gradients of five independent batches of 4 × 256. Blue agrees, red opposes.",
        panels=panels,
    )


def batch_cosines(batches: pl.DataFrame, splits: list[str]) -> Chart:
    """The distribution over all pairs of many batches and seeds, at three λ."""
    here = batches.filter(pl.col("gae_lambda").is_in(SHOWN))
    data = here.select(pl.col("split").str.replace("x", " × ").alias("panel"), _lambda_label().alias("kind"), "value")
    return distributions(
        data.filter(pl.col("panel").is_in(splits)),
        "Do batches of one policy pull the same way? All pairs of many",
        "Cosines between the mean gradients of independent batches, all seeds.",
        panels=splits,
        kinds=["λ = 0.0", "λ = 0.95", "λ = 1.0"],
        columns=2,
    )


def _lambda_label() -> pl.Expr:
    return pl.format("λ = {}", pl.col("gae_lambda"))
