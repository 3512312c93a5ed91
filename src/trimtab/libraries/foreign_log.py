"""A run of another library, as far as its logs tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trimtab.advise.evidence import Action, Evidence, Length, usual_length
from trimtab.config import Config
from trimtab.math.optimizers import ADAPTIVE_RATES

Scalars = dict[str, tuple[np.ndarray, np.ndarray]]  # by tag: steps and values
SIZES = frozenset({"num_envs", "num_steps", "minibatch"})  # without which nothing can be said of sizes

LOSSES = ("train/value_loss", "train/policy_gradient_loss")  # never NaN but in a run that has diverged


@dataclass
class Sources:
    """What was found where a log lies: numbers, texts, and the directory for whatever else a library leaves there."""

    folder: Path
    scalars: Scalars = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass
class Details:
    """What is known beside the metrics: hyperparameters by their own names, single episodes, the action space."""

    hyperparameters: dict[str, Any] = field(default_factory=dict)
    batch: int | None = None  # samples of an iteration, where only the product of N and T shows
    offset: int = 0  # steps that its axis lags behind
    env_id: str | None = None
    action: Action | None = None
    returns: np.ndarray = field(default_factory=lambda: np.zeros(0))  # of single episodes, by step
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(0))
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    evaluations: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Format:
    """How one library logs."""

    library: str  # as `trimtab translate` knows it
    title: str
    marks: tuple[str, ...]  # tags by any of which it is known
    names: dict[str, str]  # its tags under the names here
    details: Callable[[Sources], Details]
    negated: frozenset[str] = frozenset()  # tags with the opposite sign here
    axis: Literal["steps", "iterations", "calls"] = "steps"  # iterations count from 0, a call steps all environments
    rates: tuple[float, float] = ADAPTIVE_RATES  # bounds of an adaptive step size


@dataclass(frozen=True)
class Log:
    """Metrics under the names here, one row per iteration that recorded any, and the configuration they come from."""

    path: Path
    format: Format
    rows: list[dict[str, Any]]
    config: Config
    known: frozenset[str]  # what the log or its reader says; every other field is the library's default
    details: Details
    notes: tuple[str, ...] = ()

    @property
    def knows_sizes(self) -> bool:
        return self.known >= SIZES

    @property
    def evidence(self) -> Evidence:
        names = sorted({name for row in self.rows for name in row if name.startswith("train/")})
        return Evidence(
            config=self.config,
            metrics={name: np.array([row.get(name, np.nan) for row in self.rows], float) for name in names},
            iterations=len(self.rows),
            returns=self.details.returns,
            mean_returns=self.series("rollout/ep_rew_mean"),
            length=self._length,
            steps=self.details.steps,
            action=self.details.action,
            not_finite=tuple(name for name in LOSSES if not np.isfinite(self.rows[-1].get(name, 0.0))),
            evaluations=self.details.evaluations,
            rates=self.format.rates,
        )

    @property
    def _length(self) -> Length | None:
        means = self.series("rollout/ep_len_mean")
        return usual_length(self.details.lengths) or (Length(float(means[-1])) if len(means) else None)

    def series(self, name: str) -> np.ndarray:
        """A metric where it was recorded."""
        return np.array([row[name] for row in self.rows if name in row], float)
