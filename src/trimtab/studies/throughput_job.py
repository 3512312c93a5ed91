"""Measuring how fast a configuration runs, over numbers of environments, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.config import Config
from trimtab.studies.job import Job, JobContext, register
from trimtab.training.device import network_of, threads_for


@register
@dataclass(frozen=True)
class Throughput(Job):
    """Steps per second, load, memory and shares of time at each N, several times over. `after` keeps two such jobs
    from disturbing each other; `machine` is the one it holds for."""

    kind: ClassVar[str] = "throughput"
    config: Config
    num_envs: tuple[int, ...]
    seconds: float
    repeats: int
    machine: str
    after: Job | None = None

    @property
    def steps(self) -> int:
        """About: what a slow machine takes in that time."""
        return round(10_000 * self.seconds * self.repeats * len(self.num_envs))

    @property
    def seconds_planned(self) -> float:
        """Training and its parts, and about 4 s to build environments and programs, at each N."""
        return (2 * self.seconds + 4) * self.repeats * len(self.num_envs)

    @property
    def label(self) -> str:
        return f"{self.config.env_id} {self.config.algo} {min(self.num_envs)} to {max(self.num_envs)} environments"

    @property
    def threads(self) -> int | None:
        return threads_for(network_of(self.config), self.config.devices)

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.training.speed import measure

        measurements, total = [], len(self.num_envs) * self.repeats
        for repeat in range(self.repeats):
            for num_envs in self.num_envs:
                measurements.append({"repeat": repeat} | measure(self.config.replace(num_envs=num_envs), self.seconds))
                context.tick(self.steps * len(measurements) // total)
        return {"found": measurements}
