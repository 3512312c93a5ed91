"""Figures of throughput over the number of environments."""

from __future__ import annotations

import polars as pl

from trimtab.experiments.figures import Chart, lines, stacked

PARTS = {"environment_share": "environment", "policy_share": "policy", "update_share": "update"}


def _over_repeats(table: pl.DataFrame, column: str) -> pl.DataFrame:
    """Mean, least and most over repeats, by environment and N."""
    spread = [pl.col(column).mean().alias("value"), pl.col(column).min().alias("lo"), pl.col(column).max().alias("hi")]
    summary = table.group_by(pl.col("environment").alias("series"), "num_envs").agg(spread)
    return summary.sort("series", "num_envs")


def speed(table: pl.DataFrame) -> Chart:
    """Steps per second against N."""
    return lines(
        _over_repeats(table, "steps_per_second"),
        "num_envs",
        "environments (logarithmic)",
        "steps per second (logarithmic)",
        "How fast training runs, by the number of environments",
        "Environment steps of training per second; band: from the slowest to the fastest repeat.",
        log_x=True,
        log_y=True,
    )


def load(table: pl.DataFrame) -> Chart:
    """Load of all cores by this process, against N."""
    return lines(
        _over_repeats(table, "load"),
        "num_envs",
        "environments (logarithmic)",
        "share of all cores",
        "How much of the processor training uses",
        "Processor time of the process and its children over wall time and cores.",
        log_x=True,
    )


def shares(table: pl.DataFrame) -> Chart:
    """Shares of an iteration's time by N: environment, policy, update."""
    means = table.group_by("environment", "num_envs").agg([pl.col(name).mean() for name in PARTS])
    long = means.unpivot(list(PARTS), index=["environment", "num_envs"], variable_name="part", value_name="value")
    data = long.sort("environment", "num_envs").with_columns(
        pl.col("part").replace_strict(PARTS, return_dtype=pl.String),
        pl.format("N = {}", "num_envs").alias("row"),
        pl.col("environment").alias("panel"),
    )
    return stacked(
        data,
        list(PARTS.values()),
        "share of an iteration's time",
        "Where the time goes",
        "Stepping environments, the policy acting, and the update, each timed alone.",
        panels=list(dict.fromkeys(data["panel"])),
    )
