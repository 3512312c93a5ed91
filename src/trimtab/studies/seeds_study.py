"""`trimtab train --seeds`: several seeds of one configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from trimtab import config as configuration
from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.json_values import fields_from_json, fields_to_json
from trimtab.envs import choose
from trimtab.envs.own_environments import refuse_of_this_program
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Study, Work
from trimtab.studies.study_result import StudyResult
from trimtab.training.records import RunSummary

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class SeedSummary(RunSummary):
    """The summary of the run of one seed."""

    area: float | None = None
    """Area under the learning curve."""
    measure: str = ""
    """What the area measures: evaluated or credited returns."""
    aggregate_fps: float = 0.0
    """Environment steps per second of all seeds together."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, an entry for each field."""
        return fields_to_json(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class SeedsResult(StudyResult):
    """The runs of several seeds."""

    runs: tuple[SeedSummary, ...] = ()
    failed: tuple[str, ...] = ()
    """The runs that failed, and why."""

    @property
    def lines(self) -> Iterator[tuple[object, ...]]:
        """The mean return of every seed at its end."""
        return ((f"seed {summary.seed}", summary.ep_rew_mean, summary.run) for summary in self.runs)


@dataclass(frozen=True)
class Seeds(Study[SeedsResult]):
    """So many seeds of a configuration, counting up from its own."""

    kind: ClassVar[str] = "seeds"
    result: ClassVar[type[SeedsResult]] = SeedsResult
    config: Config
    count: int
    checkpoints: int | None = None
    tensorboard: bool = False
    track: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or not 1 <= self.count <= MOST_SEEDS:
            problem = f"must be a whole number from 1 to {MOST_SEEDS}"
            raise ConfigError("seeds", self.count, f"{problem}; nearest: 1")

    @property
    def title(self) -> str:
        return f"{self.config.env_id}, {self.count} seeds"

    def asked(self) -> dict[str, Any]:
        return asdict(self) | {"config": self.config.as_dict()}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Seeds:
        return cls(**values | {"config": configuration.from_dict(values["config"])})

    def refuse(self) -> None:
        refuse_of_this_program(self.config.env_id)
        choose(self.config.env_id, self.config.backend)

    def jobs(self) -> list[Train]:
        seeds = range(self.config.seed, self.config.seed + self.count)
        return [Train(self.config.replace(seed=seed), self.checkpoints, self.tensorboard, self.track) for seed in seeds]

    def work(self, out: Path) -> Work[SeedsResult]:
        jobs = self.jobs()
        outcomes = yield jobs
        finished = [o for job in jobs if (o := outcomes[job.identity]).done]
        if not finished:
            outcomes.of(jobs[0])  # raises, with why
        failed = tuple(f"{job}: {e}" for job in jobs if (e := outcomes[job.identity].error))
        summaries = [_summary_of(outcome) for outcome in finished]
        busy = _union([summary.interval for summary in summaries if summary.interval])
        together = round(sum(summary.total_timesteps for summary in summaries) / busy, 1)
        return SeedsResult(runs=tuple(replace(each, aggregate_fps=together) for each in summaries), failed=failed)


def _summary_of(outcome: Outcome) -> SeedSummary:
    """The summary of a run, as its job kept it."""
    with reading.interpreting(outcome.path):
        return fields_from_json(SeedSummary, outcome.result | {"run": str(outcome.path)})


def _union(intervals: list[tuple[float, float]]) -> float:
    """Length of the union of time intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return max(total, 1e-9)
