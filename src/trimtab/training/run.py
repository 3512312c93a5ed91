"""A finished or unfinished run, opened for reading, and its learning curve. No JAX until parameters are asked for.

The learning curve has one definition, used wherever one is shown or compared: training is cut into equal bins of
environment steps, and a bin's value is the mean return of the episodes that end in it. So it does not lag, and lags no
more with more environments. A bin in which no episode ends has the value of the bin before it (at the start, of the
first that has one). The area under the curve is the mean over bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trimtab.config import Config
from trimtab.core import markup
from trimtab.core.estimate import Estimate
from trimtab.envs.own_environments import Constructor, hand_over
from trimtab.math import stats
from trimtab.training.numpy_policy import Policy, policy_of
from trimtab.training.records import Checkpoint, MetricsRow, RunSummary, Timing
from trimtab.training.run_dir import RunDir

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
    timing: Timing | None = field(default=None, compare=False)
    """How long the training took, where this process trained it."""

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self._sentence()}>"

    def _repr_html_(self) -> str:
        """For notebooks: one sentence, the learning curve, where it is."""
        points = [(row.step, row.mean_return) for row in self.files.metrics() if row.mean_return is not None]
        about = {"run": self.path, "checkpoints": len(self.checkpoints)} | self.config.derived()
        return markup.table(self._sentence(), about.items()) + markup.curve(points)

    def _sentence(self) -> str:
        """What it is, how far it came and what it reached."""
        config, summary = self.config, self.summary()
        mean = summary.ep_rew_mean
        reached = "no episode finished" if mean is None else f"mean return of the last episodes {mean:.4g}"
        done = f"{summary.total_timesteps:,} of {config.steps:,} steps"
        ended = self.files.manifest().ended
        error = f"; ended by an error: {ended}" if ended else ""
        return f"{config.algo} on {config.env_id}, seed {config.seed}; {done}, {reached}{error}"

    @cached_property
    def files(self) -> RunDir:
        """The run directory."""
        return RunDir.open(self.path)

    @property
    def config(self) -> Config:
        """The configuration as the directory has it now."""
        return self.files.config()

    @property
    def metrics(self) -> pl.DataFrame:
        """One row per iteration."""
        import polars as pl

        return pl.DataFrame([row.as_dict() for row in self.files.metrics()], infer_schema_length=None)

    @property
    def episodes(self) -> pl.DataFrame:
        """Finished episodes: step, env, return, length."""
        return self.files.episodes()

    @property
    def evaluations(self) -> pl.DataFrame:
        """One row per evaluation, those by `trimtab eval` among them, in order of steps."""
        import polars as pl

        return pl.DataFrame([row.as_dict() for row in self.files.all_evaluations()], infer_schema_length=None)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints in order of steps."""
        return self.files.checkpoints()

    def policy(self, step: int | None = None, sample: bool = False, seed: int = 0) -> Policy:
        """The trained policy as a function of observations that needs NumPy only.

        Args:
            step: the checkpoint; the last one by default.
            sample: draw actions as in training, instead of taking the most likely ones.
            seed: of these draws.

        Returns:
            A function from an observation, or a batch of them, to actions.
        """
        return policy_of(self.files, step, sample, seed)

    @property
    def curve(self) -> Curve:
        """The learning curve over the steps taken so far."""
        episodes, rows = self.episodes, self.files.metrics()
        steps = rows[-1].step if rows else 0
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
        """Whether all iterations are recorded."""
        rows = self.files.metrics()
        return bool(rows) and rows[-1].iteration >= self.config.iterations

    def summary(self) -> RunSummary:
        """What it is, how far it came, what it reached and how fast."""
        rows, config, timing = self.files.metrics(), self.config, self.timing
        last = rows[-1] if rows else MetricsRow(0, 0)
        fps = timing.fps if timing and timing.fps is not None else last.fps
        seconds = timing.seconds if timing and timing.seconds is not None else last.numbers.get("time/elapsed", 0.0)
        compiling = timing.compile_seconds if timing and timing.compile_seconds is not None else 0.0
        return RunSummary(
            run=str(self.path),
            env_id=config.env_id,
            algo=config.algo,
            seed=config.seed,
            total_timesteps=last.step,
            ep_rew_mean=last.mean_return,
            fps=round(fps, 1),
            seconds=round(seconds, 3),
            compile_seconds=round(compiling, 3),
            interval=timing.interval if timing else None,
        )


def load(path: str | PathLike[str], env: Constructor | None = None) -> Run:
    """Open a run directory.

    Args:
        path: the directory.
        env: makes the environments of a run that was trained with a lambda or another constructor that this process
            cannot import, so that it can be evaluated, probed, watched and resumed here.

    Returns:
        The run.
    """
    run = Run(Path(path))
    files = run.files  # refuses what is no run
    if env is not None:
        hand_over(files.config().env_id, env)
    return run


def learning_frame(runs: list[tuple[str, int, Path]]) -> pl.DataFrame:
    """Learning curves of (series, seed, path) as one table: series, seed, step, return, ended."""
    import polars as pl

    schema = {"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64, "ended": pl.Boolean}
    rows = [
        (series, seed, round(step), value, bool(ended))
        for series, seed, path in runs
        for step, value, ended in zip(*Run(path).curve)
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("return").is_not_nan())
