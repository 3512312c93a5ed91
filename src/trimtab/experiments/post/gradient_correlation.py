"""`post/correlation`: are gradients of one trajectory more alike than gradients of different ones?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import polars as pl

from trimtab.experiments.claims import Claim, Verdict, judge, judge_all
from trimtab.experiments.figures import Chart, Figure, distributions, effects, lines
from trimtab.experiments.jobs import Directions
from trimtab.experiments.measures import difference, gathered, intervals, mean_of, number, over_seeds
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import AT_FIRST, AT_SECOND, CHECKPOINTS, FIRST, LONG, SECOND
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.experiments.trained_runs import step_at
from trimtab.studies.study_engine import Outcomes

LAGS = {AT_FIRST: (1, 3, 5, 7), AT_SECOND: (1, 5, 10, 40)}  # the post's two figures
NEAR = 0.1  # a covariance correlation within this of 0 is near 0
SMALL_LAGS = (1, 2, 3, 5)
WITHIN, ACROSS = "within trajectories", "across environments"

P4 = Claim(
    "P4",
    "Gradients of one trajectory are more alike in direction than gradients across trajectories.",
    "the two figures of cosine correlation, at steps 399,360 and 450,560",
    "The mean cosine of pairs in one trajectory, minus that of pairs across environments, is above 0 beyond the 95% "
    "interval over seeds, at the post's lags and steps (a lag whose interval holds 0 says nothing).",
    matters=0.02,  # of a cosine
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


@dataclass(frozen=True)
class _Tables(Tables):
    """Mean cosines by lag, covariance correlations by checkpoint and lag, and cosines of single pairs."""

    cosines: pl.DataFrame
    covariances: pl.DataFrame
    distributions: pl.DataFrame


class Correlation(SourceStudy[_Tables]):
    """Cosine and covariance correlation along trajectories of the post's Pendulum runs."""

    kind = "post/correlation"
    summary = "Are gradients along a trajectory correlated?"
    source = "post: figures at steps 399,360 and 450,560; note on covariance-based correlation"
    claims = (P4, P5)
    leads = ("P4", "P5")
    different = (
        "The post looks at one run, of settings that it does not give; here every number is a mean over seeds and "
        "many fresh batches, cosines are centred on the batch mean, and γ 0.99, λ 0.95, rates and normalization are "
        "CleanRL's."
    )

    @property
    def checkpoints(self) -> int:
        """Checkpoints the covariance correlation is averaged over; the post has 20."""
        return 10 if self.size == "quick" else 20

    def jobs(self) -> list[Directions]:
        return [*self._looks(), *self._courses()]

    def _looks(self) -> list[Directions]:
        runs = pendulum_runs.trained(self.size, self.seed)
        return [pendulum_runs.directions(run, LONG, (FIRST, SECOND), self.size, bias=False) for run in runs]

    def _courses(self) -> list[Directions]:
        """Every twentieth of the run, fewer replicates at each."""
        shares = [(k + 1) / self.checkpoints for k in range(self.checkpoints)]
        few = {"quick": 8, "default": 12, "full": 32}[self.size]
        runs = pendulum_runs.trained(self.size, self.seed)
        counts = {"replicates": few, "looked": few // 2}
        return [pendulum_runs.directions(run, LONG, shares, self.size, bias=False, **counts) for run in runs]

    def measure(self, outcomes: Outcomes) -> _Tables:
        config = pendulum_runs.pendulum(self.size, self.seed)
        looks = gathered(self._looks(), outcomes, "directions.parquet")
        looks = pendulum_runs.with_stage(looks, config, {AT_FIRST: FIRST, AT_SECOND: SECOND})
        courses = gathered(self._courses(), outcomes, "directions.parquet")
        of = lambda table, kind, *ends: table.filter(pl.col("quantity").is_in([f"{kind}{end}" for end in ends]))
        means = of(looks, "cosine", "_within", "_across")
        values = of(looks, "cosine", "_within_value", "_across_value")
        keys = ["stage", "step", "seed", "quantity", "lag"]
        return _Tables(
            cosines=means.group_by(keys, maintain_order=True).agg(pl.col("value").mean()),
            covariances=_with_noise(of(courses, "covariance", "_within", "_across")),
            distributions=values.select("stage", "seed", "replicate", "quantity", "lag", "value"),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [self._alike(tables.cosines), self._covariance(tables.covariances)]

    def _alike(self, cosines: pl.DataFrame) -> Verdict:
        evidence = {
            (stage, lag): over_seeds(
                f"Pendulum-v1 {stage}, lag {lag}", cosines.filter(stage=stage), partial(_gap, lag=lag)
            )
            for stage, lags in LAGS.items()
            for lag in lags
        }
        first, last = (evidence[AT_SECOND, lag].effect for lag in (1, 40))
        sentence = f"Cosine within trajectories minus across, at step 450,560: {first} at lag 1, {last} at lag 40."
        measured = "mean cosine within trajectories minus across environments"
        return judge(P4, measured, list(evidence.values()), sentence)

    def _covariance(self, table: pl.DataFrame) -> Verdict:
        near = [
            over_seeds(f"near 0 at lag {lag}", table, partial(_correlation, lag=lag)).within(NEAR)
            for lag in (1, 5, 10, 40)
        ]
        wider = over_seeds("spread within minus across, lags 1 to 5", table, _more_spread)
        fall = lambda own: difference(_to_baseline(own, 1), _to_baseline(own, 40))
        closer = over_seeds("nearer to the baseline at lag 40 than at lag 1", table, fall)
        one = intervals(table.filter(quantity="covariance_within", lag=1), "lag").row(0, named=True)
        shown = f"{one['value']:.2f} [{one['lo']:.2f}, {one['hi']:.2f}]"
        sentence = f"The correlation that enters the variance is {shown} at lag 1, mean over checkpoints."
        measured = f"{NEAR} minus |correlation| by lag; differences of spread and of distance to the baseline"
        return judge_all(P5, measured, [*([e] for e in near), [wider], [closer]], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        caption = (
            "If the orange outline lies right of the grey one, gradients of one trajectory share a direction. Pooled "
            f"over {pendulum_runs.SEEDS[self.size]} seeds and many batches."
        )
        return {
            "first_step": Figure(self._cosines_chart(tables.distributions, AT_FIRST, FIRST), caption),
            "second_step": Figure(self._cosines_chart(tables.distributions, AT_SECOND, SECOND), caption),
            "covariance": Figure(
                _covariance_chart(tables.covariances),
                "Look at how fast the solid line falls to the dashed baseline; the band is the spread over "
                "checkpoints, as in the post.",
            ),
            "cosine": Figure(
                _gaps_chart(tables.cosines),
                "Points right of 0: more similar within than across trajectories.",
            ),
        }

    def _cosines_chart(self, values: pl.DataFrame, stage: str, share: float) -> Chart:
        """The post's two figures: cosines at some lags, over those of pairs across environments."""
        here, lags = values.filter(stage=stage), LAGS[stage]
        across = here.filter(quantity="cosine_across_value").select("value", kind=pl.lit(ACROSS))
        within = here.filter(quantity="cosine_within_value").with_columns(kind=pl.lit(WITHIN))
        panels = {f"lag {lag}": pl.concat([within.filter(lag=lag).select("value", "kind"), across]) for lag in lags}
        step = step_at(pendulum_runs.pendulum(self.size, self.seed), share, CHECKPOINTS)
        return distributions(
            pl.concat([data.with_columns(panel=pl.lit(name)) for name, data in panels.items()]),
            f"Gradients within one trajectory and across environments, step {step:,}",
            "Cosines about the batch mean of two gradients so many steps apart in one trajectory (outline), over those "
            "of pairs from different environments (grey).",
            panels=list(panels),
            kinds=[WITHIN, ACROSS],
        )

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
    return difference(mean_of(own, quantity="cosine_within", lag=lag), mean_of(own, quantity="cosine_across"))


def _correlation(own: pl.DataFrame, lag: int) -> float | None:
    return mean_of(own, quantity="covariance_within", lag=lag)


def _to_baseline(own: pl.DataFrame, lag: int) -> float | None:
    """The distance of the correlation at a lag from that across trajectories."""
    gap = difference(_correlation(own, lag), mean_of(own, quantity="covariance_across") or 0.0)
    return None if gap is None else abs(gap)


def _more_spread(own: pl.DataFrame) -> float | None:
    """Standard deviation over checkpoints: mean of small lags within, minus that of the baseline.

    Of both the noise of a checkpoint's own estimate is taken off: across environments there are far more pairs.
    """
    small = own.filter(pl.col("lag").is_in(SMALL_LAGS), quantity="covariance_within")
    within = [_true_spread(lag) for _, lag in small.group_by("lag", maintain_order=True)]
    known = [value for value in within if value is not None]
    if not known or len(known) < len(within):
        return None
    return difference(math.fsum(known) / len(known), _true_spread(own.filter(quantity="covariance_across")))


def _true_spread(checkpoints: pl.DataFrame) -> float | None:
    """Standard deviation over checkpoints without that of their estimates; below 0 where these explain more."""
    true = difference(number(checkpoints["value"].var()), mean_of(checkpoints, "noise"))
    return None if true is None else math.copysign(math.sqrt(abs(true)), true)


def _covariance_chart(table: pl.DataFrame) -> Chart:
    """Mean over checkpoints of the covariance correlation, with its spread over checkpoints, by lag."""
    value, spread = pl.col("value").mean(), pl.col("value").std().fill_null(0)
    ends = {"value": value, "lo": value - spread, "hi": value + spread}
    within = table.filter(quantity="covariance_within").group_by("lag").agg(**ends).sort("lag")
    flat = within.select("lag").join(table.filter(quantity="covariance_across").select(**ends), how="cross")
    return lines(
        pl.concat([within.with_columns(series=pl.lit(WITHIN)), flat.with_columns(series=pl.lit(ACROSS))]),
        "lag",
        "lag k, steps (logarithmic)",
        "covariance correlation",
        "The correlation that enters the variance, by lag",
        "E[(g_i − μ)·(g_j − μ)] / E|g − μ|², mean over checkpoints and seeds; band: one standard deviation over them.",
        series=[WITHIN, ACROSS],
        log_x=True,
        dashed=[ACROSS],
    )


def _gaps_chart(cosines: pl.DataFrame) -> Chart:
    """Within minus across at the post's steps and lags."""
    across = cosines.filter(quantity="cosine_across").select("stage", "seed", across="value")
    gaps = cosines.filter(quantity="cosine_within").join(across, on=["stage", "seed"])
    gaps = gaps.with_columns(
        pl.format("{}, lag {}", "stage", "lag").alias("row"), gap=pl.col("value") - pl.col("across")
    )
    order = pl.Enum([f"{stage}, lag {lag}" for stage, lags in LAGS.items() for lag in lags])
    shown = gaps.with_columns(pl.col("row").cast(order, strict=False)).drop_nulls("row").sort("row")
    return effects(
        intervals(shown.with_columns(pl.col("row").cast(pl.String)), "row", column="gap"),
        "mean cosine within minus across",
        "How much more similar gradients within a trajectory are, by step and lag",
        "Mean over seeds with its 95% interval.",
    )
