"""One long table of measurements: what probes, splits and studies write, and all that charts and reports read."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl

from trimtab.core.quantities import EXACT
from trimtab.core.quantities import quantity as described
from trimtab.core.writing import first_free, write_parquet
from trimtab.gradient.anatomy import Anatomy, Directions, MinibatchEffects
from trimtab.gradient.correlation import CosineCorrelation, CovarianceCorrelation
from trimtab.training.run_dir import RunDir

SCHEMA_VERSION = 2  # 1 had no column `start`: all rows started stationary
SCHEMA = {
    "quantity": pl.String,
    "split": pl.String,
    "num_envs": pl.Int64,
    "num_steps": pl.Int64,
    "step": pl.Int64,
    "gamma": pl.Float64,
    "gae_lambda": pl.Float64,
    "start": pl.String,
    "lag": pl.Int64,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "resolved": pl.Boolean,
    "unit": pl.String,
    "note": pl.String,
}
SHOWN_LAGS = (1, 3, 5, 7, 10, 20, 40)
KEPT = 400  # values of a distribution kept for drawing


def frame_of(anatomies: list[Anatomy]) -> pl.DataFrame:
    """The measurements of some anatomies as one table."""
    rows = [row for anatomy in anatomies for row in _rows(anatomy)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def with_start(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of any version, with where its rows started."""
    if "start" in frame.columns:
        return frame
    return frame.with_columns(pl.lit("stationary").alias("start")).select(list(SCHEMA))


def _rows(a: Anatomy):
    def row(quantity: str, value: float, lo=math.nan, hi=math.nan, resolved=True, lag=None, note=None):
        where = (a.split, a.num_envs, a.num_steps, a.step, a.gamma, a.gae_lambda, a.options.start)
        return (
            quantity,
            *where,
            lag,
            float(value),
            float(lo),
            float(hi),
            bool(resolved),
            described(quantity).unit,
            note,
        )

    for name, e in a.estimates.items():
        yield row(name, e.value, e.lo, e.hi, e.resolved)
    yield row("reset_synchrony", _nan(a.reset_synchrony), resolved=a.reset_synchrony is not None)
    for num_steps, e in a.predicted.items():
        yield row("predicted_variance", e.value, e.lo, e.hi, e.resolved, lag=num_steps)
    for name, value in a.exact.as_dict().items():
        yield row(f"{EXACT}{name}", value, value, value)
    for lag, (value, (lo, hi)) in enumerate(zip(a.lag_covariance, a.lag_covariance_interval)):
        yield row("lag_covariance", _nan(value), _nan(lo), _nan(hi), value is not None, lag)
    if a.directions is not None:
        yield from _cosines(a.directions.cosines, row)
        yield from _covariances(a.directions.covariances, row)
        yield from _alignments(a.directions, row)
    size = len(a.replicate_cosines)
    for i, cosines in enumerate(a.replicate_cosines):
        for j, value in enumerate(cosines):
            yield row("replicate_cosine", _nan(value), lag=i * size + j, note=f"{i},{j}")
    yield from _minibatch(a.minibatch, row)
    for note in a.notes:
        yield row("note", math.nan, resolved=False, note=note)


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _cosines(c: CosineCorrelation, row):
    for lag, dist in enumerate(c.lags, start=1):
        if dist.num_pairs:
            q = dist.quantiles
            yield row("cosine_within", dist.mean, q[0], q[-1], lag=lag)
            if lag in SHOWN_LAGS:
                yield from (row("cosine_within_value", v, lag=lag) for v in dist.values[:KEPT])
    if c.across.num_pairs:
        q = c.across.quantiles
        yield row("cosine_across", c.across.mean, q[0], q[-1])
        yield from (row("cosine_across_value", v) for v in c.across.values[:KEPT])
    yield row("zero_gradients", c.num_left_out)


def _covariances(c: CovarianceCorrelation | None, row):
    if c is not None:
        for lag, value in enumerate(c.lags):
            if math.isfinite(value):
                yield row("covariance_within", value, lag=lag)
        yield row("covariance_across", c.across, resolved=math.isfinite(c.across))


def _alignments(directions: Directions, row):
    cosine, step = directions.trajectories.cosine, directions.trajectories.step
    for t in range(int(step.max()) + 1):
        yield from _spread("cosine_trajectory_mean", cosine[step == t], row, t)
    own = directions.batches[0]
    yield from _spread("cosine_batch_mean", own, row)
    yield from (row("cosine_batch_mean_value", v) for v in own[np.isfinite(own)][:KEPT])
    for j, values in enumerate(directions.batches):
        yield from _spread("cosine_replicate_mean", values, row, j)


def _spread(name: str, cosines: np.ndarray, row, lag: int | None = None):
    """The mean of some cosines with the middle nine tenths, if there are any."""
    here = cosines[np.isfinite(cosines)]
    if len(here):
        lo, hi = np.quantile(here, [0.05, 0.95])
        yield row(name, here.mean(), lo, hi, lag=lag)


def _minibatch(effects: MinibatchEffects, row):
    for name, value in effects.as_dict().items():
        quantity = name if name == "minibatch_size" else f"minibatch_{name}"
        if isinstance(value, list):
            yield from (row(quantity, _nan(v), lag=k) for k, v in enumerate(value))
        else:
            yield row(quantity, value)


def write(run_path: Path, anatomies: list[Anatomy]) -> Path:
    """Save measurements with their run, under a name that says what was measured; nothing is overwritten."""
    base = f"step{anatomies[0].step}-{anatomies[0].split}" + (
        "" if len(anatomies) == 1 else f"-and-{len(anatomies) - 1}-more"
    )
    RunDir(run_path).refuse_links_out()
    folder = Path(run_path) / "probes"
    path = first_free(folder / f"{base}{'' if k == 1 else f'-{k}'}.parquet" for k in count(1))
    write_parquet(path, frame_of(anatomies), trimtab_schema=str(SCHEMA_VERSION))
    return path
