"""Results to draw: a table of measurements turned into what `trimtab split` hands to its page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from trimtab.config import Config
from trimtab.core import quantities
from trimtab.gradient import measurements
from trimtab.show.probe_series import split_text

ESTIMATES = ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess")


def estimates(frame: pl.DataFrame, split: str) -> dict[str, dict[str, Any]]:
    own = frame.filter((pl.col("split") == split) & (pl.col("step") == frame["step"].max()))
    found = {}
    for name in ESTIMATES:
        row = own.filter(pl.col("quantity") == name).row(0, named=True)
        plain = {k: row[k] if math.isfinite(row[k]) else None for k in ("value", "lo", "hi")}
        found[name] = plain | {"resolved": row["resolved"]}
    return found


def result_of(frame: pl.DataFrame, curves: pl.DataFrame, config: Config, shared: float | None) -> dict[str, Any]:
    """A split's result; errors relative to `shared`, if that is given."""
    rows = []
    for num_envs, num_steps in frame.select("num_envs", "num_steps").unique().sort("num_envs").iter_rows():
        row = {"num_envs": num_envs, "num_steps": num_steps, **estimates(frame, f"{num_envs}x{num_steps}")}
        relative = {k: row["mse"][k] / shared if shared and row["mse"][k] else None for k in ("value", "lo", "hi")}
        own = curves.filter(pl.col("series") == f"{num_envs}x{num_steps}")
        areas = own.group_by("seed").agg(pl.col("return").mean())["return"]
        auc = areas.mean()
        rows.append(
            row
            | {
                "mse_relative": relative | {"resolved": bool(shared)},
                "fps": {"value": 9e3 * num_envs**0.6, "lo": 8e3 * num_envs**0.6, "hi": 9.5e3 * num_envs**0.6},
                "improved": True,
                "auc": {"value": auc, "lo": areas.min(), "hi": areas.max(), "resolved": len(areas) > 1},
                "final_return": {"value": auc, "lo": None, "hi": None, "resolved": False},
            }
        )
    batch, chosen = config.batch, rows[-1]
    middle = rows[0]["variance"]
    return {
        "env_id": config.env_id,
        "batch": batch,
        "algo": config.algo,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "horizon_gamma": 1 / (1 - config.gamma),
        "horizon_gamma_lambda": 1 / (1 - config.gamma * config.gae_lambda),
        "config": config.as_dict(),
        "derived": config.derived(),
        "rows": rows,
        "predicted": [
            {"num_envs": 1, "num_steps": batch, "variance": middle | {"lo": None, "hi": None}, "extrapolated": True},
            {"num_envs": 8, "num_steps": batch // 8, "variance": middle, "extrapolated": False},
        ],
        "measurements": frame,
        "curves": curves,
        "recommended": f"{chosen['num_envs']}x{chosen['num_steps']}",
        "sentence": f"Use {split_text(chosen['num_envs'], chosen['num_steps'])}: its error is low & it is <fast>.",
        "reasons": ["its mean squared error is the lowest", "of what remains it is the fastest (98,000 steps/s)"],
        "doubts": ["no split's learning curve is distinguishable from the best one's on so few seeds"],
        "marginal": "One more environment lowers the variance by 1.5%; one more step by 6.0%.",
        "command": f"trimtab split {config.env_id} --batch {batch}",
        "manifest": {"trimtab": "0.1.0", "python": "3.11", "packages": {"jax": "0.10"}, "machine": {"processor": "x"}},
        "steps": sorted(frame["step"].unique()),
    }


def curves_of(splits: list[str], seeds: int = 3, points: int = 60) -> pl.DataFrame:
    """Made-up learning curves that rise, each split a little differently."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "series": split,
            "seed": seed,
            "step": 1000 * k,
            "return": -1200 + (900 + 40 * i) * (1 - math.exp(-k / 20)) + 30 * rng.normal(),
        }
        for i, split in enumerate(splits)
        for seed in range(1, seeds + 1)
        for k in range(1, points + 1)
    ]
    return pl.DataFrame(rows)


def measured(
    splits: tuple[tuple[int, int], ...] = ((4, 64),),
    steps: tuple[int, ...] = (1000,),
    lambdas: tuple[float, ...] = (0.95,),
) -> pl.DataFrame:
    """A made-up table of measurements with every quantity a probe writes, so that what is drawn can be checked."""
    rows = [r for n, t in splits for step in steps for lam in lambdas for r in _probe(n, t, step, lam)]
    return pl.DataFrame(rows, schema=measurements.SCHEMA, orient="row")


def _probe(n: int, t: int, step: int, lam: float):
    rng = np.random.default_rng(n + t + step)
    scale = 1e-5 * (1 + lam) * 1000 / step

    def row(quantity, value, lo=math.nan, hi=math.nan, resolved=True, lag=None, note=None):
        unit = quantities.quantity(quantity).unit
        return (quantity, f"{n}x{t}", n, t, step, 0.9, lam, lag, float(value), lo, hi, resolved, unit, note)

    single = {"individual": 3.0, "covariance": -0.5 if n > 8 else 1.0, "bias_sq": 0.4, "grad_sq": 0.9}
    single |= {"variance": single["individual"] + single["covariance"]}
    single |= {"mse": single["variance"] + single["bias_sq"]}
    yield from (row(name, v * scale, 0.8 * v * scale, 1.3 * v * scale) for name, v in single.items())
    yield row("ess", n * t * 0.75, n * t * 0.6, n * t * 0.9)
    yield row("noise_scale", 900, 500, 4000)
    yield row("noise_scale_trajectory", 1200, 600, math.inf)
    yield (
        row("noise_scale_environments", math.nan, resolved=False)
        if n > 8
        else row("noise_scale_environments", 1200 / t, 600 / t, math.inf)
    )
    for k in range(t):
        c = scale * 0.7**k
        yield row("lag_covariance", c, 0.9 * c, 1.1 * c, lag=k)
        yield row("covariance_within", 0.7**k, lag=k)
        yield row("cosine_trajectory_mean", 0.1, -0.5, 0.6, lag=k)
        if k:
            yield row("cosine_within", 0.5 * 0.9**k, -0.5, 0.9, lag=k)
        if k in measurements.SHOWN_LAGS:
            yield from (row("cosine_within_value", v, lag=k) for v in rng.uniform(-0.2, 1, 80))
    yield row("covariance_across", -0.001)
    yield row("cosine_across", 0.01, -0.4, 0.4)
    yield from (row("cosine_across_value", v) for v in rng.uniform(-1, 1, 80))
    yield from (row("cosine_batch_mean_value", v) for v in rng.uniform(-0.5, 0.7, 80))
    for i in range(5):
        yield from (row("replicate_cosine", 1.0 if i == j else 0.2, lag=5 * i + j, note=f"{i},{j}") for j in range(5))
    for k in range(16):
        yield row("minibatch_drift", 0.6 - 0.01 * k, lag=k)
        yield row("minibatch_clip_bias", 0.02 * k, lag=k)
    yield row("note", math.nan, resolved=False, note="correlations from 2 of 4 rows")
