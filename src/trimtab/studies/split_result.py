"""What `trimtab split` measures and answers, as typed values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.wording import split_name, split_text
from trimtab.gradient.anatomy import ExactAnswers, Numbers, ProbeResult
from trimtab.studies.study_result import StudyResult


@dataclass(frozen=True, kw_only=True)
class SplitSize:
    """N environments × T steps."""

    num_envs: int
    num_steps: int

    @property
    def name(self) -> str:
        """As it is typed: 4x256."""
        return split_name(self.num_envs, self.num_steps)

    @property
    def label(self) -> str:
        """As people read it: 4 × 256."""
        return split_text(self.num_envs, self.num_steps)


@dataclass(frozen=True, kw_only=True)
class GradientEstimates:
    """What one probe measured of the batch gradient; `trimtab.core.quantities` says what each means."""

    variance: Estimate
    individual: Estimate
    covariance: Estimate
    between_rows: Estimate = UNRESOLVED
    variance_floor: Estimate = UNRESOLVED
    bias_sq: Estimate = UNRESOLVED
    mse: Estimate = UNRESOLVED
    grad_sq: Estimate = UNRESOLVED
    ess: Estimate = UNRESOLVED
    noise_scale_trajectory: Estimate = UNRESOLVED
    noise_floor: Estimate = UNRESOLVED

    @classmethod
    def of(cls, probe: ProbeResult) -> GradientEstimates:
        """Those of a probe."""
        return GradientEstimates(**estimates_of(probe))


def estimates_of(holder: GradientEstimates | ProbeResult) -> dict[str, Estimate]:
    """The estimates by name, as keywords of another class that has them."""
    return {item.name: getattr(holder, item.name) for item in fields(GradientEstimates)}


@dataclass(frozen=True, kw_only=True)
class SplitEvidence(SplitSize):
    """What is known of one split while the study decides: its runs by seed, and its gradient by stage."""

    areas: tuple[float, ...]
    """Area under the learning curve of every run that ended an episode."""
    speeds: tuple[float, ...]
    """Environment steps per second of every run."""
    stages: tuple[GradientEstimates, ...]
    improved: bool
    """Whether the returns of some run rose."""
    seeds: int
    """Runs that finished."""
    failed: int = 0
    """Runs that did not."""


@dataclass(frozen=True, kw_only=True)
class SplitRow(GradientEstimates, SplitSize):
    """One split in the answer; its gradient is that of the stage in the middle."""

    areas: tuple[float, ...] = ()
    speeds: tuple[float, ...] = ()
    improved: bool = False
    seeds: int = 0
    failed: int = 0
    fps: Estimate = UNRESOLVED
    auc: Estimate = UNRESOLVED
    final_return: Estimate = UNRESOLVED
    true_grad_sq: Estimate = UNRESOLVED
    exact: ExactAnswers = field(default_factory=ExactAnswers)
    phases: str | None = None
    """How the environments stood to each other, as in `ProbeResult.phases`."""
    lag_covariance: Numbers = ()
    mse_relative: Estimate = UNRESOLVED
    """The mean squared error over `shared_grad_sq`."""
    shared_grad_sq: float | None = None
    """|G_T|², which all splits share."""
    verdict: str = ""
    """recommended, remaining or eliminated."""


@dataclass(frozen=True, kw_only=True)
class StageRow(GradientEstimates, SplitSize):
    """One split at one stage of training."""

    covariance_share: Estimate = UNRESOLVED
    """The covariance term over the variance."""


@dataclass(frozen=True)
class Stage:
    """What was measured of every split at one stage of training."""

    stage: str
    step: int
    rows: tuple[StageRow, ...]
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class PredictedSplit(SplitSize):
    """The variance of a split that was not measured."""

    variance: Estimate
    extrapolated: bool
    """Whether it assumes that gradients further apart than measured are uncorrelated."""


@dataclass(frozen=True)
class Eliminated:
    """An eliminated split, the rule that eliminated it, and the numbers."""

    split: str
    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Elimination:
    """Which splits are eliminated, which remain, and which of those is recommended."""

    recommended: str
    recommended_set: tuple[str, ...]
    """All remaining splits, of which the recommended one is one."""
    ruled_out: tuple[Eliminated, ...]
    decided: bool
    """Whether a single split remains."""
    tie_break: str
    """Why the recommended one is preferred to the other remaining ones."""
    sentence: str
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]

    def verdict_on(self, name: str) -> str:
        """recommended, remaining or eliminated."""
        out = (entry.split for entry in self.ruled_out)
        return "recommended" if name == self.recommended else "eliminated" if name in out else "remaining"


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitResult(StudyResult):
    """The answer of `trimtab split`."""

    env_id: str
    algo: str
    batch: int
    gamma: float
    gae_lambda: float
    horizon_gamma: float | None
    """1/(1 − γ); None is infinite."""
    horizon_gamma_lambda: float | None
    """1/(1 − γλ); None is infinite."""
    steps: tuple[int, ...]
    """The checkpoints that were probed."""
    at: int
    """The one of `rows`."""
    rows: tuple[SplitRow, ...]
    stages: tuple[Stage, ...] = ()
    stage_sentence: str = ""
    predicted: tuple[PredictedSplit, ...] = ()
    recommended: str
    recommended_set: tuple[str, ...] = ()
    ruled_out: tuple[Eliminated, ...] = ()
    decided: bool = False
    tie_break: str = ""
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    marginal: str = ""
    explanations: tuple[str, ...] = ()
    """What differs between splits that learned differently."""
    start: str = "stationary"
    """Where the rows of the probes start; earlier versions had no other."""
    failed: tuple[str, ...] = ()

    @property
    def best(self) -> SplitRow:
        """The row of the recommended split."""
        return next(row for row in self.rows if row.name == self.recommended)

    @property
    def lines(self) -> Iterator[tuple[object, ...]]:
        """Every split and its verdict."""
        return ((row.label, row.verdict, "") for row in self.rows)


def names_of(rows: Sequence[SplitSize]) -> list[str]:
    """The splits as they are typed."""
    return [row.name for row in rows]
