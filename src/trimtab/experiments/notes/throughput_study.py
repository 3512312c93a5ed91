"""`notes/throughput`: does throughput rise with environments until the processor is 80 to 90% loaded?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.envs import BACKENDS, choose
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge_all
from trimtab.experiments.jobs import Throughput
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.math import stats
from trimtab.studies.job import Job
from trimtab.studies.study_engine import Outcomes
from trimtab.studies.throughputs import GAIN, enough, fastest

COUNTS: dict[Size, tuple[int, ...]] = {
    "quick": (1, 8, 64, 512),
    "default": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "full": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
}
SECONDS: dict[Size, float] = {"quick": 0.3, "default": 2.0, "full": 10.0}
REPEATS: dict[Size, int] = {"quick": 2, "default": 3, "full": 5}
LOADED = 0.8
MOST_ON_HOST = 64

N6 = Claim(
    "N6",
    "Throughput rises with environments until the processor is 80 to 90% loaded.",
    "notes, 1) Max out data pipeline",
    "Two parts, both needed, by environment, beyond the interval over repeats: the logarithm of the best steps/s over "
    "those with the fewest environments is above 0; the load (share of all cores that this process uses) at the "
    f"smallest N with {GAIN:.0%} of the best throughput, minus {LOADED:.0%}, is above 0.",
)
DIFFERENT = (
    "The notes think of environments that load the CPU beside a network on a GPU; here both are compiled into one "
    "program that uses one thread, so one run cannot load all cores; and other work may have shared the machine."
)


@dataclass(frozen=True)
class NotesThroughput(Declared):
    """Steps per second over N, on compiled and on Python environments."""

    kind: ClassVar[str] = "notes/throughput"
    summary: ClassVar[str] = "How many environments are fast?"
    source: ClassVar[str] = "notes: 1) Max out data pipeline; Phase A"
    claims: ClassVar[tuple[Claim, ...]] = (N6,)
    different: ClassVar[str] = DIFFERENT

    def jobs(self) -> list[Job]:
        from trimtab.training.device import cores, processor

        jobs: list[Job] = []
        for config in self.configs():
            counts = tuple(n for n in COUNTS[self.size] if config.backend == "auto" or n <= MOST_ON_HOST)
            machine, before = f"{processor()}, {cores()} cores", jobs[-1] if jobs else None
            jobs.append(Throughput(config, counts, SECONDS[self.size], REPEATS[self.size], machine, before))
        return jobs

    def configs(self) -> list[Config]:
        common = {"num_steps": 32, "num_minibatches": 4, "total_timesteps": 100_000_000, "seed": self.seed}
        compiled = [Config(env_id="CartPole-v1", **common)]
        if self.size != "quick":
            compiled.append(Config(env_id="Breakout-MinAtar", **common))
        return [*compiled, Config(env_id="CartPole-v1", backend="gymnasium", **common)]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows = []
        for job in self.jobs():
            assert isinstance(job, Throughput)
            outcome = outcomes[job.identity]
            compiled = BACKENDS[choose(job.config.env_id, job.config.backend)].compiled
            name = f"{job.config.env_id} ({'compiled' if compiled else 'Python'})"
            rows += [{"environment": name} | row for row in outcome.result.get("found", []) if outcome.done]
        return {"throughput": pl.DataFrame(rows)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        gains, loads, phrases = [], [], []
        for (environment,), here in tables["throughput"].group_by("environment", maintain_order=True):
            chosen, best = enough(here), fastest(here)
            few = int(here["num_envs"].min() or 1)
            gain = stats.contrast([_logs(here, best), _logs(here, few)], [1.0, -1.0])
            load = stats.mean_interval([v - LOADED for v in here.filter(pl.col("num_envs") == chosen)["load"]])
            repeats = here["repeat"].n_unique()
            loaded = load.value + LOADED
            gains.append(Evidence(f"{environment}, gain", gain, repeats))
            loads.append(Evidence(f"{environment}, load at N = {chosen}", load, repeats))
            phrases.append(f"{environment}: {math.exp(gain.value):.0f} × to N = {best}, load {loaded:.0%} at {chosen}")
        sentence = f"{'; '.join(phrases)}."
        measured = "log gain in steps/s; load minus 80% where throughput levels off"
        return [judge_all(N6, measured, [gains, loads], sentence)]

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.notes import throughput_figures

        return {
            "speed": Figure(
                throughput_figures.speed(tables["throughput"]),
                "Where the line turns flat, more environments stop paying.",
            ),
            "load": Figure(
                throughput_figures.load(tables["throughput"]), "The notes expect the flat part to begin at 80 to 90%."
            ),
            "shares": Figure(throughput_figures.shares(tables["throughput"]), "What is largest is what to speed up."),
        }

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return f"Throughput rises until the processor is loaded: {verdicts[0].word}. {verdicts[0].sentence}"

    def notes(self) -> list[str]:
        return [
            "Load is the processor time of the training process and its children over wall time and cores; other work "
            "on the machine lowers steps/s and is in the tables as machine_load.",
            "Small networks are trained on one thread of XLA, which is faster here than several; a single run can then "
            "not load more than one core, whatever N. Several runs at once do.",
            "T = 32 and four minibatches throughout; the batch grows with N.",
        ]


def _logs(here: pl.DataFrame, num_envs: int) -> list[float]:
    return here.filter(pl.col("num_envs") == num_envs)["steps_per_second"].log().to_list()
