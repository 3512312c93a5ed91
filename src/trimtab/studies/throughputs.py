"""`trimtab throughput`: the speed of one configuration at several numbers of environments, one after another, here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimtab.config import Config, ConfigError
from trimtab.training.progress import Progress

if TYPE_CHECKING:
    import polars as pl

GAIN = 0.9  # N is enough where it gives this share of the best throughput
LONG = 1 << 30  # steps of a run that is never finished: only its speed is looked at


def measured(config: Config, counts: Sequence[int] | None, seconds: float, repeats: int, quiet: bool) -> dict[str, Any]:
    """Every N in turn, `seconds` of training each, and the number to take."""
    _refuse(counts, seconds, repeats)
    import polars as pl

    from trimtab.training.speed import measure

    config = config.replace(total_timesteps=LONG)
    turns = [n for _ in range(repeats) for n in sorted(set(_usual(config) if counts is None else counts))]
    rows: list[dict[str, Any]] = []
    with Progress(len(turns), f"throughput {config.env_id}", quiet) as bar:
        bar.start()
        for k, num_envs in enumerate(turns):
            measurement = measure(_resized(config, num_envs), seconds)
            rows.append({"environment": config.env_id, "repeat": k // (len(turns) // repeats)} | measurement)
            bar.count(len(rows), len(turns), f"{measurement['steps_per_second']:,.0f} steps/s,")
    table = pl.DataFrame(rows)
    about = {"env_id": config.env_id, "num_steps": config.num_steps, "rows": rows}
    return about | {"fastest": fastest(table), "recommended": enough(table)}


def _refuse(counts: Sequence[int] | None, seconds: float, repeats: int) -> None:
    if seconds <= 0:
        raise ConfigError("seconds", seconds, "must be above 0")
    if repeats < 1:
        raise ConfigError("repeats", repeats, "must be at least 1; nearest: 1")
    if counts is not None and min(counts, default=0) < 1:
        raise ConfigError("counts", min(counts, default=0), "must be at least 1; nearest: 1")


def _usual(config: Config) -> list[int]:
    from trimtab import envs

    compiled = envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit).compiled
    return [1, 4, 16, 64, 256, 1024] if compiled else [1, 4, 16, 64]


def _resized(config: Config, num_envs: int) -> Config:
    """N environments; as many minibatches as before where they divide the batch, else the default number."""
    keep = config.minibatches if (num_envs * config.num_steps) % config.minibatches == 0 else None
    return config.replace(num_envs=num_envs, num_minibatches=keep, minibatch_size=None)


def _means(here: pl.DataFrame) -> dict[int, float]:
    import polars as pl

    means = here.group_by("num_envs").agg(pl.col("steps_per_second").mean()).sort("num_envs")
    return dict(zip(means["num_envs"].to_list(), means["steps_per_second"].to_list()))


def fastest(here: pl.DataFrame) -> int:
    means = _means(here)
    return max(means, key=lambda n: means[n])


def enough(here: pl.DataFrame) -> int:
    """The smallest N with nearly the best throughput."""
    means = _means(here)
    return min(n for n, speed in means.items() if speed >= GAIN * max(means.values()))
