"""`trimtab train --seeds`: several seeds of one configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.envs import choose
from trimtab.envs.own_environments import refuse_of_this_program
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Answer, Study, Work


@dataclass(frozen=True)
class Seeds(Study):
    """So many seeds of a configuration, counting up from its own."""

    kind: ClassVar[str] = "seeds"
    config: Config
    count: int
    checkpoints: int | None = None
    tensorboard: bool = False
    track: bool = False

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

    def work(self, out: Path) -> Work:
        jobs = self.jobs()
        outcomes = yield jobs
        finished = [o for job in jobs if (o := outcomes[job.identity]).done]
        if not finished:
            outcomes.of(jobs[0])  # raises, with why
        failed = [f"{job}: {e}" for job in jobs if (e := outcomes[job.identity].error)]
        summaries = [o.result | {"run": str(o.path)} for o in finished]
        together = sum(s["total_timesteps"] for s in summaries) / _union([s["interval"] for s in summaries])
        return Answer(runs=[s | {"aggregate_fps": round(together, 1)} for s in summaries], failed=failed)


def _union(intervals: list[list[float]]) -> float:
    """Length of the union of time intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return max(total, 1e-9)
