"""`notes/reward-to-go`: does reward to go cut the variance of REINFORCE, and a learned baseline more? Computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge
from trimtab.experiments.jobs import EpisodicVariance
from trimtab.experiments.post.pendulum_runs import effect_over_seeds, step_at
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

STEPS: dict[Size, int] = {"quick": 51_200, "default": 204_800, "full": 1_024_000}
SEEDS: dict[Size, int] = {"quick": 3, "default": 5, "full": 10}
STAGES = {"early": 0.05, "middle": 0.5, "late": 1.0}
CHECKPOINTS = 20
LIMITS = {"FrozenLake-v1": 100, "CliffWalking-v1": 100, "Taxi-v4": 100}

N2 = Claim(
    "N2",
    "Reward to go strictly reduces variance against whole-episode returns.",
    "notes, 3) Variance reduction",
    "The logarithm of the variance of an episode's gradient with whole returns over that with reward to go (exact, no "
    "sampling) is above 0 beyond the interval over seeds; by environment and stage of training.",
)
N3 = Claim(
    "N3",
    "A learned baseline reduces it further.",
    "notes, 3) Variance reduction",
    "The logarithm of the variance with reward to go over that with the run's own learned baseline (exact) is above 0 "
    "beyond the interval over seeds; by environment and stage of training.",
)
DIFFERENT = (
    "The notes name no environment. Here variances are exact on finite MDPs with episodes of at most 100 steps and "
    "γ = 1. FrozenLake has one reward, at the end, so there the reward to go is the whole return; and as a baseline a "
    "critic that has not learned yet adds variance."
)


@dataclass(frozen=True)
class RewardToGo(Declared):
    """Exact variances of episode gradients along REINFORCE runs on finite MDPs."""

    kind: ClassVar[str] = "notes/reward-to-go"
    summary: ClassVar[str] = "What do reward to go and baselines save?"
    source: ClassVar[str] = "notes: 3) Variance reduction"
    claims: ClassVar[tuple[Claim, ...]] = (N2, N3)
    different: ClassVar[str] = DIFFERENT

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(LIMITS)[: 2 if self.size == "quick" else 3]

    def jobs(self) -> list[Job]:
        jobs: list[Job] = []
        for env_id in self.environments:
            for k in range(SEEDS[self.size]):
                config = _episodic(env_id, STEPS[self.size], self.seed + k)
                at = tuple(sorted({step_at(config, share, CHECKPOINTS) for share in STAGES.values()}))
                jobs.append(EpisodicVariance(Train(config, CHECKPOINTS), at))
        return jobs

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows = []
        for job in self.jobs():
            outcome = outcomes[job.identity]
            config = job.config  # type: ignore[attr-defined]
            stage = {step_at(config, share, CHECKPOINTS): name for name, share in STAGES.items()}
            for row in outcome.result.get("found", []) if outcome.done else []:
                rows.append({"environment": config.env_id, "seed": config.seed, "stage": stage[row["step"]]} | row)
        return {"variances": pl.DataFrame(rows)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        table = tables["variances"]
        return [
            self._against(N2, table, "whole return", "reward to go"),
            self._against(N3, table, "reward to go", "learned baseline"),
        ]

    def _against(self, claim: Claim, table: pl.DataFrame, above: str, below: str) -> Verdict:
        evidence, ratios = [], []
        for (environment, stage), here in table.group_by("environment", "stage", maintain_order=True):
            e, seeds = effect_over_seeds(here, lambda own: _log_ratio(own, above, below))
            evidence.append(Evidence(f"{environment}, {stage}", e, seeds))
            ratios.append(f"{environment} {stage} {math.exp(e.value):.3g}")
        sentence = f"Variance with {above} over that with {below}: {', '.join(ratios)}."
        return judge(claim, f"log variance ratio, {above} over {below}", evidence, sentence)

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.notes import notes_figures as notes

        chart = notes.estimators(tables["variances"], list(self.environments), list(STAGES))
        return {"variances": Figure(chart, "Left of 1: less variance than with whole returns. Read down each stage.")}

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return " ".join(verdict.sentence for verdict in verdicts)

    def notes(self) -> list[str]:
        return [
            "Variances are computed from the transition tables (trace of the covariance of one episode's gradient), at "
            "policies and critics of REINFORCE runs with a baseline at 5%, 50% and 100% of training.",
            "Episodes are cut after 100 steps and nothing is discounted: with γ < 1 the estimators have different "
            "means. One hidden layer of 16 (Taxi: 4).",
            "Where an episode has one reward, at its end, as on FrozenLake, every reward to go is the whole return: "
            "the two are one estimator, and nothing is reduced.",
            *(["Taxi is left out at this size."] if self.size == "quick" else []),
        ]


def _log_ratio(own: pl.DataFrame, above: str, below: str) -> float | None:
    pick = lambda name: own.filter(pl.col("estimator") == name)["variance"]
    one, other = pick(above), pick(below)
    usable = len(one) and len(other) and one[0] > 0 and other[0] > 0
    return round(math.log(one[0] / other[0]), 9) if usable else None  # equal ones are equal, whatever the rounding


def _episodic(env_id: str, steps: int, seed: int) -> Config:
    """REINFORCE with a baseline on a finite MDP."""
    return Config(
        env_id=env_id,
        algo="reinforce",
        num_envs=16,
        num_steps=32,
        update_epochs=1,
        num_minibatches=1,
        learning_rate=3e-3,
        gamma=1.0,
        hidden_sizes=(4,) if env_id == "Taxi-v4" else (16,),
        time_limit=LIMITS[env_id],
        total_timesteps=steps,
        seed=seed,
    )
