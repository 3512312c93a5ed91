"""The training runs that the studies of the post share: Pendulum, as far as the post says and CleanRL implies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.config import Config
from trimtab.core import reading
from trimtab.core.errors import RunError
from trimtab.core.estimate import Estimate
from trimtab.core.wording import split_name, split_text
from trimtab.experiments.jobs import Directions
from trimtab.experiments.source_study import Size
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes
from trimtab.training.resource_estimates import checkpoint_iterations

STEPS: dict[Size, int] = {"quick": 204_800, "default": 1_024_000, "full": 1_024_000}
SEEDS: dict[Size, int] = {"quick": 4, "default": 10, "full": 20}
REPLICATES: dict[Size, int] = {"quick": 16, "default": 48, "full": 128}
CHECKPOINTS = 100  # the post's steps are multiples of ten iterations of a thousand
LONG, SHORT = (4, 256), (16, 64)  # the post's two splits
FIRST, SECOND = 0.39, 0.44  # its steps 399,360 and 450,560, as shares of the schedule
STAGES = {"early": 0.05, "at 399,360": FIRST, "at 450,560": SECOND, "late": 1.0}

SETTING = [
    "The post gives N, T and the environment only. Inferred: CleanRL's continuous PPO with γ 0.99, λ 0.95, 10 epochs × "
    "32 minibatches, 64×64 tanh, 3e-4 falling linearly to 0, observations and rewards normalized, no entropy bonus, "
    "value loss with a weight of 0.25 and clipped.",
    "The schedule is 1,024,000 steps (1,000 iterations), so that the post's steps 399,360 and 450,560 are iterations "
    "390 and 440 of it.",
    "Advantages are measured raw; training normalizes them over the batch. Rows start from the policy's own states.",
]
QUICKER = (
    "This size trains 204,800 steps under a schedule as long, and looks at the same shares of it (39% and 44%) instead "
    "of steps 399,360 and 450,560."
)


def notes(size: Size) -> list[str]:
    return [*SETTING, *([QUICKER] if size == "quick" else [])]


def pendulum(size: Size, seed: int, **changes) -> Config:
    """The post's run: 4 environments × 256 steps."""
    setting = {
        "env_id": "Pendulum-v1",
        "num_envs": LONG[0],
        "num_steps": LONG[1],
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "update_epochs": 10,
        "num_minibatches": 32,
        "learning_rate": 3e-4,
        "anneal_lr": "linear",
        "ent_coef": 0.0,
        "vf_coef": 0.25,  # CleanRL halves the value loss once more
        "clip_vloss": 0.2,
        "norm_obs": True,
        "norm_reward": True,
        "total_timesteps": STEPS[size],
        "seed": seed,
    }
    return Config(**setting | changes)


def trained(size: Size, first: int) -> list[Train]:
    return [Train(pendulum(size, first + k), CHECKPOINTS) for k in range(SEEDS[size])]


def step_at(config: Config, share: float, checkpoints: int = CHECKPOINTS) -> int:
    """The checkpoint nearest to a share of the run, in environment steps."""
    iterations = checkpoint_iterations(config.iterations, checkpoints)
    k = min(max(1, round(share * len(iterations))), len(iterations))
    return iterations[k - 1] * config.batch


def directions(run: Train, split: tuple[int, int], at: Iterable[float], size: Size, **options) -> Directions:
    """Look at one split at some shares of a run; fewer replicates where a batch has many rows."""
    replicates = max(8, min(options.pop("replicates", REPLICATES[size]), 2048 // split[0]))
    looked = min(options.pop("looked", replicates // 2), replicates)
    steps = tuple(sorted({step_at(run.config, share) for share in at}))
    return Directions(run, steps, *split, replicates=replicates, looked=looked, **options)


# Tables ----------------------------------------------------------------------------------------------------


def gathered(jobs: Iterable[Job], outcomes: Outcomes, file: str) -> pl.DataFrame:
    """The tables of some jobs, each row with its environment and its seed; jobs that failed are left out."""
    tables, error = [], "it has none"
    for job in jobs:
        outcome = outcomes[job.identity]
        error = outcome.error or error
        if outcome.done:
            config = job.config  # type: ignore[attr-defined]
            columns = pl.lit(config.env_id).alias("environment"), pl.lit(config.seed).alias("seed")
            tables.append(reading.read_parquet(Path(outcome.path) / file).with_columns(*columns))
    if not tables:
        raise RunError(f"nothing to measure, for all jobs of this part failed: {error}")
    return pl.concat(tables)


def words(split: tuple[int, int]) -> str:
    """N × T for people."""
    return split_text(*split)


def name_of(split: tuple[int, int]) -> str:
    """N × T as `with_split` writes it."""
    return split_name(*split)


def with_split(table: pl.DataFrame) -> pl.DataFrame:
    """N × T as a column."""
    return table.with_columns(pl.format("{}x{}", "num_envs", "num_steps").alias("split"))


def with_stage(table: pl.DataFrame, config: Config, stages: dict[str, float] = STAGES) -> pl.DataFrame:
    """Steps as stages of training, by name."""
    names = {step_at(config, share): name for name, share in stages.items()}
    return table.with_columns(pl.col("step").replace_strict(names, default=None, return_dtype=pl.String).alias("stage"))


def over_seeds(table: pl.DataFrame, keys: Iterable[str], value: str = "value") -> pl.DataFrame:
    """Mean over seeds with Student's interval, for every combination of keys; one value per seed first."""
    keys = list(keys)
    seeds = table.group_by(*keys, "seed", maintain_order=True).agg(pl.col(value).mean())
    rows = []
    for key, group in seeds.group_by(keys, maintain_order=True):
        values = group[value].drop_nulls().drop_nans().to_list()
        e = stats.mean_interval(values)
        rows.append((*key, e.value, e.lo, e.hi, e.resolved, len(values)))
    schema: dict[str, Any] = {k: table.schema[k] for k in keys}
    schema |= {"value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "resolved": pl.Boolean, "seeds": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def effect_over_seeds(table: pl.DataFrame, effect: Callable[[pl.DataFrame], float | None]) -> tuple[Estimate, int]:
    """An effect computed seed by seed (None where a seed has none): mean with Student's interval, and the seeds."""
    effects = [effect(group) for _, group in table.group_by("seed", maintain_order=True)]
    values = [v for v in effects if v is not None and v == v and abs(v) != float("inf")]
    return stats.mean_interval(values), len(values)
