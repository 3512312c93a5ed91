"""Results to draw: a table of measurements turned into what the page of `trimtab split` shows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from trimtab.config import Config
from trimtab.core import quantities
from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved
from trimtab.gradient import measurements
from trimtab.show.split_page import SplitReport
from trimtab.studies.split_result import PredictedSplit, SplitResult, SplitRow
from trimtab.training.records import Manifest

ESTIMATES = ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess")


def estimates(frame: pl.DataFrame, split: str) -> dict[str, Estimate]:
    own = frame.filter((pl.col("split") == split) & (pl.col("step") == frame["step"].max()))
    rows = {row["quantity"]: row for row in own.iter_rows(named=True)}
    return {name: Estimate(*(rows[name][k] for k in ("value", "lo", "hi", "resolved"))) for name in ESTIMATES}


def report_of(frame: pl.DataFrame, curves: pl.DataFrame, config: Config, shared: float | None) -> SplitReport:
    """What a split's page shows; errors relative to `shared`, if that is given."""
    rows = []
    for num_envs, num_steps in frame.select("num_envs", "num_steps").unique().sort("num_envs").iter_rows():
        found = estimates(frame, f"{num_envs}x{num_steps}")
        own = curves.filter(pl.col("series") == f"{num_envs}x{num_steps}")
        areas = own.group_by("seed").agg(pl.col("return").mean())["return"]
        speed = 1e3 * num_envs**0.6
        rows.append(
            SplitRow(
                num_envs=num_envs,
                num_steps=num_steps,
                mse_relative=found["mse"].over(shared) if shared else UNRESOLVED,
                fps=Estimate(9 * speed, 8 * speed, 9.5 * speed),
                improved=True,
                auc=Estimate(areas.mean(), areas.min(), areas.max(), len(areas) > 1),
                final_return=unresolved(areas.mean()),
                **found,
            )
        )
    batch, chosen, middle = config.batch, rows[-1], rows[0].variance
    result = SplitResult(
        env_id=config.env_id,
        batch=batch,
        algo=config.algo,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        horizon_gamma=1 / (1 - config.gamma),
        horizon_gamma_lambda=1 / (1 - config.gamma * config.gae_lambda),
        rows=tuple(rows),
        predicted=(
            PredictedSplit(num_envs=1, num_steps=batch, variance=unresolved(middle.value), extrapolated=True),
            PredictedSplit(num_envs=8, num_steps=batch // 8, variance=middle, extrapolated=False),
        ),
        recommended=chosen.name,
        sentence=f"Use {chosen.label}: its error is low & it is <fast>.",
        doubts=("no split's learning curve is distinguishable from the best one's on so few seeds",),
        marginal="One more environment lowers the variance by 1.5%; one more step by 6.0%.",
        command=f"trimtab split {config.env_id} --batch {batch}",
        steps=tuple(sorted(frame["step"].unique())),
        at=max(frame["step"]),
    )
    return SplitReport(result, config, Manifest(trimtab="0.1.0", packages={"jax": "0.10"}), frame, curves)


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
        return (quantity, f"{n}x{t}", n, t, step, 0.9, lam, "training", lag, float(value), lo, hi, resolved, unit, note)

    single = {
        "individual": 3.0,
        "covariance": -0.5 if n > 8 else 1.0,
        "between_rows": 0.5,
        "bias_sq": 0.4,
        "grad_sq": 0.9,
    }
    single |= {"variance": single["individual"] + single["covariance"] + single["between_rows"]}
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
