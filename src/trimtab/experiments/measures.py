"""Numbers taken from long tables, and effects over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.core import reading
from trimtab.core.errors import RunError
from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import EffectEstimate
from trimtab.math import stats
from trimtab.studies.job import OfRun
from trimtab.studies.study_engine import Outcomes

SPLIT_TEXT = pl.col("split").str.replace("x", " × ")  # a column of splits as people read them
Effect = Callable[[pl.DataFrame], float | None]


def number(value: object) -> float | None:
    """A statistic of a column (polars types it as anything) as a number."""
    return float(value) if isinstance(value, int | float) else None


def mean_of(table: pl.DataFrame, column: str = "value", **where: Any) -> float | None:
    """The mean of a column in the rows where other columns have these values; None where there are none."""
    return number(table.filter(**where)[column].mean())


def difference(one: float | None, other: float | None) -> float | None:
    """one − other, where both are known."""
    return None if one is None or other is None else one - other


def ratio(one: float | None, other: float | None) -> float | None:
    """one / other, where both are known and the second is not 0."""
    return None if one is None or not other else one / other


def log_ratio(one: float | None, other: float | None) -> float | None:
    """log(one / other), where both are positive."""
    return math.log(one / other) if one and other and one > 0 and other > 0 else None


def below(margin: float, effect: Estimate) -> Estimate:
    """margin − effect: positive where the effect is below the margin."""
    return Estimate(margin - effect.value, margin - effect.hi, margin - effect.lo, effect.resolved)


def exactly(name: str, value: float, seeds: int) -> EffectEstimate:
    """An effect that was computed and not sampled."""
    return EffectEstimate(name, Estimate(value, value, value), seeds)


# Over seeds ------------------------------------------------------------------------------------------------


def over_seeds(name: str, table: pl.DataFrame, effect: Effect) -> EffectEstimate:
    """An effect computed seed by seed (None where a seed has none): the mean with Student's interval over seeds."""
    effects = [effect(own) for _, own in table.group_by("seed", maintain_order=True)]
    values = [v for v in effects if v is not None and math.isfinite(v)]
    return EffectEstimate(name, stats.mean_interval(values), len(values))


def intervals(
    table: pl.DataFrame, *keys: str, column: str = "value", log: bool = False, **renamed: str
) -> pl.DataFrame:
    """The mean over seeds with Student's 95% interval, for every combination of the keys.

    Args:
        table: one or more rows for every seed; those of one seed are averaged first.
        keys: columns that are kept as they are.
        column: what is averaged.
        log: the geometric mean, with the interval of the logarithms.
        renamed: columns that are kept under another name, as `series="stage"`.

    Returns:
        The keys with value, lo and hi, in the order of the table.
    """
    names = [*renamed, *keys]
    chosen = table.select(*(pl.col(old).alias(new) for new, old in renamed.items()), *keys, "seed", column)
    seeds = chosen.group_by(*names, "seed", maintain_order=True).agg(pl.col(column).mean())
    rows = []
    for key, own in seeds.group_by(names, maintain_order=True):
        values = own[column].drop_nulls().drop_nans()
        e = stats.mean_interval((values.log() if log else values).to_list())
        rows.append((*key, *(math.exp(end) if log else end for end in (e.value, e.lo, e.hi))))
    kept: dict[str, pl.DataType] = {name: chosen.schema[name] for name in names}
    schema = kept | dict.fromkeys(("value", "lo", "hi"), pl.Float64())
    return pl.DataFrame(rows, schema=schema, orient="row")


def spread(table: pl.DataFrame, *keys: str, column: str = "value") -> pl.DataFrame:
    """The mean, the smallest and the largest value of every group, as value, lo and hi."""
    value = pl.col(column)
    ends = value.mean().alias("value"), value.min().alias("lo"), value.max().alias("hi")
    return table.group_by(*keys, maintain_order=True).agg(*ends)


# Tables of jobs --------------------------------------------------------------------------------------------


def gathered(jobs: Iterable[OfRun], outcomes: Outcomes, file: str) -> pl.DataFrame:
    """The tables that jobs wrote, each row with its environment and its seed; failed jobs are left out."""
    jobs = list(jobs)
    done = [job for job in jobs if outcomes[job.identity].done]
    if not done:
        error = next((e for job in reversed(jobs) if (e := outcomes[job.identity].error)), "it has none")
        raise RunError(f"nothing to measure, because all jobs of this part failed: {error}")
    return pl.concat([_labelled(reading.read_parquet(Path(outcomes.of(job).path) / file), job) for job in done])


def returned(jobs: Iterable[OfRun], outcomes: Outcomes) -> pl.DataFrame:
    """The rows that jobs returned, each with its environment and its seed; failed jobs are left out."""
    done = [(job, outcomes[job.identity].result["found"]) for job in jobs if outcomes[job.identity].done]
    tables = [_labelled(pl.DataFrame(rows), job).cast({"seed": pl.Int64}) for job, rows in done if rows]
    return pl.concat(tables) if tables else pl.DataFrame()


def _labelled(table: pl.DataFrame, job: OfRun) -> pl.DataFrame:
    return table.select(pl.lit(job.config.env_id).alias("environment"), pl.lit(job.config.seed).alias("seed"), pl.all())


def with_split(table: pl.DataFrame) -> pl.DataFrame:
    """The table with N × T as a column, as 4x256."""
    return table.with_columns(pl.format("{}x{}", "num_envs", "num_steps").alias("split"))
