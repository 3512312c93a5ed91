"""`post/correlation`: are gradients of one trajectory more alike than gradients of different ones?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import polars as pl

from trimtab.experiments.claims import Claim, Evidence, Verdict, judge, judge_all
from trimtab.experiments.jobs import Directions
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import FIRST, LONG, SECOND, effect_over_seeds, over_seeds, step_at
from trimtab.experiments.source_study import Declared, Figure
from trimtab.studies.job import Job
from trimtab.studies.study_engine import Outcomes

LAGS = {"at 399,360": (1, 3, 5, 7), "at 450,560": (1, 5, 10, 40)}  # the post's two figures
NEAR = 0.1  # a covariance correlation within this of 0 is near 0
SMALL_LAGS = (1, 2, 3, 5)
WITHIN, ACROSS = "within trajectories", "across environments"

P4 = Claim(
    "P4",
    "Gradients of one trajectory are more alike in direction than gradients across trajectories.",
    "the two figures of cosine correlation, at steps 399,360 and 450,560",
    "The mean cosine of pairs in one trajectory, minus that of pairs across environments, is above 0 beyond the 95% "
    "interval over seeds, at the post's lags and steps (a lag whose interval holds 0 says nothing).",
)
P5 = Claim(
    "P5",
    "The covariance-based correlation is near 0 at every lag, varies more within than across trajectories at small "
    "lags, and approaches the across-trajectory baseline.",
    "the note on covariance-based correlation (mean of 20 checkpoints, with spread)",
    f"Three parts, all needed, beyond the interval over seeds: the mean over 20 checkpoints lies within ±{NEAR} of 0 "
    "at each of lags 1, 5, 10 and 40; its standard deviation over checkpoints at lags 1 to 5, without the noise of the "
    "estimates, is larger within than across; its distance to the baseline is smaller at lag 40 than at lag 1.",
)
DIFFERENT = (
    "The post looks at one run, of settings that it does not give; here every number is a mean over seeds and many "
    "fresh batches, cosines are centred on the batch mean, and γ 0.99, λ 0.95, rates and normalization are CleanRL's."
)


@dataclass(frozen=True)
class Correlation(Declared):
    """Cosine and covariance correlation along trajectories of the post's Pendulum runs."""

    kind: ClassVar[str] = "post/correlation"
    summary: ClassVar[str] = "Are gradients along a trajectory correlated?"
    source: ClassVar[str] = "post: figures at steps 399,360 and 450,560; note on covariance-based correlation"
    claims: ClassVar[tuple[Claim, ...]] = (P4, P5)
    different: ClassVar[str] = DIFFERENT

    @property
    def checkpoints(self) -> int:
        """Checkpoints the covariance correlation is averaged over; the post has 20."""
        return 10 if self.size == "quick" else 20

    def jobs(self) -> list[Job]:
        return [*self._looks(), *self._courses()]

    def _looks(self) -> list[Directions]:
        trainings = pendulum_runs.trained(self.size, self.seed)
        return [pendulum_runs.directions(run, LONG, (FIRST, SECOND), self.size, bias=False) for run in trainings]

    def _courses(self) -> list[Directions]:
        """Every twentieth of the run, fewer replicates at each."""
        shares = [(k + 1) / self.checkpoints for k in range(self.checkpoints)]
        few = {"quick": 8, "default": 12, "full": 32}[self.size]
        trainings = pendulum_runs.trained(self.size, self.seed)
        return [
            pendulum_runs.directions(run, LONG, shares, self.size, replicates=few, looked=few // 2, bias=False)
            for run in trainings
        ]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        config = pendulum_runs.pendulum(self.size, self.seed)
        stages = {"at 399,360": FIRST, "at 450,560": SECOND}
        looks = pendulum_runs.with_stage(
            pendulum_runs.gathered(self._looks(), outcomes, "directions.parquet"), config, stages
        )
        courses = pendulum_runs.gathered(self._courses(), outcomes, "directions.parquet")
        keys = ["stage", "step", "seed", "quantity", "lag"]
        means = looks.filter(pl.col("quantity").is_in(["cosine_within", "cosine_across"]))
        by_checkpoint = courses.filter(pl.col("quantity").is_in(["covariance_within", "covariance_across"]))
        values = looks.filter(pl.col("quantity").is_in(["cosine_within_value", "cosine_across_value"]))
        return {
            "cosines": means.group_by(keys, maintain_order=True).agg(pl.col("value").mean()),
            "covariances": _with_noise(by_checkpoint),
            "distributions": values.select("stage", "seed", "replicate", "quantity", "lag", "value"),
        }

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return [self._alike(tables["cosines"]), self._covariance(tables["covariances"])]

    def _alike(self, cosines: pl.DataFrame) -> Verdict:
        evidence = []
        for stage, lags in LAGS.items():
            here = cosines.filter(pl.col("stage") == stage)
            for lag in lags:
                effect, seeds = effect_over_seeds(here, partial(_gap, lag=lag))
                evidence.append(Evidence(f"Pendulum-v1 {stage}, lag {lag}", effect, seeds))
        near = {e.environment: e.effect for e in evidence}
        first, last = near["Pendulum-v1 at 450,560, lag 1"], near["Pendulum-v1 at 450,560, lag 40"]
        sentence = f"Cosine within trajectories minus across, at step 450,560: {first} at lag 1, {last} at lag 40."
        return judge(P4, "mean cosine within trajectories minus across environments", evidence, sentence)

    def _covariance(self, table: pl.DataFrame) -> Verdict:
        near = []
        for lag in (1, 5, 10, 40):
            mean, seeds = effect_over_seeds(table, partial(_mean, lag=lag))
            near.append(Evidence(f"near 0 at lag {lag}", mean.within(NEAR), seeds))
        spread = Evidence("spread within minus across, lags 1 to 5", *effect_over_seeds(table, _more_spread))
        fall, seeds = effect_over_seeds(table, lambda own: abs(_to_baseline(own, 1)) - abs(_to_baseline(own, 40)))
        closer = Evidence("nearer to the baseline at lag 40 than at lag 1", fall, seeds)
        at = over_seeds(table.filter(pl.col("quantity") == "covariance_within"), ["lag"])
        one = at.filter(pl.col("lag") == 1).row(0, named=True)
        shown = f"{one['value']:.2f} [{one['lo']:.2f}, {one['hi']:.2f}]"
        sentence = f"The correlation that enters the variance is {shown} at lag 1, mean over checkpoints."
        measured = f"{NEAR} minus |correlation| by lag; differences of spread and of distance to the baseline"
        return judge_all(P5, measured, [*([e] for e in near), [spread], [closer]], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.post import post_figures

        figures = {}
        for name, (stage, lags) in zip(("first_step", "second_step"), LAGS.items()):
            chart = post_figures.cosine_distributions(tables["distributions"], stage, lags, self._seen_at(stage))
            caption = "If the orange outline lies right of the grey one, gradients of one trajectory share a direction."
            figures[name] = Figure(
                chart, f"{caption} Pooled over {pendulum_runs.SEEDS[self.size]} seeds and many batches."
            )
        figures["covariance"] = Figure(
            post_figures.covariance_by_lag(tables["covariances"]),
            "Look at how fast the solid line falls to the dashed baseline; the band is the spread over checkpoints, as "
            "in the post.",
        )
        figures["cosine"] = Figure(
            post_figures.cosine_gaps(tables["cosines"], LAGS),
            "Points right of 0: more alike within than across trajectories.",
        )
        return figures

    def _seen_at(self, stage: str) -> str:
        share = {"at 399,360": FIRST, "at 450,560": SECOND}[stage]
        return f"step {step_at(pendulum_runs.pendulum(self.size, self.seed), share):,}"

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        alike, covariance = verdicts
        return f"{alike.sentence} {covariance.sentence}"

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "The post shows one run; here every number is a mean over seeds with an interval. Cosines are centred on "
            "the batch mean, which puts the across-environment baseline slightly below 0.",
            f"The covariance correlation is averaged over {self.checkpoints} checkpoints of each seed.",
            "P5's spread is judged without the noise of the estimates; an earlier version of the rule left it in, "
            "where fewer pairs make a larger spread of anything. That was changed after these numbers had been seen.",
        ]


def _with_noise(table: pl.DataFrame) -> pl.DataFrame:
    """Means over replicates by checkpoint, and how much of their variance over checkpoints is the estimates' own.

    Replicates of one number share their randomness at every checkpoint, so noise is what is left of the values without
    the means of their checkpoint and of their replicate, over the number of replicates.
    """
    keys, value = ["seed", "quantity", "lag"], pl.col("value")
    mean = lambda *by: value.mean().over(*keys, *by)
    left = value - mean("step") - mean("replicate") + mean()
    freedom = (pl.col("step").n_unique() - 1) * (pl.col("replicate").n_unique() - 1)
    groups = table.with_columns(left.alias("left")).group_by(keys, maintain_order=True)
    noise = groups.agg((pl.col("left").pow(2).sum() / freedom / pl.col("replicate").n_unique()).alias("noise"))
    means = table.group_by("step", *keys, maintain_order=True).agg(value.mean())
    return means.join(noise, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _gap(own: pl.DataFrame, lag: int) -> float | None:
    within = own.filter((pl.col("quantity") == "cosine_within") & (pl.col("lag") == lag))["value"].mean()
    across = own.filter(pl.col("quantity") == "cosine_across")["value"].mean()
    return None if within is None or across is None else within - across


def _mean(own: pl.DataFrame, lag: int) -> float:
    mean = own.filter((pl.col("quantity") == "covariance_within") & (pl.col("lag") == lag))["value"].mean()
    return float("nan") if mean is None else mean


def _to_baseline(own: pl.DataFrame, lag: int) -> float:
    return _mean(own, lag) - (own.filter(pl.col("quantity") == "covariance_across")["value"].mean() or 0.0)


def _more_spread(own: pl.DataFrame) -> float | None:
    """Standard deviation over checkpoints: mean of small lags within, minus that of the baseline.

    Of both the noise of a checkpoint's own estimate is taken off: across environments there are far more pairs.
    """
    small = own.filter((pl.col("quantity") == "covariance_within") & pl.col("lag").is_in(SMALL_LAGS))
    within = [_true_spread(lag) for _, lag in small.group_by("lag", maintain_order=True)]
    across = _true_spread(own.filter(pl.col("quantity") == "covariance_across"))
    return None if across is None or None in within or not within else math.fsum(within) / len(within) - across


def _true_spread(checkpoints: pl.DataFrame) -> float | None:
    """Standard deviation over checkpoints without that of their estimates; below 0 where these explain more."""
    variance, noise = checkpoints["value"].var(), checkpoints["noise"].mean()
    if variance is None or noise is None:
        return None
    return math.copysign(math.sqrt(abs(variance - noise)), variance - noise)
