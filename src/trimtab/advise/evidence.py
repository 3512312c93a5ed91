"""What rules look at: a configuration, what its run recorded, and how episodes went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.advise.return_course import ReturnCourse, course_of_episodes, course_of_means
from trimtab.config import Config
from trimtab.core import reading
from trimtab.core.estimate import Estimate
from trimtab.core.wording import steps
from trimtab.math.optimizers import ADAPTIVE_RATES
from trimtab.training import records
from trimtab.training.records import EnvironmentRecord
from trimtab.training.run import Run

Numbers = NDArray[Any]
NO_NUMBERS: Numbers = np.zeros(0)
MOST_METRICS = 1_000  # of one run; training records some forty
TRANSIENT = 0.2  # of training, at its start, where running statistics settle and nothing counts as oscillation


class Action(NamedTuple):
    """What the policy chooses: one of `size` actions, or `size` numbers."""

    kind: str
    size: int


class Length(NamedTuple):
    """How long episodes are: as measured, or, where none has finished, at most as long as the time limit."""

    steps: float
    is_limit: bool = False

    def __str__(self) -> str:
        return f"{'at most ' * self.is_limit}{steps(self.steps)}"


class Level(NamedTuple):
    """A metric over the middle half of training: its median, its quartiles, and its course over all of training."""

    value: float
    lo: float
    hi: float
    series: tuple[float, ...]


class _RunFiles(NamedTuple):
    """What a run's directory says beside its metrics."""

    path: Path
    ended: str | None  # the error that ended the run
    last_checkpoint: int  # environment steps


class _Evaluation(NamedTuple):
    """The last evaluation without exploration, and the mean return in training at the end."""

    mean: float
    lo: float  # quartiles of its episodes
    hi: float
    step: int
    in_training: float | None


class DiskNeed(NamedTuple):
    """What a run will take on disk, in bytes."""

    total: int
    checkpoints: int
    checkpoint: int
    parameters: int
    usual_checkpoints: int


