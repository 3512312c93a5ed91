"""The result of a probe as typed values: `ProbeResult` is what JSON keeps of it, `Anatomy` adds arrays of samples."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

import numpy as np

from trimtab.core import quantities
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.json_values import from_json, to_json
from trimtab.core.wording import horizon, split_name
from trimtab.gradient.batch_sentence import BatchWorth
from trimtab.gradient.correlation import CosineCorrelation, CovarianceCorrelation, TrajectoryAlignment
from trimtab.gradient.noise import NoiseScale, predict_variance
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.variance import Decomposition

Numbers = tuple[float | None, ...]  # None stands for what is not a finite number
_T = TypeVar("_T", bound="_Measured")


def finite(value: float) -> float | None:
    """The number, or None if it is not finite (JSON has no NaN)."""
    return float(value) if math.isfinite(value) else None


def finite_numbers(values: Iterable[float]) -> Numbers:
    """The same for every number of a sequence."""
    return tuple(finite(value) for value in values)


def shared_variance(floor: Estimate) -> float:
    """The variance that more environments do not lower, where it is significantly above 0."""
    return floor.value if floor.resolved and floor.lo > 0 else 0.0


class _Measured:
    """A dataclass whose JSON form leaves out what was not measured (None)."""

    def as_dict(self) -> dict[str, Any]:
        return {name: to_json(value) for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls: type[_T], entry: Mapping[str, Any]) -> _T:
        hints = get_type_hints(cls)
        return cls(**{name: from_json(hints[name], value) for name, value in entry.items() if name in hints})


@dataclass(frozen=True)
class ExactAnswers(_Measured):
    """What the estimates of a probe of a finite MDP estimate, computed from its transition table."""

    bias_sq: float | None = None
    grad_sq: float | None = None
    true_grad_sq: float | None = None
    cosine_true_return: float | None = None
    cosine_expected_true: float | None = None
    variance_floor: float | None = None

    def __bool__(self) -> bool:
        return self.true_grad_sq is not None


@dataclass(frozen=True)
class MinibatchEffects(_Measured):
    """What cutting the batch into minibatches does: sub-sampling variance, drift and clip bias update by update."""

    minibatch_size: int | None = None
    subsampling_formula: float | None = None
    subsampling_measured: float | None = None
    subsampling_rows_formula: float | None = None
    subsampling_rows_measured: float | None = None
    drift: Numbers | None = None
    clip_bias: Numbers | None = None


@dataclass(frozen=True)
class CosineMeans:
    """Mean cosines of pairs of one trajectory at lags 1, 2, ..., and of pairs of different environments."""

    lags: Numbers
    across: float | None
    left_out: int


@dataclass(frozen=True)
class CovarianceMeans:
    """Correlations of pairs of one trajectory at lags 0, 1, ..., and of pairs of different environments."""

    lags: Numbers
    across: float | None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ProbeResult:
    """What one probe measured at one checkpoint, λ and split; the JSON of a probe, field by field.

    `predicted` is the variance of the same batch by smaller T. `phases`: how the environments stood to each other where
    rows start in the phases of training: in the recorded states of the run's own environments, in lockstep, or spread.
    Units and meanings: `trimtab.core.quantities`.
    """

    step: int
    num_envs: int
    num_steps: int
    gamma: float
    gae_lambda: float
    options: ProbeOptions
    method: str
    relative_error: float
    reset_synchrony: float | None
    variance: Estimate
    individual: Estimate
    covariance: Estimate
    ess: Estimate
    grad_sq: Estimate
    phases: str | None = None
    between_rows: Estimate = UNRESOLVED
    variance_floor: Estimate = UNRESOLVED
    bias_sq: Estimate = UNRESOLVED
    mse: Estimate = UNRESOLVED
    true_grad_sq: Estimate = UNRESOLVED
    noise_scale: Estimate = UNRESOLVED
    noise_scale_trajectory: Estimate = UNRESOLVED
    noise_scale_environments: Estimate = UNRESOLVED
    noise_floor: Estimate = UNRESOLVED
    phase_autocorrelation: Estimate = UNRESOLVED
    exact: ExactAnswers = ExactAnswers()
    predicted: dict[int, Estimate] = field(default_factory=dict)
    lag_covariance: Numbers = ()
    lag_covariance_interval: tuple[Numbers, ...] = ()
    cosine: CosineMeans | None = None
    covariance_correlation: CovarianceMeans | None = None
    replicate_cosines: tuple[Numbers, ...] = ()
    minibatch: MinibatchEffects = MinibatchEffects()
    notes: tuple[str, ...] = ()

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Every number with an interval, by the name it has in tables and JSON."""
        return {quantity.name: getattr(self, quantity.name) for quantity in quantities.ESTIMATES}

    @property
    def split(self) -> str:
        """N × T as it is typed: 4x256."""
        return split_name(self.num_envs, self.num_steps)

    @property
    def worth(self) -> BatchWorth:
        """What the batch is worth.

        What environments share is no less with more of them: Var(2N) / Var(N) = 1/2 + C / (2 Var(N)). Twice the steps
        are extrapolated with no covariance beyond the measured lags. They are unknown where environments share
        something, because longer rows see more of the cycle.
        """
        lags = [value for value in self.lag_covariance if value is not None]
        floor, ratio = shared_variance(self.variance_floor), None
        more = 0.5 + 0.5 * min(floor / self.variance.value, 1.0) if floor else 0.5
        if len(lags) == self.num_steps and lags[0] > 0 and not floor:
            now, twice = (predict_variance(lags, self.num_envs, k * self.num_steps).value for k in (1, 2))
            ratio = twice / now if twice > 0 and now > 0 else None
        return BatchWorth(self.num_envs, self.num_steps, self.ess, self.noise_scale_trajectory, more, ratio)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return self.worth.sentence

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the horizons of γ and γλ (None: infinite)."""
        values = {item.name: to_json(getattr(self, item.name)) for item in dataclasses.fields(ProbeResult)}
        look_ahead = finite(horizon(self.gamma)), finite(horizon(self.gamma * self.gae_lambda))
        horizons = dict(zip(("horizon_gamma", "horizon_gamma_lambda"), look_ahead))
        return values | horizons | {"sentence": self.sentence}

    @staticmethod
    def from_dict(entry: Mapping[str, Any]) -> ProbeResult:
        """From what `as_dict` made, also of earlier versions."""
        hints = get_type_hints(ProbeResult)
        return ProbeResult(**{name: from_json(hints[name], value) for name, value in entry.items() if name in hints})

    def __repr__(self) -> str:
        shown = ("variance", "covariance", "between_rows", "bias_sq", "ess", "noise_scale_trajectory")
        values = ", ".join(f"{quantities.quantity(name).label} {self.estimates[name]}" for name in shown)
        kind = type(self).__name__
        return f"{kind} of {self.split} at step {self.step:,}, λ = {self.gae_lambda:g}: {values}"

    def _repr_html_(self) -> str:
        """Every estimate with what it means, for notebooks."""
        cells = [(q.label, str(self.estimates[q.name]), q.unit, q.meaning) for q in quantities.ESTIMATES]
        rows = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in cells)
        title = f"Gradient of {self.split} at step {self.step:,}, λ = {self.gae_lambda:g}"
        return f"<table><caption>{title}</caption>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


@dataclass(frozen=True)
class Directions:
    """Cosines of single gradients: with each other, with their trajectory's mean, with the means of batches.

    `batches` holds cos(g_i, mean of batch j) as [j, i], for the samples of batch 0.
    """

    cosines: CosineCorrelation
    covariances: CovarianceCorrelation | None
    trajectories: TrajectoryAlignment
    batches: np.ndarray


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Anatomy(ProbeResult):
    """A probe's result with the estimators' own results and the cosines of single samples, for tables and figures."""

    decomposition: Decomposition
    noise: NoiseScale
    directions: Directions | None = None

    @property
    def frame(self) -> Any:
        """The table of measurements (polars)."""
        from trimtab.gradient.measurements import frame_of

        return frame_of([self])

    def charts(self) -> dict[str, Any]:
        """Altair figures by name."""
        from trimtab.show import probe_figures

        return probe_figures.of_frame(self.frame)
