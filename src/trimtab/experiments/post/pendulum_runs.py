"""The training runs that the studies of the post share: Pendulum, as far as the post says and CleanRL implies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from trimtab.config import Config
from trimtab.core.wording import split_name, split_text
from trimtab.experiments.jobs import Directions
from trimtab.experiments.source_study import Size
from trimtab.experiments.trained_runs import base_config, step_at
from trimtab.studies.job import Train

STEPS: dict[Size, int] = {"quick": 204_800, "default": 1_024_000, "full": 1_024_000}
SEEDS: dict[Size, int] = {"quick": 4, "default": 10, "full": 20}
REPLICATES: dict[Size, int] = {"quick": 16, "default": 48, "full": 128}
CHECKPOINTS = 100  # the post's steps are multiples of ten iterations of a thousand
Split = tuple[int, int]
LONG, SHORT = (4, 256), (16, 64)  # the post's two splits
LONG_NAME, SHORT_NAME = split_name(*LONG), split_name(*SHORT)
LONG_TEXT, SHORT_TEXT = split_text(*LONG), split_text(*SHORT)
FIRST, SECOND = 0.39, 0.44  # its steps 399,360 and 450,560, as shares of the schedule
AT_FIRST, AT_SECOND = "at 399,360", "at 450,560"
STAGES = {"early": 0.05, AT_FIRST: FIRST, AT_SECOND: SECOND, "late": 1.0}
CLEANRL_VALUE_LOSS: dict[str, Any] = {"vf_coef": 0.25, "clip_vloss": 0.2}  # CleanRL halves the value loss once more

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


def pendulum(size: Size, seed: int) -> Config:
    """The post's run: 4 environments × 256 steps."""
    rates: dict[str, Any] = {"update_epochs": 10, "num_minibatches": 32, "learning_rate": 3e-4, "ent_coef": 0.0}
    normalized = {"norm_obs": True, "norm_reward": True}
    returns = {"gamma": 0.99, "gae_lambda": 0.95}
    return base_config("Pendulum-v1", LONG, STEPS[size], seed, **rates | normalized | returns | CLEANRL_VALUE_LOSS)


def trained(size: Size, first: int) -> list[Train]:
    return [Train(pendulum(size, first + k), CHECKPOINTS) for k in range(SEEDS[size])]


def steps_at(run: Train, shares: Iterable[float], checkpoints: int = CHECKPOINTS) -> tuple[int, ...]:
    """The checkpoints nearest to some shares of a run, in environment steps."""
    return tuple(sorted({step_at(run.config, share, checkpoints) for share in shares}))


def directions(run: Train, split: Split, at: Iterable[float], size: Size, **options: Any) -> Directions:
    """Look at one split at some shares of a run; fewer replicates where a batch has many rows."""
    replicates = max(8, min(options.pop("replicates", REPLICATES[size]), 2048 // split[0]))
    looked = min(options.pop("looked", replicates // 2), replicates)
    return Directions(run, steps_at(run, at), *split, replicates=replicates, looked=looked, **options)


def with_stage(table: pl.DataFrame, config: Config, stages: dict[str, float] = STAGES) -> pl.DataFrame:
    """The table with the stage of training as a column."""
    names = {step_at(config, share, CHECKPOINTS): name for name, share in stages.items()}
    return table.with_columns(pl.col("step").replace_strict(names, default=None, return_dtype=pl.String).alias("stage"))


def batch_pairs(table: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Cosines between the means of batches i and j."""
    pairs = table.filter(quantity="batch_cosine").rename({"replicate": "i", "lag": "j"})
    return pairs.select(*keys, "i", "j", "value")
