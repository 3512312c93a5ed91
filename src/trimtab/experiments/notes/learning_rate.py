"""`notes/learning-rate`: when the batch grows, how should the learning rate?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge_all
from trimtab.experiments.notes.trained_runs import areas_of, contrast
from trimtab.experiments.run_scores import BROKEN
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

FACTORS = (2, 4, 8, 16)
RULES = ("none", "sqrt", "linear")
HOLDS = 4  # up to which the notes' rule is said to hold
LOST = 0.1  # of what the base configuration learns, that may be lost
SEEDS: dict[Size, int] = {"quick": 5, "default": 8, "full": 30}
STEPS: dict[Size, int] = {"quick": 49_152, "default": 131_072, "full": 262_144}
START = {"CartPole-v1": 20.0, "Pendulum-v1": -1200.0}  # mean return of an untrained policy, about

N8 = Claim(
    "N8",
    "Linear scaling of the learning rate with the batch holds up to about 4 ×.",
    "notes, 2) Core optimizer sweep",
    f"At 2 × and at 4 × the batch, each, with the rate scaled linearly, the area under the curve, less {1 - LOST:.0%} "
    "of what the base configuration learns above an untrained policy, is above 0 beyond Welch's interval over seeds: "
    f"no more than {LOST:.0%} is lost.",
)
DIFFERENT = (
    "The notes name no environment and no base, and sweep again beyond 4 ×. Here the base batch is small (4 × 32) and "
    "every batch gets as many environment steps, so 4 × the batch takes a quarter of the gradient steps."
)


@dataclass(frozen=True)
class LearningRate(Declared):
    """PPO at 1 to 16 times a small batch, the learning rate unchanged, by the square root, and in proportion."""

    kind: ClassVar[str] = "notes/learning-rate"
    summary: ClassVar[str] = "Should the learning rate grow with the batch?"
    source: ClassVar[str] = "notes: 2) Core optimizer sweep"
    claims: ClassVar[tuple[Claim, ...]] = (N8,)
    different: ClassVar[str] = DIFFERENT

    @property
    def environments(self) -> tuple[str, ...]:
        return ("CartPole-v1",) if self.size == "quick" else tuple(START)

    def _runs(self) -> dict[tuple[str, int, str], list[Train]]:
        """By environment, factor and rule; factor 1 is the base configuration."""
        seeds = range(SEEDS[self.size])
        settings = [(1, "base"), *((factor, rule) for factor in FACTORS for rule in RULES)]
        return {
            (env_id, factor, rule): [
                Train(_scaled(env_id, factor, rule, STEPS[self.size], self.seed + k), 10) for k in seeds
            ]
            for env_id in self.environments
            for factor, rule in settings
        }

    def jobs(self) -> list[Job]:
        return [run for runs in self._runs().values() for run in runs]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows = [
            {"environment": env_id, "factor": factor, "rule": rule} | row
            for (env_id, factor, rule), runs in self._runs().items()
            for row in areas_of(runs, outcomes)
        ]
        return {"learning": pl.DataFrame(rows)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        parts: dict[int, list[Evidence]] = {factor: [] for factor in FACTORS if factor <= HOLDS}
        shares = []
        for environment in self.environments:
            base = _learned(tables["learning"], environment, 1, "base")
            for factor in FACTORS:
                linear = _learned(tables["learning"], environment, factor, "linear")
                margin = contrast([linear], [[(1 - LOST) * value for value in base]])
                if factor <= HOLDS:
                    parts[factor].append(Evidence(f"{environment}, {factor} ×", margin, len(linear)))
                share = sum(linear) / len(linear) / (sum(base) / len(base)) if base and linear else math.nan
                shares.append(f"{environment} {factor} × {share:.0%}")
        sentence = f"Linear scaling keeps, of what the base configuration learns: {', '.join(shares)}."
        measured = f"area above an untrained policy, minus {1 - LOST:.0%} of the base's"
        return [judge_all(N8, measured, list(parts.values()), sentence)]

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.notes import notes_figures as notes

        chart = notes.rates(tables["learning"], START, list(self.environments))
        return {"rules": Figure(chart, "At 1: nothing lost by the larger batch. Which rule stays there longest?")}

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return f"Linear scaling holds up to 4 ×: {verdicts[0].word}. {verdicts[0].sentence}"

    def notes(self) -> list[str]:
        return [
            "The batch grows with the number of environments; minibatches per epoch, epochs and steps of training "
            "stay, so a batch 16 times as large takes a sixteenth of the gradient steps. Adam, as in the notes.",
            "The base is a small batch (4 × 32), so that 16 times it is still an ordinary one (64 × 32).",
            f"What is learned is counted from an untrained policy's return, about: {START}.",
            BROKEN,
        ]


def _learned(table: pl.DataFrame, environment: str, factor: int, rule: str) -> list[float]:
    """Areas above an untrained policy's return."""
    here = (pl.col("environment") == environment) & (pl.col("factor") == factor) & (pl.col("rule") == rule)
    return [value - START[environment] for value in table.filter(here)["area"].to_list()]


def _scaled(env_id: str, factor: int, rule: str, steps: int, seed: int) -> Config:
    """The base configuration at `factor` times its batch."""
    rate = {"base": 1.0, "none": 1.0, "sqrt": math.sqrt(factor), "linear": float(factor)}[rule]
    scaling = env_id == "Pendulum-v1"
    return Config(
        env_id=env_id,
        num_envs=4 * factor,
        num_steps=32,
        num_minibatches=4,
        update_epochs=4,
        learning_rate=3e-4 * rate,
        anneal_lr="linear",
        ent_coef=0.0 if scaling else 0.01,
        norm_obs=scaling,
        norm_reward=scaling,
        total_timesteps=steps,
        seed=seed,
    )
