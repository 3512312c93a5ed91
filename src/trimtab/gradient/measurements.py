"""One long table of measurements: what probes, splits and studies write, and all that charts and reports read."""

from __future__ import annotations

import math
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from trimtab.core.quantities import EXACT
from trimtab.core.quantities import quantity as described
from trimtab.core.writing import first_free, write_parquet

SCHEMA_VERSION = 1
SCHEMA = {
    "quantity": pl.String,
    "split": pl.String,
    "num_envs": pl.Int64,
    "num_steps": pl.Int64,
    "step": pl.Int64,
    "gamma": pl.Float64,
    "gae_lambda": pl.Float64,
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


def frame_of(anatomies: list[Any]) -> pl.DataFrame:
    """The measurements of some anatomies as one table."""
    rows = [row for anatomy in anatomies for row in _rows(anatomy)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _rows(a: Any):
    def row(quantity: str, value: float, lo=math.nan, hi=math.nan, resolved=True, lag=None, note=None):
        where = (a.split, a.num_envs, a.num_steps, a.step, a.gamma, a.gae_lambda)
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
    yield row("reset_synchrony", a.reset_synchrony, resolved=math.isfinite(a.reset_synchrony))
    for num_steps, e in a.predicted.items():
        yield row("predicted_variance", e.value, e.lo, e.hi, e.resolved, lag=num_steps)
    for name, value in a.exact.items():
        yield row(f"{EXACT}{name}", value, value, value)
    d = a.decomposition
    for lag, (value, (lo, hi)) in enumerate(zip(d.lag_covariance, d.lag_interval)):
        yield row("lag_covariance", value, lo, hi, math.isfinite(value), lag)
    yield from _correlations(a, row)
    yield from _alignments(a, row)
    yield from _minibatch(a, row)
    for note in a.notes:
        yield row("note", math.nan, resolved=False, note=note)


def _correlations(a: Any, row):
    if a.cosine_correlation is not None:
        for lag, dist in enumerate(a.cosine_correlation.lags, start=1):
            if dist.num_pairs:
                q = dist.quantiles
                yield row("cosine_within", dist.mean, q[0], q[-1], lag=lag)
                if lag in SHOWN_LAGS:
                    yield from (row("cosine_within_value", v, lag=lag) for v in dist.values[:KEPT])
        if a.cosine_correlation.across.num_pairs:
            q = a.cosine_correlation.across.quantiles
            yield row("cosine_across", a.cosine_correlation.across.mean, q[0], q[-1])
            yield from (row("cosine_across_value", v) for v in a.cosine_correlation.across.values[:KEPT])
        yield row("zero_gradients", a.cosine_correlation.num_left_out)
    if a.covariance_correlation is not None:
        for lag, value in enumerate(a.covariance_correlation.lags):
            if math.isfinite(value):
                yield row("covariance_within", value, lag=lag)
        yield row(
            "covariance_across",
            a.covariance_correlation.across,
            resolved=math.isfinite(a.covariance_correlation.across),
        )


def _alignments(a: Any, row):
    if a.alignment is not None:
        cosine, step = a.alignment.cosine, a.alignment.step
        for t in range(int(step.max()) + 1):
            here = cosine[(step == t) & np.isfinite(cosine)]
            if len(here):
                lo, hi = np.quantile(here, [0.05, 0.95])
                yield row("cosine_trajectory_mean", here.mean(), lo, hi, lag=t)
    own = a.batch_alignment[np.isfinite(a.batch_alignment)]
    if len(own):
        lo, hi = np.quantile(own, [0.05, 0.95])
        yield row("cosine_batch_mean", own.mean(), lo, hi)
        yield from (row("cosine_batch_mean_value", v) for v in own[:KEPT])
    for j, values in enumerate(a.replicate_alignment):
        here = values[np.isfinite(values)]
        if len(here):
            lo, hi = np.quantile(here, [0.05, 0.95])
            yield row("cosine_replicate_mean", here.mean(), lo, hi, lag=j)
    size = len(a.replicate_cosines)
    for i in range(size):
        for j in range(size):
            yield row("replicate_cosine", a.replicate_cosines[i, j], lag=i * size + j, note=f"{i},{j}")


def _minibatch(a: Any, row):
    for name, value in a.minibatch.items():
        quantity = name if name == "minibatch_size" else f"minibatch_{name}"
        if isinstance(value, np.ndarray):
            yield from (row(quantity, v, lag=k) for k, v in enumerate(value))
        else:
            yield row(quantity, value)


def write(run_path: Path, anatomies: list[Any]) -> Path:
    """Save measurements with their run, under a name that says what was measured; nothing is overwritten."""
    base = f"step{anatomies[0].step}-{anatomies[0].split}" + (
        "" if len(anatomies) == 1 else f"-and-{len(anatomies) - 1}-more"
    )
    folder = Path(run_path) / "probes"
    path = first_free(folder / f"{base}{'' if k == 1 else f'-{k}'}.parquet" for k in count(1))
    write_parquet(path, frame_of(anatomies), trimtab_schema=str(SCHEMA_VERSION))
    return path
