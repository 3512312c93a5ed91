"""`notes/throughput`: does throughput rise with environments until the processor is 80 to 90% loaded?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.config import Config
from trimtab.envs import BACKENDS, choose
from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge_all
from trimtab.experiments.figures import Chart, Figure, labels_in, lines, stacked
from trimtab.experiments.jobs import Throughput
from trimtab.experiments.measures import number, spread
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.math import stats
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


PARTS = {"environment_share": "environment", "policy_share": "policy", "update_share": "update"}


@dataclass(frozen=True)
class _Tables(Tables):
    """Steps per second, load and shares of time by environment, N and repeat."""

    throughput: pl.DataFrame


class NotesThroughput(SourceStudy[_Tables]):
    """Steps per second over N, on compiled and on Python environments."""

    kind = "notes/throughput"
    summary = "How many environments are needed for full speed?"
    source = "notes: 1) Max out data pipeline; Phase A"
    claims = (N6,)
    different = (
        "The notes think of environments that load the CPU beside a network on a GPU; here both are compiled into one "
        "program that uses one thread, so one run cannot load all cores; and other work may have shared the machine."
    )

    def jobs(self) -> list[Throughput]:
        from trimtab.training.device import cores, processor

        machine, jobs = f"{processor()}, {cores()} cores", list[Throughput]()
        for config in self.configs():
            counts = tuple(n for n in COUNTS[self.size] if config.backend == "auto" or n <= MOST_ON_HOST)
            before = jobs[-1] if jobs else None
            jobs.append(Throughput(config, counts, SECONDS[self.size], REPEATS[self.size], machine, before))
        return jobs

    def configs(self) -> list[Config]:
        common = Config(num_steps=32, num_minibatches=4, total_timesteps=100_000_000, seed=self.seed)
        compiled = [common.replace(env_id=e) for e in ("CartPole-v1", "Breakout-MinAtar")]
        host = common.replace(env_id="CartPole-v1", backend="gymnasium")
        return [*(compiled[:1] if self.size == "quick" else compiled), host]

    def measure(self, outcomes: Outcomes) -> _Tables:
        rows = []
        for job in self.jobs():
            outcome = outcomes[job.identity]
            compiled = BACKENDS[choose(job.config.env_id, job.config.backend)].compiled
            name = f"{job.config.env_id} ({'compiled' if compiled else 'Python'})"
            rows += [{"environment": name} | row for row in outcome.result.get("found", []) if outcome.done]
        return _Tables(pl.DataFrame(rows))

    def judge(self, tables: _Tables) -> list[Verdict]:
        gains, loads, phrases = [], [], []
        for (environment,), here in tables.throughput.group_by("environment", maintain_order=True):
            chosen, best = enough(here), fastest(here)
            few = int(number(here["num_envs"].min()) or 1)
            gain = stats.contrast([_logs(here, best), _logs(here, few)], [1.0, -1.0])
            load = stats.mean_interval([v - LOADED for v in here.filter(num_envs=chosen)["load"]])
            repeats = here["repeat"].n_unique()
            gains.append(EffectEstimate(f"{environment}, gain", gain, repeats))
            loads.append(EffectEstimate(f"{environment}, load at N = {chosen}", load, repeats))
            loaded = load.value + LOADED
            phrases.append(f"{environment}: {math.exp(gain.value):.0f} × to N = {best}, load {loaded:.0%} at {chosen}")
        measured = "log gain in steps/s; load minus 80% where throughput levels off"
        return [judge_all(N6, measured, [gains, loads], f"{'; '.join(phrases)}.")]

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        table = tables.throughput
        return {
            "speed": Figure(speed_chart(table), "Where the line is flat, more environments do not help."),
            "load": Figure(_load_chart(table), "The notes expect the flat part to begin at 80 to 90%."),
            "shares": Figure(_shares_chart(table), "The largest part is the one to speed up."),
        }

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
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
    return here.filter(num_envs=num_envs)["steps_per_second"].log().to_list()


def speed_chart(table: pl.DataFrame) -> Chart:
    """Steps per second against N."""
    return lines(
        _over_repeats(table, "steps_per_second"),
        "num_envs",
        "environments (logarithmic)",
        "steps per second (logarithmic)",
        "How fast training runs, by the number of environments",
        "Environment steps of training per second; band: from the slowest to the fastest repeat.",
        log_x=True,
        log_y=True,
    )


def _load_chart(table: pl.DataFrame) -> Chart:
    """Load of all cores by this process, against N."""
    return lines(
        _over_repeats(table, "load"),
        "num_envs",
        "environments (logarithmic)",
        "share of all cores",
        "How much of the processor training uses",
        "Processor time of the process and its children over wall time and cores.",
        log_x=True,
    )


def _over_repeats(table: pl.DataFrame, column: str) -> pl.DataFrame:
    """Mean, smallest and largest over repeats, by environment and N."""
    return spread(table.rename({"environment": "series"}), "series", "num_envs", column=column)


def _shares_chart(table: pl.DataFrame) -> Chart:
    """Shares of an iteration's time by N: environment, policy, update."""
    keys = ["panel", "num_envs"]
    means = (
        table.rename({"environment": "panel"}).group_by(keys).agg(pl.col(list(PARTS)).mean()).rename(PARTS).sort(keys)
    )
    long = means.unpivot(list(PARTS.values()), index=keys, variable_name="part", value_name="value").sort(keys)
    row = pl.format("N = {}", "num_envs").alias("row")
    return stacked(
        long.select("part", "value", row, "panel"),
        list(PARTS.values()),
        "share of an iteration's time",
        "Where the time goes",
        "Stepping environments, the policy acting, and the update, each timed alone.",
        panels=labels_in(long, "panel"),
    )
