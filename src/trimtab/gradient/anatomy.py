"""What one probe found."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimtab.core import quantities
from trimtab.core.estimate import Estimate
from trimtab.core.wording import horizon, split_name
from trimtab.gradient import correlation
from trimtab.gradient.noise import NoiseScale
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.variance import Decomposition


@dataclass(frozen=True, repr=False)
class Anatomy:
    """What one probe found; every part is an Estimate, an array, or a dataclass of them."""

    step: int
    num_envs: int
    num_steps: int
    gamma: float
    gae_lambda: float
    options: ProbeOptions
    method: str
    relative_error: float
    reset_synchrony: float
    decomposition: Decomposition
    noise: NoiseScale
    bias_sq: Estimate
    mse: Estimate
    true_grad_sq: Estimate
    exact: dict[str, float]
    predicted: dict[int, Estimate]
    notes: tuple[str, ...]
    cosine_correlation: correlation.CosineCorrelation | None = None
    covariance_correlation: correlation.CovarianceCorrelation | None = None
    alignment: correlation.TrajectoryAlignment | None = None
    batch_alignment: np.ndarray = field(default_factory=lambda: np.zeros(0))
    replicate_alignment: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    replicate_cosines: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    minibatch: dict[str, Any] = field(default_factory=dict)

    @property
    def variance(self) -> Estimate:
        return self.decomposition.variance

    @property
    def individual(self) -> Estimate:
        return self.decomposition.individual

    @property
    def covariance(self) -> Estimate:
        return self.decomposition.covariance

    @property
    def ess(self) -> Estimate:
        return self.decomposition.ess

    @property
    def grad_sq(self) -> Estimate:
        return self.decomposition.grad_sq

    @property
    def noise_scale(self) -> Estimate:
        return self.noise.simple

    @property
    def noise_scale_trajectory(self) -> Estimate:
        return self.noise.trajectory

    @property
    def noise_scale_environments(self) -> Estimate:
        return self.noise.environments

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Every number with an interval, by the name it has in tables and JSON."""
        return {quantity.name: getattr(self, quantity.name) for quantity in quantities.ESTIMATES}

    @property
    def split(self) -> str:
        return split_name(self.num_envs, self.num_steps)

    @property
    def frame(self):
        """The table of measurements (polars)."""
        from trimtab.gradient.measurements import frame_of

        return frame_of([self])

    def charts(self) -> dict[str, Any]:
        """Altair figures by name."""
        from trimtab.show import probe_figures

        return probe_figures.of_frame(self.frame)

    def __repr__(self) -> str:
        shown = ("variance", "covariance", "bias_sq", "ess", "noise_scale_trajectory")
        values = ", ".join(f"{quantities.quantity(name).label} {self.estimates[name]}" for name in shown)
        return f"Anatomy of {self.split} at step {self.step:,}, λ = {self.gae_lambda:g}: {values}"

    def _repr_html_(self) -> str:
        """Every estimate with what it means, for notebooks."""
        cells = [(q.label, str(self.estimates[q.name]), q.unit, q.meaning) for q in quantities.ESTIMATES]
        rows = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in cells)
        title = f"Gradient of {self.split} at step {self.step:,}, λ = {self.gae_lambda:g}"
        return f"<table><caption>{title}</caption>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


# Plain numbers ---------------------------------------------------------------------------------------------


def as_json(anatomy: Any) -> dict[str, Any]:
    """Plain numbers only; what is not a finite number is None."""
    a, d = anatomy, anatomy.decomposition
    return {
        "step": a.step,
        "num_envs": a.num_envs,
        "num_steps": a.num_steps,
        "gamma": a.gamma,
        "gae_lambda": a.gae_lambda,
        "horizon_gamma": _number(horizon(a.gamma)),
        "horizon_gamma_lambda": _number(horizon(a.gamma * a.gae_lambda)),
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in vars(a.options).items()},
        "method": a.method,
        "relative_error": _number(a.relative_error),
        "reset_synchrony": _number(a.reset_synchrony),
        **{name: e.as_dict() for name, e in a.estimates.items()},
        "exact": {name: _number(value) for name, value in a.exact.items()},
        "predicted": {str(num_steps): e.as_dict() for num_steps, e in a.predicted.items()},
        "lag_covariance": _numbers(d.lag_covariance),
        "lag_covariance_interval": [_numbers(pair) for pair in d.lag_interval],
        "cosine": _cosines(a.cosine_correlation),
        "covariance_correlation": None
        if a.covariance_correlation is None
        else {"lags": _numbers(a.covariance_correlation.lags), "across": _number(a.covariance_correlation.across)},
        "replicate_cosines": [_numbers(row) for row in a.replicate_cosines],
        "minibatch": {k: _numbers(v) if getattr(v, "ndim", 0) else _number(v) for k, v in a.minibatch.items()},
        "notes": list(a.notes),
    }


def _cosines(cosine: Any) -> dict[str, Any] | None:
    if cosine is None:
        return None
    return {
        "lags": [_number(lag.mean) for lag in cosine.lags],
        "across": _number(cosine.across.mean),
        "left_out": int(cosine.num_left_out),
    }


def _number(value: Any) -> float | int | None:
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(float(value)) else None


def _numbers(values: Any) -> list[float | int | None]:
    return [_number(value) for value in values]
