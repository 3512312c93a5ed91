"""What the doctor's rules look at: a run's records as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trimtab.advise.size_rules import Action
from trimtab.config import Config
from trimtab.math.optimizers import ADAPTIVE_RATES


@dataclass(frozen=True)
class Evidence:
    """A run's records as arrays. A metric is NaN in iterations that did not record it."""

    config: Config
    metrics: dict[str, np.ndarray]
    iterations: int
    returns: np.ndarray = field(default_factory=lambda: np.zeros(0))  # of finished episodes, in order
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))  # at which they finished
    action: Action | None = None
    not_finite: tuple[str, ...] = ()  # what stopped the run
    evaluations: np.ndarray = field(default_factory=lambda: np.zeros(0))  # mean returns with exploration off, in order
    rates: tuple[float, float] = ADAPTIVE_RATES  # bounds of an adaptive step size

    def middle(self, name: str) -> np.ndarray:
        """A metric over the middle half of training."""
        values = self.metrics.get(name, np.zeros(0))
        inner = values[len(values) // 4 : len(values) - len(values) // 4]
        return inner[np.isfinite(inner)]

    def series(self, name: str) -> tuple[float, ...]:
        values = self.metrics.get(name, np.zeros(0))
        return tuple(float(v) for v in values[np.isfinite(values)])
