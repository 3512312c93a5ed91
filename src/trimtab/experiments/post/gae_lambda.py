"""`post/lambda`: what λ does to variance, bias and directions, at a long and at a short split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl

from trimtab.experiments.claims import Claim, Evidence, Verdict, judge_all
from trimtab.experiments.jobs import Directions
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import LONG, REPLICATES, SECOND, SHORT, effect_over_seeds, name_of, words
from trimtab.experiments.source_study import Declared, Figure
from trimtab.studies.job import Job, Train
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
)
P14 = Claim(
    "P14",
    "With larger λ, single gradients align less with the mean of their batch.",
    "post, figure of cosines with the batch mean",
    "At 4 × 256 and 16 × 64, the mean size of cos(g_i, batch mean) at λ = 0 minus that at λ = 1 is above 0 beyond the "
    "interval over seeds.",
)
P15 = Claim(
    "P15",
    "With larger λ batch means are less extreme and may agree more; at λ = 0 anything between low and high.",
    "post, figure of pairwise cosines between batch means over λ",
    "At 4 × 256 and 16 × 64, over all pairs of many batches, the mean size of the cosine between batch means at λ = 0 "
    "minus that at λ = 1 is above 0 beyond the interval over seeds.",
)
DIFFERENT = (
    "The post changes λ in one run, of settings that it does not give; here every λ is measured on the same samples of "
    "policies that were trained with λ = 0.95, over many batches of several seeds, with γ 0.99 and CleanRL's rates and "
    "normalization."
)


@dataclass(frozen=True)
class Lambda(Declared):
    """λ from 0 to 1 at the post's two splits, on the policies of its Pendulum runs."""

    kind: ClassVar[str] = "post/lambda"
    summary: ClassVar[str] = "What does λ do, for long and short rows?"
    source: ClassVar[str] = "post: What role does GAE-λ play here? and its three figures"
    claims: ClassVar[tuple[Claim, ...]] = (P10, P11, P12, P13, P14, P15)
    different: ClassVar[str] = DIFFERENT

    def jobs(self) -> list[Job]:
        return [job for run in pendulum_runs.trained(self.size, self.seed) for job in self._looks(run)]

    def _looks(self, run: Train) -> list[Directions]:
        looked = REPLICATES[self.size] // 4
        over = [
            pendulum_runs.directions(run, split, (SECOND,), self.size, looked=looked, gae_lambda=LAMBDAS)
            for split in (LONG, SHORT)
        ]
        alone = [
            pendulum_runs.directions(
                run, split, (SECOND,), self.size, looked=0, gae_lambda=(OWN,), replicates=count * REPLICATES[self.size]
            )
            for split, count in ((FAR_BELOW, 1), (BEYOND, 4))
        ]
        return [*over, *alone]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        table = pendulum_runs.with_split(pendulum_runs.gathered(self.jobs(), outcomes, "directions.parquet"))
        keys = ["seed", "split", "num_envs", "num_steps", "gae_lambda", "quantity"]
        quantities = ["variance", "individual", "bias_sq", "true_grad_sq", "sample_own_size", "cosine_across"]
        lag = (pl.col("quantity").is_in(["cosine_within", "covariance_within"])) & (pl.col("lag") == LAG)
        numbers = table.filter(pl.col("quantity").is_in([*quantities, "covariance_across"]) | lag)
        numbers = numbers.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
        batches = table.filter(pl.col("quantity") == "batch_cosine").rename({"replicate": "i", "lag": "j"})
        shown = pl.col("quantity").is_in(["sample_own_value", "cosine_across_value"]) | (
            (pl.col("quantity") == "cosine_within_value") & (pl.col("lag") == LAG)
        )
        return {
            "numbers": _per_sample(numbers),
            "batches": batches.select("seed", "split", "gae_lambda", "i", "j", "value"),
            "values": table.filter(shown).select("seed", "split", "gae_lambda", "quantity", "lag", "value"),
        }

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        numbers = tables["numbers"]
        return [
            self._trade(numbers),
            self._like_smaller_lambda(numbers),
            self._interaction(numbers),
            self._far(numbers),
            self._sizes(
                P14, numbers.filter(pl.col("quantity") == "sample_own_size"), "cosine of a sample with its batch"
            ),
            self._sizes(P15, tables["batches"], "cosine between batch means"),
        ]

    def _trade(self, numbers: pl.DataFrame) -> Verdict:
        variance, bias = [], []
        for split in (LONG, SHORT):
            ratio = partial(_log_ratio, quantity="variance", above=split, lam_above=1.0, below=split, lam_below=0.0)
            effect = effect_over_seeds(numbers, ratio)
            variance.append(Evidence(f"variance, {words(split)}", *effect))
            gap = partial(_bias_gap, more=split, lam_more=0.0, less=split, lam_less=1.0)
            effect = effect_over_seeds(numbers, gap)
            bias.append(Evidence(f"bias, {words(split)}", *effect))
        factor = math.exp(variance[0].effect.value)
        sentence = f"From λ = 0 to 1 the variance at 4 × 256 changes by a factor of {factor:.3g}."
        measured = "log variance ratio (λ = 1 over 0); bias² at 0 minus 1, over a sample's variance"
        return judge_all(P10, measured, [variance, bias], sentence)

    def _like_smaller_lambda(self, numbers: pl.DataFrame) -> Verdict:
        alike, seeds = effect_over_seeds(numbers, _below_own)
        noise = Evidence("T = 16: 0.95 minus the λ of equal variance at T = 256", alike, seeds)
        gap = effect_over_seeds(numbers, lambda own: _bias_gap(own, FAR_BELOW, OWN, LONG, OWN))
        bias = Evidence("T = 16: bias² above that at T = 256", *gap)
        ratio, seeds = effect_over_seeds(numbers, lambda own: _log_ratio(own, "per_sample", BEYOND, OWN, LONG, OWN))
        beyond = Evidence("T = 1024: individual variance as at T = 256", ratio.within(UNCHANGED), seeds)
        sentence = f"Rows of 16 steps have the variance of λ = {OWN - alike.value:.2f} at 256 steps."
        measured = "difference of λ; difference of bias²; log 1.1 minus |log ratio|"
        return judge_all(P11, measured, [[noise], [bias], [beyond]], sentence)

    def _interaction(self, numbers: pl.DataFrame) -> Verdict:
        parts, factors = [], []
        for value in (v for v in LAMBDAS if v != OWN):
            e, seeds = effect_over_seeds(numbers, partial(_factors_apart, gae_lambda=value))
            factors.append(f"λ = {value:g}: {math.exp(e.value):.2f} [{math.exp(e.lo):.2f}, {math.exp(e.hi):.2f}]")
            parts.append([Evidence(f"Pendulum-v1, λ = {value:g}", e.within(ALIKE), seeds)])
        sentence = f"λ's factor at 4 × 256 over its factor at 16 × 64: {', '.join(factors)}."
        return judge_all(P12, "log 1.25 minus |difference of log factors|", parts, sentence)

    def _far(self, numbers: pl.DataFrame) -> Verdict:
        here = numbers.filter(pl.col("split") == "4x256")
        evidence = []
        for value in (0.0, 1.0):
            own = here.filter(pl.col("gae_lambda") == value)
            e, seeds = effect_over_seeds(own, lambda o: _difference(_one(o, "cosine_within"), _one(o, "cosine_across")))
            evidence.append(Evidence(f"Pendulum-v1, λ = {value:g}", e, seeds))
        correlation = here.filter((pl.col("quantity") == "covariance_within") & (pl.col("gae_lambda") == 0.0))["value"]
        sentence = (
            f"Mean cosine at lag {LAG}, within minus across: {evidence[0].effect} at λ = 0, {evidence[1].effect} at "
            f"λ = 1; the covariance correlation there is {correlation.mean() or math.nan:.3f} at λ = 0."
        )
        return judge_all(P13, f"mean cosine at lag {LAG}, within minus across", [[e] for e in evidence], sentence)

    def _sizes(self, claim: Claim, table: pl.DataFrame, what: str) -> Verdict:
        evidence, sizes = [], []
        for split in (LONG, SHORT):
            here = table.filter(pl.col("split") == name_of(split)).with_columns(pl.col("value").abs())
            e, seeds = effect_over_seeds(here, lambda own: _difference(_mean_at(own, 0.0), _mean_at(own, 1.0)))
            evidence.append(Evidence(f"Pendulum-v1, {words(split)}", e, seeds))
            sizes.append(f"{words(split)}: {_mean_at(here, 0.0):.2f} at λ = 0, {_mean_at(here, 1.0):.2f} at λ = 1")
        sentence = f"Mean size of the {what}: {'; '.join(sizes)}."
        return judge_all(claim, f"mean |{what}|, λ = 0 minus λ = 1", [[e] for e in evidence], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.post import gae_figures

        splits = [words(LONG), words(SHORT)]
        return {
            "variance": Figure(
                gae_figures.variance_over_lambda(tables["numbers"], splits), "Parallel lines: λ does the same to both."
            ),
            "bias": Figure(
                gae_figures.bias_over_lambda(tables["numbers"], splits),
                "It should fall to the right, and more for long rows.",
            ),
            "lag_40": Figure(
                gae_figures.far_cosines(tables["values"]), "An outline right of the grey: still alike 40 steps later."
            ),
            "samples": Figure(
                gae_figures.sample_alignment(tables["values"]), "Look for mass moving towards 0 from λ = 0 to λ = 1."
            ),
            "five_batches": Figure(
                gae_figures.five_batches(tables["batches"]),
                "The post's picture at 4 × 256, of one seed; what it shows of chance, see below.",
            ),
            "batches": Figure(
                gae_figures.batch_cosines(tables["batches"], splits),
                "The same over all pairs of many batches and all seeds.",
            ),
        }

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        sentences = {v.claim.id: v.sentence for v in verdicts}
        return f"{sentences['P10']} {sentences['P14']}"

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


def _log_ratio(own: pl.DataFrame, quantity: str, above, lam_above: float, below, lam_below: float) -> float | None:
    one, other = _at(own, quantity, above, lam_above), _at(own, quantity, below, lam_below)
    return math.log(one / other) if one and other and one > 0 and other > 0 else None


def _equal_lambda(curve: dict[float, float], target: float) -> float:
    """The λ at which a curve that grows with λ has a value, between the measured ones; at most its ends."""
    lambdas = sorted(curve)
    values = np.maximum.accumulate([curve[k] for k in lambdas])
    return float(np.interp(target, values, lambdas))


def _at(own: pl.DataFrame, quantity: str, split: tuple[int, int], gae_lambda: float) -> float | None:
    here = (pl.col("quantity") == quantity) & (pl.col("split") == name_of(split)) & (pl.col("gae_lambda") == gae_lambda)
    values = own.filter(here)["value"]
    return values[0] if len(values) else None


def _one(own: pl.DataFrame, quantity: str) -> float | None:
    values = own.filter(pl.col("quantity") == quantity)["value"]
    return values[0] if len(values) else None


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _factors_apart(own: pl.DataFrame, gae_lambda: float) -> float | None:
    """The log of λ's factor on the variance at 4 × 256 minus that at 16 × 64."""
    return _difference(
        _log_ratio(own, "variance", LONG, gae_lambda, LONG, OWN),
        _log_ratio(own, "variance", SHORT, gae_lambda, SHORT, OWN),
    )


def _mean_at(own: pl.DataFrame, gae_lambda: float) -> float | None:
    return own.filter(pl.col("gae_lambda") == gae_lambda)["value"].mean()


def _bias_gap(own: pl.DataFrame, more, lam_more: float, less, lam_less: float) -> float | None:
    """bias² here minus bias² there, in units of a sample's variance at 4 × 256."""
    gap = _difference(_at(own, "bias_sq", more, lam_more), _at(own, "bias_sq", less, lam_less))
    unit = _at(own, "per_sample", LONG, OWN)
    return None if gap is None or not unit else gap / unit


def _below_own(own: pl.DataFrame) -> float | None:
    curve = {v: _at(own, "per_sample", LONG, v) for v in LAMBDAS}
    target = _at(own, "per_sample", FAR_BELOW, OWN)
    if target is None or any(v is None for v in curve.values()):
        return None
    return OWN - _equal_lambda({k: v for k, v in curve.items() if v is not None}, target)
