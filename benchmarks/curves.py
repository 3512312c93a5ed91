"""Learning curves in one process: a configuration compiled once, run on several seeds, nothing written."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np
import polars as pl

from trimtab.config import Config
from trimtab.runs import device

FINAL = 0.1  # the last tenth of training is "final"


def curve(config: Config, seeds: list[int]) -> pl.DataFrame:
    """Finished episodes of every seed: seed, step, return, length."""
    device.prepare(device.threads_for(config.network))
    from trimtab.runs.engine import advance, build

    engine = build(config)
    frames = []
    for seed in seeds:
        state = engine.init(seed)
        if not frames:
            engine.compile(state)
        done = 0
        while done < config.iterations:
            state, info = advance(engine, state, config.iterations - done)
            k, t, n = np.nonzero(info.done)
            frames.append(
                pl.DataFrame(
                    {
                        "seed": np.full(len(k), seed),
                        "step": (done + k) * config.batch + (t + 1) * config.num_envs,
                        "return": info.episode_return[k, t, n].astype(np.float64),
                        "length": info.episode_length[k, t, n].astype(np.int64),
                    }
                )
            )
            done += len(info.done)
    return pl.concat(frames)


def final_returns(frame: pl.DataFrame, steps: int, seeds: list[int]) -> list[float]:
    """Mean return per seed over the last tenth of training, every step counting with its episode's return."""
    last = frame.filter(pl.col("step") > (1 - FINAL) * steps)
    values = []
    for seed in seeds:
        mine = last.filter(pl.col("seed") == seed)
        total = float(mine["length"].sum())
        values.append(float((mine["return"] * mine["length"]).sum()) / total if total else float("nan"))
    return values


def smoothed(frame: pl.DataFrame, steps: int, series: str, bins: int = 60) -> pl.DataFrame:
    """Curves for drawing: mean return by bin of steps and seed."""
    width = max(1, steps // bins)
    return (
        frame.with_columns((pl.col("step") // width * width + width // 2).alias("step"))
        .group_by("seed", "step")
        .agg(pl.col("return").mean())
        .sort("seed", "step")
        .select(pl.lit(series).alias("series"), "seed", "step", "return")
    )


def machine() -> dict[str, Any]:
    """What a result ran on."""
    return {"processor": device.processor(), "platform": platform.platform(), "cores": os.cpu_count()}
