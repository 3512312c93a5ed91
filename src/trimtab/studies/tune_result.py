"""What `trimtab tune` answers, as typed values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.wording import plain
from trimtab.studies.study_result import StudyResult

Fields = Mapping[str, Any]  # of a configuration, by name


def changed(fields: Fields) -> str:
    """The changes of a configuration in words."""
    return ", ".join(f"{name} {plain(value)}" for name, value in fields.items()) or "the start"


@dataclass(frozen=True)
class TriedValue:
    """One value of a swept field, and what its runs learned."""

    value: Any
    trial: int
    areas: tuple[float, ...] = ()
    """Area under the learning curve of every seed."""
    fps: tuple[float, ...] = ()
    failed: str = ""
    """Why it has no areas."""

    @property
    def mean_area(self) -> float | None:
        """Over seeds; None if the value failed."""
        return sum(self.areas) / len(self.areas) if self.areas else None


@dataclass(frozen=True)
class SweepResult:
    """One field, its value before the sweep and the value that was kept."""

    phase: str
    field: str
    before: Any
    kept: Any
    trials: tuple[TriedValue, ...] = ()


@dataclass(frozen=True)
class Finalist:
    """One configuration of the comparison on new seeds."""

    trial: int
    changes: Fields
    areas: tuple[float, ...]
    area: float
    lo: float
    hi: float
    """The mean area and its 95% interval."""
    ends: tuple[float, ...] = ()
    end: Estimate = UNRESOLVED
    """The mean return of the last episodes."""
    act: str = ""
    """What the doctor would act on in its runs."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TuneResult(StudyResult):
    """The answer of `trimtab tune`."""

    env_id: str
    algo: str
    total_timesteps: int
    """Of every run of the sweeps."""
    final_timesteps: int
    """Of every run of the comparison."""
    changes: Fields
    """Of the best finalist, against the start."""
    gain: Estimate
    """Its area minus that of the start."""
    better: bool
    """Whether the interval of the gain is above 0."""
    sweeps: tuple[SweepResult, ...] = ()
    final: tuple[Finalist, ...] = ()
    """The start, then the best trials."""
    failed: tuple[str, ...] = ()
    found: Fields = field(default_factory=dict)
    """The best finalist's configuration."""
    tuned: Fields = field(default_factory=dict)
    """The configuration to use: `found` if it is better, else the start."""

    @property
    def config(self) -> Path:
        """The file of the configuration to use."""
        return Path(self.run) / "tuned.yaml"

    @property
    def lines(self) -> Iterator[tuple[object, ...]]:
        """The value that every sweep kept."""
        return ((sweep.field, plain(sweep.kept), "") for sweep in self.sweeps)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """From what `as_dict` made; in early versions the comparison was as long as the sweeps."""
        return super().from_dict({"final_timesteps": entry["total_timesteps"], **entry})

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, with the file of the configuration."""
        return super().as_dict() | ({"config": str(self.config)} if self.run else {})
