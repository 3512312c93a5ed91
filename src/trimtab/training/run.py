"""A finished or unfinished run, opened for reading. No JAX until parameters are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.config import Config
from trimtab.core import markup
from trimtab.core.estimate import Estimate
from trimtab.envs.own_environments import Constructor, hand_over
from trimtab.math import stats
from trimtab.training.learning_curve import LearningCurve, evaluated_rise
from trimtab.training.numpy_policy import Policy, policy_of
from trimtab.training.records import Checkpoint, MetricsRow, RunSummary, Timing
from trimtab.training.run_dir import RunDir

if TYPE_CHECKING:
    import polars as pl


QUARTER = 8  # episodes that a quarter of a run must have to say whether returns rose


def return_rise(returns: np.ndarray) -> Estimate | None:
    """How much more the last quarter of the episodes returned than the first, ± 3 standard errors.

    None where they are too few to say: of two or three episodes three errors are no bound at all.
    """
    quarter = len(returns) // 4
    return None if quarter < QUARTER else stats.difference(returns[:quarter], returns[-quarter:])


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
    def curve(self) -> LearningCurve:
        """The learning curve over the steps taken so far: evaluated, or credited where the run was not evaluated."""
        return self.files.learning_curve()

    @property
    def area(self) -> float | None:
        """Area under the learning curve: the mean return over training."""
        return self.curve.area

    @property
    def improved(self) -> bool:
        """Whether the return rose significantly over training (by three standard errors)."""
        change = evaluated_rise(self.files.evaluations())
        if change is None:
            change = return_rise(self.episodes["return"].to_numpy())
        return change is not None and change.lo > 0

    def newest(self, quantity: str) -> dict[str, Any] | None:
        """The latest resolved measurement of a quantity among the run's probes: value, lo, hi, step and the rest."""
        import polars as pl

        rows = self.files.measurements().filter((pl.col("quantity") == quantity) & pl.col("resolved"))
        return max(rows.iter_rows(named=True), key=lambda row: row["step"] or 0, default=None)

    @property
    def finished(self) -> bool:
        """Whether all iterations are recorded."""
        last = self.files.last_metrics()
        return last is not None and last.iteration >= self.config.iterations

    def summary(self) -> RunSummary:
        """What it is, how far it came, what it reached and how fast."""
        config, timing = self.config, self.timing
        last = self.files.last_metrics() or MetricsRow(0, 0)
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
    """Learning curves of (series, seed, path) as one table: series, seed, step, return, measure."""
    import polars as pl

    schema = {"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64, "measure": pl.String}
    rows = []
    for series, seed, path in runs:
        curve = Run(path).curve
        rows += [(series, seed, round(step), value, curve.measure) for step, value in zip(curve.step, curve.value)]
    return pl.DataFrame(rows, schema=schema, orient="row").filter(pl.col("return").is_not_nan())
