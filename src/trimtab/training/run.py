"""A finished or unfinished run, opened for reading, and its learning curve. No JAX until parameters are asked for.

The learning curve has one definition, used wherever one is shown or compared: training is cut into equal bins of
environment steps, and a bin's value is the mean return of the episodes that end in it. So it does not lag, and lags no
more with more environments. A bin in which no episode ends has the value of the bin before it (at the start, of the
first that has one). The area under the curve is the mean over bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.core import markup
from trimtab.core.estimate import Estimate
from trimtab.envs.own_environments import Constructor, hand_over
from trimtab.math import stats
from trimtab.training.numpy_policy import Policy, policy_of
from trimtab.training.records import Checkpoint, RunDir

if TYPE_CHECKING:
    import polars as pl


BINS = 50
QUARTER = 8  # episodes that a quarter of a run must have to say whether returns rose


class Curve(NamedTuple):
    """The middle of every bin, its value, and whether an episode ended in it."""

    step: np.ndarray
    value: np.ndarray
    ended: np.ndarray

    @property
    def area(self) -> float | None:
        """The mean over bins; None where no episode ended at all."""
        return float(self.value.mean()) if self.ended.any() else None

    @property
    def staircase(self) -> bool:
        """Whether most bins only repeat the one before: episodes end together, or seldom."""
        return bool(self.ended.mean() < 0.5)


def return_rise(returns: np.ndarray) -> Estimate | None:
    """How much more the last quarter of the episodes returned than the first, ± 3 standard errors.

    None where they are too few to say: of two or three episodes three errors are no bound at all.
    """
    quarter = len(returns) // 4
    return None if quarter < QUARTER else stats.difference(returns[:quarter], returns[-quarter:])


def learning_curve(ends: ArrayLike, returns: ArrayLike, steps: int, bins: int = BINS) -> Curve:
    """The curve of episodes that ended at these environment steps with these returns, in a run of `steps` so far."""
    ends, returns = np.asarray(ends), np.asarray(returns, dtype=float)
    steps = max(int(steps), 1)
    bins = min(bins, steps)
    where = np.clip((ends - 1) * bins // steps, 0, bins - 1).astype(int)
    count = np.bincount(where, minlength=bins)
    ended = count > 0
    value = np.full(bins, np.nan)
    value[ended] = np.bincount(where, returns, bins)[ended] / count[ended]
    if ended.any():
        last = np.maximum.accumulate(np.where(ended, np.arange(bins), -1))
        value = value[np.where(last < 0, ended.argmax(), last)]
    return Curve((np.arange(bins) + 0.5) * steps / bins, value, ended)


@dataclass(frozen=True)
class Run:
    """What `trimtab.train` returns and `trimtab.load` opens."""

    path: Path
    timing: dict[str, float] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self._sentence()}>"

    def _repr_html_(self) -> str:
        """For notebooks: one sentence, the learning curve, where it is."""
        rows = self.files.metrics()
        points = [(r["time/total_timesteps"], r["rollout/ep_rew_mean"]) for r in rows if "rollout/ep_rew_mean" in r]
        about = {"run": self.path, "checkpoints": len(self.checkpoints)} | self.config.derived()
        return markup.table(self._sentence(), about.items()) + markup.curve(points)

    def _sentence(self) -> str:
        """What it is, how far it came and what it reached."""
        config, summary = self.config, self.summary()
        mean = summary["ep_rew_mean"]
        reached = "no episode finished" if mean is None else f"mean return of the last episodes {mean:.4g}"
        done = f"{summary['total_timesteps']:,} of {config.steps:,} steps"
        ended = self.files.manifest().get("ended")
        error = f"; ended by an error: {ended}" if ended else ""
        return f"{config.algo} on {config.env_id}, seed {config.seed}; {done}, {reached}{error}"

    @property
    def files(self) -> RunDir:
        return RunDir.open(self.path)

    @property
    def config(self) -> Config:
        return configuration.from_dict(self.files.config())

    @property
    def metrics(self) -> pl.DataFrame:
        """Polars frame, one row per iteration."""
        import polars as pl

        return pl.DataFrame(self.files.metrics(), infer_schema_length=None)

    @property
    def episodes(self) -> pl.DataFrame:
        """Polars frame of finished episodes: step, env, return, length."""
        return self.files.episodes()

    @property
    def evaluations(self) -> pl.DataFrame:
        """Polars frame, one row per evaluation, those by `trimtab eval` among them; in order of steps."""
        import polars as pl

        return pl.DataFrame(self.files.all_evaluations(), infer_schema_length=None)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        return self.files.checkpoints()

    def policy(self, step: int | None = None, sample: bool = False, seed: int = 0) -> Policy:
        """The trained policy as a function of observations that needs NumPy only.

        `step` names a checkpoint (the last by default). Actions are the most likely ones, or drawn as in training if
        `sample`, with this `seed`.
        """
        return policy_of(self.files, step, sample, seed)

    @property
    def curve(self) -> Curve:
        """The learning curve: mean return of the episodes that ended in equal bins of the steps taken so far."""
        episodes, rows = self.episodes, self.files.metrics()
        steps = rows[-1]["time/total_timesteps"] if rows else 0
        return learning_curve(episodes["step"].to_numpy(), episodes["return"].to_numpy(), steps)

    @property
    def area(self) -> float | None:
        """Area under the learning curve: the mean over its bins."""
        return self.curve.area

    def newest(self, quantity: str) -> dict[str, Any] | None:
        """The latest resolved measurement of a quantity among the run's probes: value, lo, hi, step and the rest."""
        import polars as pl

        rows = self.files.measurements().filter((pl.col("quantity") == quantity) & pl.col("resolved"))
        return max(rows.iter_rows(named=True), key=lambda row: row["step"] or 0, default=None)

    @property
    def finished(self) -> bool:
        rows = self.files.metrics()
        return bool(rows) and rows[-1]["iteration"] >= self.config.iterations

    def summary(self) -> dict[str, Any]:
        """What `train --json` prints."""
        rows = self.files.metrics()
        last = rows[-1] if rows else {}
        config = self.config
        return {
            "run": str(self.path),
            "env_id": config.env_id,
            "algo": config.algo,
            "seed": config.seed,
            "total_timesteps": last.get("time/total_timesteps", 0),
            "ep_rew_mean": last.get("rollout/ep_rew_mean"),
            "fps": round(self.timing.get("fps", last.get("time/fps", 0.0)), 1),
            "seconds": round(self.timing.get("seconds", last.get("time/elapsed", 0.0)), 3),
            "compile_seconds": round(self.timing.get("compile_seconds", 0.0), 3),
        } | ({"interval": self.timing["interval"]} if self.timing else {})


def load(path: str | PathLike[str], env: Constructor | None = None) -> Run:
    """Open a run directory.

    `env` makes the environments of a run that was given a lambda or another constructor that only its program knew:
    in this one, too, it can then be evaluated, probed, watched and resumed.
    """
    run = Run(RunDir.open(path).path)
    if env is not None:
        hand_over(run.config.env_id, env)
    return run


def learning_frame(runs: list[tuple[str, int, Path]]):
    """Learning curves of (series, seed, path) as one polars frame: series, seed, step, return, ended."""
    import polars as pl

    schema = {"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64, "ended": pl.Boolean}
    rows = [
        (series, seed, round(step), value, bool(ended))
        for series, seed, path in runs
        for step, value, ended in zip(*Run(path).curve)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("return").is_not_nan())
