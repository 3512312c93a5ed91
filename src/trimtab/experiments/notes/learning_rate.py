"""`notes/learning-rate`: when the batch grows, how should the learning rate?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge_all
from trimtab.experiments.figures import Chart, Figure, lines
from trimtab.experiments.measures import intervals
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.experiments.trained_runs import BROKEN, areas_of, contrast, small_ppo
from trimtab.studies.job import Train
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


@dataclass(frozen=True)
class _Tables(Tables):
    """The area under the learning curve of every run, by environment, factor of the batch and rule."""

    learning: pl.DataFrame


class LearningRate(SourceStudy[_Tables]):
    """PPO at 1 to 16 times a small batch, the learning rate unchanged, by the square root, and in proportion."""

    kind = "notes/learning-rate"
    summary = "Should the learning rate grow with the batch?"
    source = "notes: 2) Core optimizer sweep"
    claims = (N8,)
    different = (
        "The notes name no environment and no base, and sweep again beyond 4 ×. Here the base batch is small (4 × 32) "
        "and every batch gets as many environment steps, so 4 × the batch takes a quarter of the gradient steps."
    )

    @property
    def environments(self) -> tuple[str, ...]:
        return ("CartPole-v1",) if self.size == "quick" else tuple(START)

    def _runs(self) -> dict[tuple[str, int, str], list[Train]]:
        """By environment, factor and rule; factor 1 is the base configuration."""
        seeds = range(self.seed, self.seed + SEEDS[self.size])
        settings = [(1, "base"), *((factor, rule) for factor in FACTORS for rule in RULES)]
        return {
            (env_id, factor, rule): [Train(_scaled(env_id, factor, rule, STEPS[self.size], seed), 10) for seed in seeds]
            for env_id in self.environments
            for factor, rule in settings
        }

    def jobs(self) -> list[Train]:
        return [run for runs in self._runs().values() for run in runs]

    def measure(self, outcomes: Outcomes) -> _Tables:
        tables = [
            areas_of(runs, outcomes, environment=env_id, factor=factor, rule=rule)
            for (env_id, factor, rule), runs in self._runs().items()
        ]
        return _Tables(pl.concat(table for table in tables if len(table)))

    def judge(self, tables: _Tables) -> list[Verdict]:
        parts: dict[int, list[EffectEstimate]] = {factor: [] for factor in FACTORS if factor <= HOLDS}
        shares = []
        for environment in self.environments:
            base = _learned(tables.learning, environment, 1, "base")
            for factor in FACTORS:
                linear = _learned(tables.learning, environment, factor, "linear")
                margin = contrast([linear], [[(1 - LOST) * value for value in base]])
                if factor <= HOLDS:
                    parts[factor].append(EffectEstimate(f"{environment}, {factor} ×", margin, len(linear)))
                share = sum(linear) / len(linear) / (sum(base) / len(base)) if base and linear else math.nan
                shares.append(f"{environment} {factor} × {share:.0%}")
        sentence = f"Linear scaling keeps, of what the base configuration learns: {', '.join(shares)}."
        measured = f"area above an untrained policy, minus {1 - LOST:.0%} of the base's"
        return [judge_all(N8, measured, list(parts.values()), sentence)]

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        caption = "At 1 the larger batch loses nothing. See which rule stays at 1 for the largest batches."
        return {"rules": Figure(self._rules_chart(tables.learning), caption)}

    def _rules_chart(self, table: pl.DataFrame) -> Chart:
        """What is learned, relative to the base batch, against how much larger the batch is, a line for each rule."""
        start = pl.col("environment").replace_strict(START, return_dtype=pl.Float64)
        learned = table.with_columns(learned=pl.col("area") - start)
        base = learned.filter(rule="base")
        unit = base.group_by("environment").agg(unit=pl.col("learned").mean())
        every = [learned.filter(rule=rule) for rule in RULES]
        every += [base.with_columns(rule=pl.lit(rule)) for rule in RULES]  # all of them begin at the base
        shares = pl.concat(every).join(unit, on="environment").with_columns(share=pl.col("learned") / pl.col("unit"))
        data = intervals(shares, "factor", column="share", panel="environment", series="rule")
        return lines(
            data.sort("panel", "series", "factor"),
            "factor",
            "batch, times the base (logarithmic)",
            "area, relative to the base",
            "What a larger batch keeps, by the rule for its learning rate",
            "Area under the learning curve above an untrained policy, over that of the base batch; mean over seeds "
            "with its 95% interval.",
            series=RULES,
            panels=self.environments,
            log_x=True,
            zero=False,
        )

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
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
    areas = table.filter(environment=environment, factor=factor, rule=rule)["area"]
    return [value - START[environment] for value in areas]


def _scaled(env_id: str, factor: int, rule: str, steps: int, seed: int) -> Config:
    """The base configuration at `factor` times its batch."""
    rate = {"base": 1.0, "none": 1.0, "sqrt": math.sqrt(factor), "linear": float(factor)}[rule]
    return small_ppo(env_id, (4 * factor, 32), steps, seed, learning_rate=3e-4 * rate)
