"""`post/lambda`: what λ does to variance, bias and directions, at a long and at a short split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from trimtab.core.wording import split_name
from trimtab.experiments.claims import Claim, Verdict, judge_all
from trimtab.experiments.figures import Chart, Figure, distributions, heat_maps, labels_in, lines
from trimtab.experiments.jobs import Directions
from trimtab.experiments.measures import (
    SPLIT_TEXT,
    difference,
    gathered,
    intervals,
    log_ratio,
    mean_of,
    over_seeds,
    ratio,
    with_split,
)
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import (
    LONG,
    LONG_NAME,
    LONG_TEXT,
    REPLICATES,
    SECOND,
    SHORT,
    SHORT_NAME,
    SHORT_TEXT,
    Split,
)
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes

LAMBDAS = (0.0, 0.5, 0.9, 0.95, 1.0)
OWN = 0.95
FAR_BELOW, BEYOND = (64, 16), (1, 1024)  # T far below and far beyond Pendulum's episodes of 200 steps
ALIKE = math.log(1.25)  # two factors within this of each other are much the same
UNCHANGED = math.log(1.1)
LAG = 40

P10 = Claim(
    "P10",
    "λ = 0: low variance, biased; λ = 1: unbiased, high variance.",
    "post, What role does GAE-λ play here?",
    "Both are needed, at the splits where they are resolved: the logarithm of the variance at λ = 1 over that at "
    "λ = 0, and bias² at λ = 0 minus bias² at λ = 1, are above 0 beyond the interval over seeds. That nothing "
    "at all is left at λ = 1 is not judged.",
)
P11 = Claim(
    "P11",
    "T far below the episode's length acts like a smaller λ; T beyond it changes nothing.",
    "post, What role does GAE-λ play here?",
    "Three parts, all needed, beyond the interval over seeds: the λ at which samples of 4 × 256 have the individual "
    "variance of 64 × 16 at 0.95 is below 0.95; bias² at 64 × 16 is above that at 4 × 256; individual variances of "
    "samples at 1 × 1024 and 4 × 256 are within 10% of each other.",
)
P12 = Claim(
    "P12",
    "λ's effect on the variance is much the same for short and long T.",
    "post, What role does GAE-λ play here?",
    "For each of λ = 0, 0.5, 0.9 and 1: the factor by which λ changes the variance (against 0.95) at 4 × 256 is within "
    "25% of that at 16 × 64, beyond the interval over seeds.",
)
P13 = Claim(
    "P13",
    "Even at λ = 0 gradients stay correlated at lag 40.",
    "post, figure of correlations at λ = 0 and 1, lag 40",
    "At 4 × 256, the mean cosine within trajectories at lag 40 minus that across environments is above 0 beyond the "
    "interval over seeds, for λ = 0 and for λ = 1.",
    matters=0.02,  # of a cosine
)
P14 = Claim(
    "P14",
    "With larger λ, single gradients align less with the mean of their batch.",
    "post, figure of cosines with the batch mean",
    "At 4 × 256 and 16 × 64, the mean size of cos(g_i, batch mean) at λ = 0 minus that at λ = 1 is above 0 beyond the "
    "interval over seeds.",
    matters=0.05,  # of a cosine
)
P15 = Claim(
    "P15",
    "With larger λ batch means are less extreme and may agree more; at λ = 0 anything between low and high.",
    "post, figure of pairwise cosines between batch means over λ",
    "At 4 × 256 and 16 × 64, over all pairs of many batches, the mean size of the cosine between batch means at λ = 0 "
    "minus that at λ = 1 is above 0 beyond the interval over seeds.",
    matters=0.05,  # of a cosine
)


LAMBDA_TEXT = pl.format("λ = {}", "gae_lambda")
SHOWN = {0.0: "λ = 0.0", 0.95: "λ = 0.95", 1.0: "λ = 1.0"}
SPLITS = {LONG_NAME: LONG_TEXT, SHORT_NAME: SHORT_TEXT}


@dataclass(frozen=True)
class _Tables(Tables):
    """Numbers by split and λ, cosines between the means of batches i and j, and cosines of single pairs and samples."""

    numbers: pl.DataFrame
    batches: pl.DataFrame
    values: pl.DataFrame


class Lambda(SourceStudy[_Tables]):
    """λ from 0 to 1 at the post's two splits, on the policies of its Pendulum runs."""

    kind = "post/lambda"
    summary = "What does λ change, for long and short rows?"
    source = "post: What role does GAE-λ play here? and its three figures"
    claims = (P10, P11, P12, P13, P14, P15)
    leads = ("P10", "P14")
    different = (
        "The post changes λ in one run, of settings that it does not give; here every λ is measured on the same "
        "samples of policies that were trained with λ = 0.95, over many batches of several seeds, with γ 0.99 and "
        "CleanRL's rates and normalization."
    )

    def jobs(self) -> list[Directions]:
        return [job for run in pendulum_runs.trained(self.size, self.seed) for job in self._looks(run)]

    def _looks(self, run: Train) -> list[Directions]:
        """Every λ at the post's splits; its own λ where T is far from these."""
        count = REPLICATES[self.size]
        look = partial(pendulum_runs.directions, run, at=(SECOND,), size=self.size)
        over = [look(split, looked=count // 4, gae_lambda=LAMBDAS) for split in (LONG, SHORT)]
        replicates = {FAR_BELOW: count, BEYOND: 4 * count}
        return [*over, *(look(s, looked=0, gae_lambda=(OWN,), replicates=n) for s, n in replicates.items())]

    def measure(self, outcomes: Outcomes) -> _Tables:
        table = with_split(gathered(self.jobs(), outcomes, "directions.parquet"))
        quantity = pl.col("quantity")
        at_lag = lambda *names: quantity.is_in(names) & (pl.col("lag") == LAG)
        single = ("variance", "individual", "bias_sq", "true_grad_sq", "sample_own_size", "cosine_across")
        chosen = quantity.is_in([*single, "covariance_across"]) | at_lag("cosine_within", "covariance_within")
        shown = quantity.is_in(["sample_own_value", "cosine_across_value"]) | at_lag("cosine_within_value")
        keys = ["seed", "split", "num_envs", "num_steps", "gae_lambda", "quantity"]
        numbers = table.filter(chosen).group_by(keys, maintain_order=True).agg(pl.col("value").mean())
        return _Tables(
            numbers=_per_sample(numbers),
            batches=pendulum_runs.batch_pairs(table, "seed", "split", "gae_lambda"),
            values=table.filter(shown).select("seed", "split", "gae_lambda", "quantity", "lag", "value"),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        numbers = tables.numbers
        own_sizes = numbers.filter(quantity="sample_own_size")
        return [
            self._trade(numbers),
            self._like_smaller_lambda(numbers),
            self._interaction(numbers),
            self._far(numbers.filter(split=LONG_NAME)),
            self._sizes(P14, own_sizes, "cosine of a sample with its batch"),
            self._sizes(P15, tables.batches, "cosine between batch means"),
        ]

    def _trade(self, numbers: pl.DataFrame) -> Verdict:
        variance, bias = [], []
        for split, text in ((LONG, LONG_TEXT), (SHORT, SHORT_TEXT)):
            rise = partial(_log_ratio, quantity="variance", above=(split, 1.0), below=(split, 0.0))
            variance.append(over_seeds(f"variance, {text}", numbers, rise))
            bias.append(over_seeds(f"bias, {text}", numbers, partial(_bias_gap, more=(split, 0.0), less=(split, 1.0))))
        factor = math.exp(variance[0].effect.value)
        sentence = f"From λ = 0 to 1 the variance at 4 × 256 changes by a factor of {factor:.3g}."
        measured = "log variance ratio (λ = 1 over 0); bias² at 0 minus 1, over a sample's variance"
        return judge_all(P10, measured, [variance, bias], sentence)

    def _like_smaller_lambda(self, numbers: pl.DataFrame) -> Verdict:
        own = (LONG, OWN)
        noise = over_seeds("T = 16: 0.95 minus the λ of equal variance at T = 256", numbers, _below_own)
        gap = partial(_bias_gap, more=(FAR_BELOW, OWN), less=own)
        bias = over_seeds("T = 16: bias² above that at T = 256", numbers, gap)
        more = partial(_log_ratio, quantity="per_sample", above=(BEYOND, OWN), below=own)
        beyond = over_seeds("T = 1024: individual variance as at T = 256", numbers, more).within(UNCHANGED)
        sentence = f"Rows of 16 steps have the variance of λ = {OWN - noise.effect.value:.2f} at 256 steps."
        measured = "difference of λ; difference of bias²; log 1.1 minus |log ratio|"
        return judge_all(P11, measured, [[noise], [bias], [beyond]], sentence)

    def _interaction(self, numbers: pl.DataFrame) -> Verdict:
        parts, factors = [], []
        for value in (v for v in LAMBDAS if v != OWN):
            apart = over_seeds(f"Pendulum-v1, λ = {value:g}", numbers, partial(_factors_apart, gae_lambda=value))
            middle, lo, hi = (math.exp(end) for end in (apart.effect.value, apart.effect.lo, apart.effect.hi))
            factors.append(f"λ = {value:g}: {middle:.2f} [{lo:.2f}, {hi:.2f}]")
            parts.append([apart.within(ALIKE)])
        sentence = f"λ's factor at 4 × 256 over its factor at 16 × 64: {', '.join(factors)}."
        return judge_all(P12, "log 1.25 minus |difference of log factors|", parts, sentence)

    def _far(self, here: pl.DataFrame) -> Verdict:
        alike = lambda own: difference(mean_of(own, quantity="cosine_within"), mean_of(own, quantity="cosine_across"))
        evidence = [
            over_seeds(f"Pendulum-v1, λ = {value:g}", here.filter(gae_lambda=value), alike) for value in (0.0, 1.0)
        ]
        correlation = mean_of(here, quantity="covariance_within", gae_lambda=0.0) or math.nan
        sentence = (
            f"Mean cosine at lag {LAG}, within minus across: {evidence[0].effect} at λ = 0, {evidence[1].effect} at "
            f"λ = 1; the covariance correlation there is {correlation:.3f} at λ = 0."
        )
        return judge_all(P13, f"mean cosine at lag {LAG}, within minus across", [[e] for e in evidence], sentence)

    def _sizes(self, claim: Claim, table: pl.DataFrame, what: str) -> Verdict:
        evidence, sizes = [], []
        for name, text in SPLITS.items():
            here = table.filter(split=name).with_columns(pl.col("value").abs())
            low, high = (mean_of(here, gae_lambda=value) or math.nan for value in (0.0, 1.0))
            less = lambda own: difference(mean_of(own, gae_lambda=0.0), mean_of(own, gae_lambda=1.0))
            evidence.append(over_seeds(f"Pendulum-v1, {text}", here, less))
            sizes.append(f"{text}: {low:.2f} at λ = 0, {high:.2f} at λ = 1")
        sentence = f"Mean size of the {what}: {'; '.join(sizes)}."
        return judge_all(claim, f"mean |{what}|, λ = 0 minus λ = 1", [[e] for e in evidence], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        return {
            "variance": Figure(_variance_chart(tables.numbers), "Parallel lines: the same effect at both splits."),
            "bias": Figure(_bias_chart(tables.numbers), "It should fall to the right, and more for long rows."),
            "lag_40": Figure(
                _far_chart(tables.values),
                "An outline right of the grey one: still similar.",
            ),
            "samples": Figure(_samples_chart(tables.values), "Look for mass moving towards 0 from λ = 0 to λ = 1."),
            "five_batches": Figure(
                _five_batches_chart(tables.batches),
                "The figure of the post at 4 × 256, for one seed. The next figure has many batches.",
            ),
            "batches": Figure(_batches_chart(tables.batches), "The same over all pairs of many batches and all seeds."),
        }

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "All λ are measured on the same policies, trained with λ = 0.95, and on the same samples.",
            "Bias is against the same rows continued past every cut with λ = 1. Time limits of Pendulum cut returns "
            "after 200 steps and are bootstrapped in training, so λ = 1 is not unbiased either.",
        ]


def _per_sample(numbers: pl.DataFrame) -> pl.DataFrame:
    """Adds the variance of one sample: N T times the individual term, which splits can be compared by."""
    own = numbers.filter(pl.col("quantity") == "individual").with_columns(
        (pl.col("value") * pl.col("num_envs") * pl.col("num_steps")).alias("value"),
        pl.lit("per_sample").alias("quantity"),
    )
    return pl.concat([numbers, own])


Place = tuple[Split, float]  # a split and a λ


def _at(own: pl.DataFrame, quantity: str, place: Place) -> float | None:
    split, gae_lambda = place
    return mean_of(own, quantity=quantity, split=split_name(*split), gae_lambda=gae_lambda)


def _log_ratio(own: pl.DataFrame, quantity: str, above: Place, below: Place) -> float | None:
    return log_ratio(_at(own, quantity, above), _at(own, quantity, below))


def _bias_gap(own: pl.DataFrame, more: Place, less: Place) -> float | None:
    """bias² here minus bias² there, in units of a sample's variance at 4 × 256."""
    return ratio(difference(_at(own, "bias_sq", more), _at(own, "bias_sq", less)), _at(own, "per_sample", (LONG, OWN)))


def _factors_apart(own: pl.DataFrame, gae_lambda: float) -> float | None:
    """The log of λ's factor on the variance at 4 × 256 minus that at 16 × 64."""
    factor = lambda split: _log_ratio(own, "variance", (split, gae_lambda), (split, OWN))
    return difference(factor(LONG), factor(SHORT))


def _below_own(own: pl.DataFrame) -> float | None:
    """0.95 minus the λ at which T = 256 has the individual variance of T = 16."""
    curve = {v: _at(own, "per_sample", (LONG, v)) for v in LAMBDAS}
    target = _at(own, "per_sample", (FAR_BELOW, OWN))
    known = {k: v for k, v in curve.items() if v is not None}
    return OWN - _equal_lambda(known, target) if target is not None and len(known) == len(curve) else None


def _equal_lambda(curve: dict[float, float], target: float) -> float:
    """The λ at which a curve that grows with λ has a value, between the measured ones; at most its ends."""
    lambdas = sorted(curve)
    values = np.maximum.accumulate([curve[k] for k in lambdas])
    return float(np.interp(target, values, lambdas))


# Figures ---------------------------------------------------------------------------------------------------


def _variance_chart(numbers: pl.DataFrame) -> Chart:
    """Variance against λ, relative to the variance at 0.95 of the same split and seed."""
    variance = numbers.filter(pl.col("split").is_in(SPLITS), quantity="variance")
    unit = variance.filter(gae_lambda=OWN).select("seed", "split", unit="value")
    relative = variance.join(unit, on=["seed", "split"]).with_columns(SPLIT_TEXT, pl.col("value") / pl.col("unit"))
    return lines(
        intervals(relative, "gae_lambda", log=True, series="split"),
        "gae_lambda",
        "λ",
        "variance, relative to λ = 0.95",
        "What λ does to the variance of the batch gradient",
        "Relative to the same split's variance at λ = 0.95; mean over seeds with its 95% interval of logarithms.",
        series=[LONG_TEXT, SHORT_TEXT],
        log_y=True,
    )


def _bias_chart(numbers: pl.DataFrame) -> Chart:
    """bias² against λ, in units of a sample's variance at 4 × 256 and 0.95."""
    unit = numbers.filter(quantity="per_sample", split=LONG_NAME, gae_lambda=OWN).select("seed", unit="value")
    bias = numbers.filter(pl.col("split").is_in(SPLITS), quantity="bias_sq").join(unit, on="seed")
    return lines(
        intervals(bias.with_columns(SPLIT_TEXT, pl.col("value") / pl.col("unit")), "gae_lambda", series="split"),
        "gae_lambda",
        "λ",
        "bias², in variances of a sample",
        "What λ does to the bias of the batch gradient",
        "Squared distance of the expected gradient from the true one, without the bias of squaring noise; mean over "
        "seeds with its 95% interval, which may reach below 0.",
        series=[LONG_TEXT, SHORT_TEXT],
    )


def _far_chart(values: pl.DataFrame) -> Chart:
    """Cosines of pairs 40 steps apart and across environments, at λ = 0 and 1."""
    kinds = {"cosine_within_value": "within trajectories, lag 40", "cosine_across_value": "across environments"}
    panels = {0.0: "λ = 0", 1.0: "λ = 1"}
    here = values.filter(pl.col("gae_lambda").is_in(panels) & pl.col("quantity").is_in(kinds), split=LONG_NAME)
    return distributions(
        here.select(
            pl.col("gae_lambda").replace_strict(panels, return_dtype=pl.String).alias("panel"),
            pl.col("quantity").replace_strict(kinds, return_dtype=pl.String).alias("kind"),
            "value",
        ),
        "Are gradients still similar 40 steps later?",
        "Cosines about the batch mean at 4 × 256, all seeds.",
        panels=list(panels.values()),
        kinds=list(kinds.values()),
        columns=2,
    )


def _samples_chart(values: pl.DataFrame) -> Chart:
    """cos(g_i, mean of its batch) at three λ and both splits."""
    here = values.filter(pl.col("gae_lambda").is_in(SHOWN), quantity="sample_own_value")
    data = here.select("value", panel=SPLIT_TEXT, kind=LAMBDA_TEXT).sort("panel", "kind", descending=[True, False])
    return distributions(
        data,
        "How well single samples agree with their batch, over λ",
        "Cosine of each sample's gradient with the mean of its batch, many batches, all seeds.",
        panels=labels_in(data, "panel"),
        kinds=list(SHOWN.values()),
        columns=2,
    )


def _five_batches_chart(batches: pl.DataFrame) -> Chart:
    """Cosines between the means of five batches of the first seed at 4 × 256, one panel for each λ."""
    first = (pl.col("seed") == batches["seed"].min()) & (pl.col("i") < 5) & (pl.col("j") < 5)
    here = batches.filter(first, pl.col("gae_lambda").is_in([0.0, 0.5, 0.95, 1.0]), split=LONG_NAME)
    return heat_maps(
        here.select(LAMBDA_TEXT.alias("panel"), "i", "j", "value"),
        "Do gradients of independent batches agree? Five batches, over λ",
        "Cosines between mean gradients of five independent batches of 4 × 256. Blue agrees, red opposes.",
    )


def _batches_chart(batches: pl.DataFrame) -> Chart:
    """The distribution over all pairs of many batches and seeds, at three λ."""
    here = batches.filter(pl.col("gae_lambda").is_in(SHOWN) & pl.col("split").is_in(SPLITS))
    return distributions(
        here.select("value", panel=SPLIT_TEXT, kind=LAMBDA_TEXT),
        "Do gradients of independent batches agree? All pairs of many batches",
        "Cosines between the mean gradients of independent batches, all seeds.",
        panels=[LONG_TEXT, SHORT_TEXT],
        kinds=list(SHOWN.values()),
        columns=2,
    )
