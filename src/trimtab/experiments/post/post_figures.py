"""Figures of the studies of the post."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from trimtab.experiments.figures import Chart, distributions, effects, heat_maps, lines, stacked
from trimtab.math.stats import mean_interval

WITHIN, ACROSS = "within trajectories", "across environments"


def cosine_distributions(values: pl.DataFrame, stage: str, lags: tuple[int, ...], where: str) -> Chart:
    """The post's two figures: cosines at some lags, over those of pairs across environments."""
    here = values.filter(pl.col("stage") == stage)
    across = here.filter(pl.col("quantity") == "cosine_across_value").select("value")
    parts = []
    for lag in lags:
        within = here.filter((pl.col("quantity") == "cosine_within_value") & (pl.col("lag") == lag)).select("value")
        for kind, cosines in ((WITHIN, within), (ACROSS, across)):
            parts.append(cosines.with_columns(pl.lit(f"lag {lag}").alias("panel"), pl.lit(kind).alias("kind")))
    return distributions(
        pl.concat(parts),
        f"Gradients of one trajectory against strangers, {where}",
        "Cosines about the batch mean of two gradients so many steps apart in one trajectory (outline), over those of "
        "pairs from different environments (grey).",
        panels=[f"lag {lag}" for lag in lags],
        kinds=[WITHIN, ACROSS],
    )


def covariance_by_lag(table: pl.DataFrame) -> Chart:
    """Mean over checkpoints of the covariance correlation, with its spread over checkpoints, by lag."""
    spread = [pl.col("value").mean().alias("value"), pl.col("value").std().fill_null(0).alias("spread")]
    within = table.filter(pl.col("quantity") == "covariance_within").group_by("lag").agg(spread).sort("lag")
    across = table.filter(pl.col("quantity") == "covariance_across").select(spread)
    flat = within.select("lag").join(across, how="cross")
    data = pl.concat(
        [
            covariances.select("lag", "value", "spread").with_columns(pl.lit(kind).alias("series"))
            for kind, covariances in ((WITHIN, within), (ACROSS, flat))
        ]
    ).with_columns((pl.col("value") - pl.col("spread")).alias("lo"), (pl.col("value") + pl.col("spread")).alias("hi"))
    return lines(
        data,
        "lag",
        "lag k, steps (logarithmic)",
        "covariance correlation",
        "The correlation that enters the variance, by lag",
        "E[(g_i − μ)·(g_j − μ)] / E|g − μ|², mean over checkpoints and seeds; band: one standard deviation over them.",
        series=[WITHIN, ACROSS],
        log_x=True,
        dashed=[ACROSS],
    )


def cosine_gaps(cosines: pl.DataFrame, lags: Mapping[str, tuple[int, ...]]) -> Chart:
    """Within minus across at the post's steps and lags, a point for every seed's mean with the interval over seeds."""
    rows = []
    for stage, shown in lags.items():
        here = cosines.filter(pl.col("stage") == stage)
        across = here.filter(pl.col("quantity") == "cosine_across").select("seed", pl.col("value").alias("across"))
        for lag in shown:
            within = here.filter((pl.col("quantity") == "cosine_within") & (pl.col("lag") == lag))
            e = mean_interval((j := within.join(across, on="seed"))["value"].to_numpy() - j["across"].to_numpy())
            rows.append({"row": f"{stage}, lag {lag}", "value": e.value, "lo": e.lo, "hi": e.hi})
    return effects(
        pl.DataFrame(rows),
        "mean cosine within minus across",
        "How much more alike, step by step and lag by lag",
        "Mean over seeds with its 95% interval.",
    )


# Splits ----------------------------------------------------------------------------------------------------


def variance_terms(variance: pl.DataFrame, stages: list[str]) -> Chart:
    """Individual and covariance terms by split, relative to the individual term of 4 × 256, a panel per stage."""
    means = variance.group_by("stage", "split", "num_steps", "quantity", maintain_order=True).agg(
        pl.col("value").mean()
    )
    own = means.filter((pl.col("split") == "4x256") & (pl.col("quantity") == "individual"))
    data = means.join(own.select("stage", pl.col("value").alias("own")), on="stage").sort("num_steps", descending=True)
    parts = {"individual": "individual", "covariance": "covariance"}
    data = data.filter(pl.col("quantity").is_in(list(parts)) & pl.col("stage").is_in(stages)).select(
        pl.col("split").str.replace("x", " × ").alias("row"),
        pl.col("quantity").alias("part"),
        pl.col("stage").alias("panel"),
        (pl.col("value") / pl.col("own")).alias("value"),
    )
    return stacked(
        data,
        list(parts),
        "relative to the individual term of 4 × 256",
        "The variance of a batch gradient, by split and stage",
        "Individual and covariance terms, means over seeds. 4 × 512 has twice the samples of the others.",
        panels=stages,
    )


def covariance_shares(variance: pl.DataFrame, stages: list[str]) -> Chart:
    """Covariance / variance by split and stage, with the interval over seeds."""
    wide = variance.pivot(on="quantity", index=["stage", "split", "seed", "num_steps"], values="value")
    wide = wide.with_columns((pl.col("covariance") / pl.col("variance")).alias("share"))
    rows = []
    for stage in stages:
        here = wide.filter(pl.col("stage") == stage).sort("num_steps", descending=True)
        for split in dict.fromkeys(here["split"]):
            e = mean_interval(here.filter(pl.col("split") == split)["share"].to_list())
            label = split.replace("x", " × ")
            rows.append({"row": stage, "series": label, "value": e.value, "lo": e.lo, "hi": e.hi})
    return effects(
        pl.DataFrame(rows),
        "covariance / variance",
        "How much of the variance is correlation along rows",
        "Mean over seeds with its 95% interval.",
    )


def five_batches(batches: pl.DataFrame, stage: str, splits: list[str]) -> Chart:
    """The post's heat maps: cosines between the means of five batches, of the first seed."""
    here = batches.filter((pl.col("stage") == stage) & (pl.col("seed") == batches["seed"].min()))
    here = here.filter((pl.col("i") < 5) & (pl.col("j") < 5))
    mirrored = here.rename({"i": "j", "j": "i"}).select(here.columns)
    own = [{"split": s.replace(" × ", "x"), "i": k, "j": k, "value": 1.0} for s in splits for k in range(5)]
    columns = ["split", "i", "j", "value"]
    data = pl.concat(
        [here.select(columns), mirrored.select(columns), pl.DataFrame(own, schema=here.select(columns).schema)]
    )
    data = data.with_columns(pl.col("split").str.replace("x", " × ").alias("panel"))
    return heat_maps(
        data.filter(pl.col("panel").is_in(splits)),
        "Do batches of one policy pull the same way? Five of them",
        "Cosines between the mean gradients of five independent batches of one seed. Blue agrees, red opposes.",
        panels=splits,
    )


def batch_cosines(batches: pl.DataFrame, stages: list[str], splits: list[str]) -> Chart:
    """The distribution of those cosines over all pairs of many batches and all seeds."""
    data = batches.select(
        pl.col("stage").alias("panel"), pl.col("split").str.replace("x", " × ").alias("kind"), "value"
    )
    return distributions(
        data.filter(pl.col("kind").is_in(splits)),
        "Do batches of one policy pull the same way? All pairs of many",
        "Cosines between the mean gradients of independent batches: pairs of all batches, all seeds.",
        panels=stages,
        kinds=splits,
        columns=2,
    )
