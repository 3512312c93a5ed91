"""`notes/reproducible`: do two runs of one configuration give identical curves?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import Claim, Evidence, Verdict, Word
from trimtab.experiments.jobs import RepeatedRun
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

STEPS: dict[Size, int] = {"quick": 16_384, "default": 102_400, "full": 1_024_000}

N5 = Claim(
    "N5",
    "Two runs of one configuration give identical curves.",
    "notes, rules of thumb; ground rules, determinism",
    "Every metric of every iteration, but those of time, is the same bit for bit in a second run, in every "
    "configuration tried. One difference and it does not hold there.",
)


@dataclass(frozen=True)
class Reproducible(Declared):
    """One configuration per kind of environment and algorithm, each run twice."""

    kind: ClassVar[str] = "notes/reproducible"
    summary: ClassVar[str] = "Do two runs alike give identical curves?"
    source: ClassVar[str] = "notes: rules of thumb; ground rules"
    claims: ClassVar[tuple[Claim, ...]] = (N5,)
    different: ClassVar[str] = (
        "The notes compare graphs by eye, where a difference in the last digit cannot be seen; here every metric of "
        "every iteration is compared bit for bit, on one machine."
    )

    def jobs(self) -> list[Job]:
        return [RepeatedRun(Train(config)) for config in self.configs()]

    def configs(self) -> list[Config]:
        steps, seed = STEPS[self.size], self.seed
        common = {"num_envs": 4, "num_steps": 128, "total_timesteps": steps, "seed": seed}
        configs = [
            Config(env_id="CartPole-v1", **common),
            Config(env_id="Pendulum-v1", norm_obs=True, norm_reward=True, **common),
            Config(env_id="FrozenLake8x8-v1", algo="ppo-ewma", **common),
            Config(env_id="CartPole-v1", backend="gymnasium", **common | {"total_timesteps": steps // 4}),
        ]
        if self.size != "quick":
            configs.append(Config(env_id="CartPole-v1", algo="ppg", policy_iterations=8, **common))
            configs.append(Config(env_id="CartPole-v1", algo="reinforce", **common))
        return configs

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows = []
        for job in self.jobs():
            outcome, config = outcomes[job.identity], job.config  # type: ignore[attr-defined]
            result = outcome.result if outcome.done else {}
            difference = result.get("first_difference") or {}
            rows.append(
                {
                    "configuration": f"{config.env_id}, {config.algo}"
                    + (f", {config.backend}" if config.backend != "auto" else ""),
                    "identical": result.get("identical"),
                    "iterations": result.get("iterations"),
                    "compared": result.get("compared"),
                    "first_difference": f"{difference['metric']} at iteration {difference['iteration']}"
                    if difference
                    else (outcome.error or ""),
                }
            )
        schema = {"configuration": pl.String, "identical": pl.Boolean, "iterations": pl.Int64, "compared": pl.Int64}
        return {"repeats": pl.DataFrame(rows, schema=schema | {"first_difference": pl.String})}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        pairs = tables["repeats"].filter(pl.col("identical").is_not_null())
        evidence = []
        for row in pairs.iter_rows(named=True):
            same = float(row["identical"])
            evidence.append(Evidence(row["configuration"], Estimate(same, same, same), 2))
        alike, total = int(pairs["identical"].sum()), len(pairs)
        word: Word = "holds" if alike == total else "does not hold" if alike == 0 else "depends"
        if not total:
            word = "inconclusive at this size"
        compared = int(pairs["compared"].sum() or 0)
        different = [
            f"{r['configuration']} ({r['first_difference']})" for r in pairs.iter_rows(named=True) if not r["identical"]
        ]
        sentence = f"{alike} of {total} configurations repeat exactly: {compared:,} numbers the same."
        sentence += f" Different: {'; '.join(different)}." if different else ""
        needed = "" if total else "no pair of runs was finished; run the study again"
        return [Verdict(N5, word, "1: every metric identical", tuple(evidence), sentence, needed)]

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.notes import notes_figures as notes

        chart = notes.repeats(tables["repeats"])
        return {"repeats": Figure(chart, "How many numbers were compared; orange would be a pair of runs that differ.")}

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return f"Two runs of one configuration give identical curves: {verdicts[0].word}. {verdicts[0].sentence}"

    def notes(self) -> list[str]:
        return [
            "The notes compare wandb graphs by eye; here every metric of every iteration is compared bit for bit.",
            "Both runs are on one machine, with the same versions; another processor may round otherwise.",
        ]
