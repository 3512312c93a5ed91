"""`notes/reward-to-go`: does reward to go cut the variance of REINFORCE, and a learned baseline more? Computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import Claim, Verdict, judge
from trimtab.experiments.figures import Chart, Figure, effects
from trimtab.experiments.jobs import EpisodicVariance
from trimtab.experiments.measures import intervals, log_ratio, mean_of, over_seeds, returned
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.experiments.trained_runs import step_at
from trimtab.studies.job import Train
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
    matters=math.log(1.1),  # a tenth of the variance
)


WHOLE, TO_GO, BASELINE = "whole return", "reward to go", "learned baseline"


@dataclass(frozen=True)
class _Tables(Tables):
    """The exact variance of an episode's gradient by environment, seed, stage and estimator."""

    variances: pl.DataFrame


class RewardToGo(SourceStudy[_Tables]):
    """Exact variances of episode gradients along REINFORCE runs on finite MDPs."""

    kind = "notes/reward-to-go"
    summary = "What do reward to go and baselines save?"
    source = "notes: 3) Variance reduction"
    claims = (N2, N3)
    leads = ("N2", "N3")
    different = (
        "The notes name no environment. Here variances are exact on finite MDPs with episodes of at most 100 steps "
        "and γ = 1. FrozenLake has one reward, at the end, so there the reward to go is the whole return; and as a "
        "baseline a critic that has not learned yet adds variance."
    )

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(LIMITS)[: 2 if self.size == "quick" else 3]

    def jobs(self) -> list[EpisodicVariance]:
        seeds = range(self.seed, self.seed + SEEDS[self.size])
        configs = [_episodic(env_id, STEPS[self.size], seed) for env_id in self.environments for seed in seeds]
        return [EpisodicVariance(Train(config, CHECKPOINTS), tuple(sorted(_stages(config)))) for config in configs]

    def measure(self, outcomes: Outcomes) -> _Tables:
        table = returned(self.jobs(), outcomes)
        stages = {e: _stages(_episodic(e, STEPS[self.size], self.seed)) for e in self.environments}
        places = [(e, step, name) for e, names in stages.items() for step, name in names.items()]
        names = pl.DataFrame(places, schema=["environment", "step", "stage"], orient="row")
        if table.is_empty():
            return _Tables(table)
        named = table.join(names, on=["environment", "step"], how="left", maintain_order="left")
        return _Tables(named.select("environment", "seed", "stage", pl.exclude("environment", "seed", "stage")))

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [
            self._against(N2, tables.variances, WHOLE, TO_GO),
            self._against(N3, tables.variances, TO_GO, BASELINE),
        ]

    def _against(self, claim: Claim, table: pl.DataFrame, above: str, below: str) -> Verdict:
        evidence, ratios = [], []
        for (environment, stage), here in table.group_by("environment", "stage", maintain_order=True):
            effect = over_seeds(f"{environment}, {stage}", here, lambda own: _log_ratio(own, above, below))
            evidence.append(effect)
            ratios.append(f"{environment} {stage} {math.exp(effect.effect.value):.3g}")
        sentence = f"Variance with {above} over that with {below}: {', '.join(ratios)}."
        return judge(claim, f"log variance ratio, {above} over {below}", evidence, sentence)

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        chart = self._estimators_chart(tables.variances)
        return {"variances": Figure(chart, "Left of 1: less variance than with whole returns. Read down each stage.")}

    def _estimators_chart(self, table: pl.DataFrame) -> Chart:
        """Variance of each estimator over that of whole returns, by environment and stage."""
        keys = ["environment", "stage", "seed"]
        unit = table.filter(estimator=WHOLE).select(*keys, unit="variance")
        others = table.filter(pl.col("estimator") != WHOLE).join(unit, on=keys, maintain_order="left")
        rows = [f"{environment}, {stage}" for environment in self.environments for stage in STAGES]
        order = pl.format("{}, {}", "environment", "stage").cast(pl.Enum(rows))
        shown = others.with_columns(order.alias("row"), relative=pl.col("variance") / pl.col("unit"))
        shown = shown.sort("row", maintain_order=True).cast({"row": pl.String})
        return effects(
            intervals(shown, "row", column="relative", log=True, series="estimator"),
            "variance over that with whole returns (logarithmic)",
            "The variance of an episode's gradient, by estimator",
            "Computed from the transition table; geometric mean over seeds with its 95% interval.",
            log=True,
        )

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
    log = log_ratio(*(mean_of(own, "variance", estimator=name) for name in (above, below)))
    return None if log is None else round(log, 9)  # equal ones are equal, whatever the rounding


def _stages(config: Config) -> dict[int, str]:
    """The steps of the checkpoints that are looked at, with the stages of training."""
    return {step_at(config, share, CHECKPOINTS): name for name, share in STAGES.items()}


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