@dataclass(frozen=True)
class Evidence:
    """Records as arrays. A metric is NaN in iterations that did not record it; what is not known is empty or None."""

    config: Config
    metrics: Mapping[str, Numbers] = field(default_factory=dict)
    iterations: int = 0
    returns: Numbers = field(default_factory=lambda: NO_NUMBERS)  # of finished episodes, in order
    steps: Numbers = field(default_factory=lambda: NO_NUMBERS)  # at which they finished
    mean_returns: Numbers = field(default_factory=lambda: NO_NUMBERS)  # where only means of episodes are recorded
    mean_episodes: Numbers = field(default_factory=lambda: NO_NUMBERS)  # that had finished by then, about
    action: Action | None = None
    length: Length | None = None  # of episodes
    not_finite: tuple[str, ...] = ()  # what stopped the run
    evaluations: Numbers = field(default_factory=lambda: NO_NUMBERS)  # mean returns without exploration, in order
    rates: tuple[float, float] = ADAPTIVE_RATES  # bounds of an adaptive learning rate
    files: _RunFiles | None = None
    evaluation: _Evaluation | None = None
    noise_scale: Estimate | None = None  # in samples
    noise_scale_step: int = 0
    shared_noise: tuple[float, int] | None = None  # the part of the variance between rows, significant, and its step
    disk: DiskNeed | None = None

    @cached_property
    def course(self) -> ReturnCourse | None:
        """How returns went; None where too few are recorded."""
        if len(self.returns):
            return course_of_episodes(self.returns)
        return course_of_means(self.mean_returns, self.mean_episodes)

    @property
    def improves(self) -> bool:
        """Whether returns rose significantly and stayed up."""
        return self.course is not None and self.course.improves

    @property
    def chooses(self) -> bool:
        """Whether the policy chooses one of several actions."""
        return self.action is not None and self.action.kind == "discrete" and self.action.size > 1

    def middle(self, name: str) -> Numbers:
        """A metric over the middle half of training, away from its start and from an annealed learning rate."""
        values = self.metrics.get(name, NO_NUMBERS)
        inner = values[len(values) // 4 : len(values) - len(values) // 4]
        return inner[np.isfinite(inner)]

    def settled(self, name: str) -> Numbers:
        """A metric after the first fifth of training."""
        values = self.metrics.get(name, NO_NUMBERS)
        later = values[int(TRANSIENT * len(values)) :]
        return later[np.isfinite(later)]

    def series(self, name: str) -> tuple[float, ...]:
        """A metric where it was recorded."""
        values = self.metrics.get(name, NO_NUMBERS)
        return tuple(float(value) for value in values[np.isfinite(values)])

    def level(self, name: str, fewest: int = 4) -> Level | None:
        """The usual value of a metric; None if fewer than `fewest` iterations of the middle half recorded it."""
        values = self.middle(name)
        if len(values) < fewest:
            return None
        lo, median, hi = (float(quantile) for quantile in np.quantile(values, [0.25, 0.5, 0.75]))
        return Level(median, lo, hi, self.series(name))


def evidence_of(run: Run) -> Evidence:
    """The records of a run.

    Args:
        run: a run, finished or not.

    Returns:
        Its evidence. Nothing is computed that needs JAX.
    """
    rows, episodes, config = run.files.metrics(), run.episodes, run.config
    names = _names(run, rows)
    manifest = run.files.manifest()
    environment = manifest.environment or EnvironmentRecord()
    action, limit = environment.action, environment.time_limit
    evaluations, noise = run.files.all_evaluations(), run.newest("noise_scale_trajectory")
    in_training = rows[-1].mean_return if rows else None
    return Evidence(
        config=config,
        metrics={name: np.array([row.numbers.get(name, np.nan) for row in rows], float) for name in names},
        iterations=rows[-1].iteration if rows else 0,
        returns=episodes["return"].to_numpy(),
        steps=episodes["step"].to_numpy(),
        action=Action(action.kind, action.size) if action else None,
        length=usual_length(episodes["length"].to_numpy()) or (Length(limit, is_limit=True) if limit else None),
        not_finite=rows[-1].not_finite if rows else (),
        evaluations=np.array([row.mean_reward for row in run.files.evaluations()], float),
        files=_RunFiles(run.path, manifest.ended, max((c.step for c in run.checkpoints), default=0)),
        evaluation=_last_evaluation(evaluations[-1], in_training) if evaluations else None,
        noise_scale=Estimate(noise["value"], noise["lo"], noise["hi"]) if noise else None,
        noise_scale_step=noise["step"] if noise else 0,
        shared_noise=_shared_noise(run),
    )


def _names(run: Run, rows: Sequence[records.MetricsRow]) -> list[str]:
    """The metrics of training that rows recorded; of a file that somebody else made, not more than MOST_METRICS."""
    names = list(dict.fromkeys(name for row in rows for name in row.numbers if name.startswith("train/")))
    if len(names) > MOST_METRICS:
        reading.report(f"{run.path}: {len(names):,} different metrics; all but the first {MOST_METRICS:,} are left out")
    return sorted(names[:MOST_METRICS])


def _shared_noise(run: Run) -> tuple[float, int] | None:
    """The share of the variance between rows at the last step where a probe resolved it above 0."""
    import polars as pl

    rows = run.files.measurements().filter(pl.col("start") == "training")
    shared = rows.filter((pl.col("quantity") == "between_rows") & pl.col("resolved") & (pl.col("lo") > 0))
    for row in shared.sort("step", descending=True).iter_rows(named=True):
        same = (pl.col("quantity") == "variance") & (pl.col("step") == row["step"]) & (pl.col("split") == row["split"])
        variance = rows.filter(same)["value"]
        if len(variance) and variance[-1] > 0:
            return row["value"] / variance[-1], row["step"]
    return None


def _last_evaluation(row: records.Evaluation, in_training: float | None) -> _Evaluation:
    return _Evaluation(row.mean_reward, row.iqr_low, row.iqr_high, row.step, in_training)


def usual_length(lengths: Numbers) -> Length | None:
    """The median length of the later half of the episodes."""
    return Length(float(np.median(lengths[len(lengths) // 2 :]))) if len(lengths) else None
