"""`paper/invariance`: PPG-EWMA from the largest batch down to one environment, adjusted and without one adjustment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from trimtab.advise.rules.variance_rules import oscillation
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.claims import Claim, Evidence, Verdict, explained, judge, judge_all
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.batch_sizes import (
    ABLATIONS,
    ADJUSTED,
    NO_EWMA,
    NO_EWMA_ADJUSTMENT,
    NO_NORMALIZATION,
    NO_STEP_SIZE,
    WEAK,
    Batches,
    effect,
    grouped,
    loss,
    summary_by_batch,
    weak,
)
from trimtab.experiments.paper.published import reference
from trimtab.experiments.paper.trained import (
    ALL,
    CLOSE,
    DIFFERENT,
    SCORE,
    SETTINGS,
    Cell,
    Groups,
    by_id,
    combination,
    effects,
    together,
)
from trimtab.experiments.run_scores import BROKEN
from trimtab.experiments.source_study import Figure, Size
from trimtab.math import stats
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run

OSCILLATION = 10.0  # the factor from which the paper sees normalization matter (Fig. 13)
SHOWN = 400  # points of a series of estimates that is drawn
CLAIMS = (
    Claim(
        "H4",
        "with all adjustments the performance at one environment is close to that at the largest batch",
        "Fig. 2, 3: a difference of 0.052 in normalized return, 0.019 without Heist",
        f"the difference in score between the largest and the smallest batch is less than {CLOSE} "
        "either way, beyond its 95% interval, over all environments and in none of them more",
    ),
    Claim(
        "H5",
        "the Adam step size matters most at every batch size",
        "Fig. 2, 3, 11",
        "at every smaller batch, over all environments, the effect size of ablation (a) is above that of every other "
        "ablation, beyond the interval of its difference to the largest of them",
    ),
    Claim(
        "H6",
        "the advantage normalization adjustment matters only where one batch's estimates are noisy: by a factor of 10",
        "Fig. 12, 13",
        f"where estimates without it oscillate by a factor of {OSCILLATION:g} or more ablation (b) has an effect "
        f"above 0, and elsewhere one smaller than {CLOSE}, each beyond its interval; without such a place: not "
        "resolved",
    ),
    Claim(
        "H7",
        "the EWMA adjustment matters a little at every batch size",
        "Fig. 2, 14, 15",
        "over all environments, at every smaller batch, the effect sizes of ablations (c) and (d) are above 0 beyond "
        "their intervals",
    ),
    Claim(
        "H9",
        "PPG with the KL coefficient at 1/256 is an approximate lower bound",
        "Fig. 2",
        "PPG-EWMA with all adjustments ends above it at every batch size, over all environments, beyond the interval",
    ),
)


@dataclass(frozen=True)
class Invariance(Batches):
    """Batch size-invariance and the four ablations."""

    kind: ClassVar[str] = "paper/invariance"
    summary: ClassVar[str] = "Is one environment as good as a large batch?"
    source: ClassVar[str] = "Fig. 2, 3, 10 to 15"
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS

    def variants(self) -> tuple[str, ...]:
        return (ADJUSTED, *ABLATIONS)

    def cells(self) -> list[Cell]:
        reference = [
            Cell(e, {"variant": WEAK, "num_envs": self.batches[0]}, weak(e, self.size)) for e in self.environments
        ]
        return [*super().cells(), *reference]

    # What is measured ----------------------------------------------------------------------------------------

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        deviations, series = self._deviations(outcomes)
        tables = super().measure(outcomes)
        return {
            "finals": tables["finals"],
            "differences": _differences(tables["finals"], self.batches),
            "oscillation": deviations,
            "deviations": series,
            "curves": tables["curves"],
        }

    def _deviations(self, outcomes: Outcomes) -> tuple[pl.DataFrame, pl.DataFrame]:
        """How much one batch's estimate of the advantages' deviation oscillates; the estimates of the first seed."""
        factors, series = [], []
        for cell, seed, outcome in self.finished(outcomes):
            if cell.labels["variant"] not in (NO_NORMALIZATION,):
                continue
            values = Run(outcome.path).metrics["train/adv_std"].drop_nulls().to_numpy()
            about = {"environment": cell.environment, "num_envs": cell.labels["num_envs"]}
            middle = values[len(values) // 10 :]
            factors.append(about | {"seed": seed, "factor": oscillation(middle)})
            if seed == self.seed:
                series += [about | row for row in _drawn(values)]
        return pl.DataFrame(factors), pl.DataFrame(series)

    # What follows --------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        groups, claim = grouped(tables["finals"]), by_id(self.claims)
        return [
            self._invariant(claim("H4"), groups),
            self._step_size_first(claim("H5"), groups),
            self._normalization(claim("H6"), groups, tables["oscillation"]),
            self._ewma(claim("H7"), groups),
            self._lower_bound(claim("H9"), groups),
        ]

    def _invariant(self, claim: Claim, groups: Groups) -> Verdict:
        largest, smallest = self.batches[0], self.batches[-1]
        raw = effects(groups, loss(ADJUSTED, largest, smallest))
        close = [replace(e, effect=e.effect.within(CLOSE)) for e in raw]
        lost = raw[0].effect if raw else UNRESOLVED
        change = Estimate(-lost.value, -lost.hi, -lost.lo, lost.resolved)
        sentence = f"From {largest} environments to {smallest} the score changes by {change}."
        far = [e.environment for e in raw if e.environment != ALL and abs(e.effect.value) > CLOSE]
        sentence += f" More than {CLOSE} apart: {', '.join(far)}." if far else ""
        return judge(claim, f"{CLOSE} − |largest − smallest batch|, normalized", close, sentence)

    def _step_size_first(self, claim: Claim, groups: Groups) -> Verdict:
        parts, words = [], []
        for n in self.batches[1:]:
            sizes = {v: self._effect(groups, v, n) for v in ABLATIONS}
            rival = max((v for v in ABLATIONS if v != NO_STEP_SIZE), key=lambda v: sizes[v].value)
            lead = [*effect(NO_STEP_SIZE, self.batches[0], n), *((-w, g) for w, g in effect(rival, self.batches[0], n))]
            parts.append([together(groups, _summed(lead), f", {n} of {self.batches[0]}")])
            words.append(f"{n}: {sizes[NO_STEP_SIZE].value:+.3f} against {sizes[rival].value:+.3f} for {rival[:3]}")
        sentence = f"Effect sizes by environments: {'; '.join(words)}."
        return judge_all(claim, "effect size of (a) − the largest of the others", parts, sentence)

    def _normalization(self, claim: Claim, groups: Groups, oscillation: pl.DataFrame) -> Verdict:
        noisy: list[Evidence] = []
        calm: list[Evidence] = []
        smaller = oscillation.filter(pl.col("num_envs") != self.batches[0])
        factors = smaller.group_by("environment", "num_envs").agg(pl.col("factor").median())
        for environment, num_envs, factor in factors.sort("environment", "num_envs").iter_rows():
            weighted = effect(NO_NORMALIZATION, self.batches[0], num_envs)
            if environment not in groups.with_all(*(g for _, g in weighted)):
                continue
            cost = combination(groups, [environment], weighted)
            name, seeds = f"{environment}, {num_envs}: × {factor:.3g}", _count(groups, environment)
            if factor >= OSCILLATION:
                noisy.append(Evidence(name, cost, seeds))
            else:
                calm.append(Evidence(name, _below(cost, CLOSE), seeds))
        most = factors["factor"].max() or math.nan
        sentence = (
            f"Without the adjustment estimates at smaller batches oscillate by at most a factor of {most:.3g} (median "
            f"over seeds); by {OSCILLATION:g} or more in {len(noisy)} of {len(noisy) + len(calm)} cases."
        )
        measured = f"effect size of (b) where estimates are noisy, {CLOSE} − it elsewhere"
        verdict = judge_all(claim, measured, [part for part in (noisy, calm) if part], sentence)
        if verdict.word != "holds" or noisy:
            return verdict
        needed = (
            f"batches or environments whose estimates oscillate by {OSCILLATION:g} or more are needed to see it matter"
        )
        return replace(verdict, word="inconclusive at this size", needed=needed)

    def _ewma(self, claim: Claim, groups: Groups) -> Verdict:
        evidence = [
            together(groups, effect(variant, self.batches[0], n), f", {variant[:3]} at {n}")
            for variant in (NO_EWMA_ADJUSTMENT, NO_EWMA)
            for n in self.batches[1:]
        ]
        sentence = "Effect sizes: " + "; ".join(
            f"{e.environment.split(', ')[1]} {e.effect.value:+.3f}" for e in evidence
        )
        return judge_all(claim, "effect sizes of (c) and (d)", [[e] for e in evidence], sentence + ".")

    def _lower_bound(self, claim: Claim, groups: Groups) -> Verdict:
        evidence = []
        for n in self.batches:
            weighted = [(1.0, (ADJUSTED, n)), (-1.0, (WEAK, self.batches[0]))]
            evidence.append(together(groups, weighted, f", {n}"))
        least = min(evidence, key=lambda e: e.effect.value)
        sentence = (
            f"It comes nearest at {least.environment.split(', ')[1]} environments, with a distance of {least.effect}."
        )
        verdict = judge_all(claim, "PPG-EWMA − PPG with 1/256, normalized", [[e] for e in evidence], sentence)
        different = f"{self.differs} A penalty that is too weak needs time, and large steps, to do harm."
        return explained([verdict], different)[0]

    def _effect(self, groups: Groups, variant: str, num_envs: int) -> Estimate:
        return together(groups, effect(variant, self.batches[0], num_envs)).effect

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        words = {v.claim.id: v.word for v in verdicts}
        finals = tables["finals"].filter(pl.col("variant") == ADJUSTED)
        means = finals.group_by("num_envs").agg(pl.col("score").mean()).sort("num_envs", descending=True)
        ends = f"{means['score'][0]:.2f} at {means['num_envs'][0]} environments, {means['score'][-1]:.2f} at 1"
        return (
            f"With all adjustments PPG-EWMA has a score of {ends}; that these are close: {words['H4']}. That leaving "
            f"the step size alone costs most at every batch size: {words['H5']}."
        )

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        finals, curves = tables["finals"], tables["curves"]
        order = [str(n) for n in self.batches]
        adjusted = curves.filter(pl.col("variant") == ADJUSTED).with_columns(pl.col("num_envs").cast(pl.String))
        if self.size == "full":
            adjusted = pl.concat([adjusted, reference("PPG", "num_envs")], how="diagonal")
        sizes = list(dict.fromkeys(adjusted["num_envs"]))
        ablated = curves.filter(pl.col("variant").is_in(ABLATIONS))
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    summary_by_batch(finals),
                    "num_envs",
                    "environments",
                    "score (normalized return)",
                    "Score by batch size",
                    "Mean over environments; bars: 95% intervals over seeds.",
                    [ADJUSTED, *ABLATIONS, WEAK],
                ),
                "With all adjustments the line should be level. An ablation that matters falls away to the left, where "
                "batches are small; at the largest batch nothing is adjusted and (a) to (c) are the same runs.",
            ),
            "curves_adjusted": Figure(
                paper_figures.mean_curves(adjusted, "num_envs", sizes, "All adjustments, by number of environments"),
                "Figure 2, left: curves of all batch sizes should lie on each other as functions of environment steps.",
            ),
            "curves_ablated": Figure(
                paper_figures.mean_curves(ablated, "num_envs", order, "One adjustment left out", panel="variant"),
                "Figure 2, right: the more the curves fan out, the more that adjustment does.",
            ),
            "differences": Figure(
                paper_figures.by_environment(tables["differences"], "Largest − smallest batch, score", "variant"),
                "Figure 3: right of 0 the small batch is worse. All adjustments should stand at 0 in every "
                "environment.",
            ),
            "deviations": Figure(
                paper_figures.deviations(_labelled(tables["deviations"]), order),
                "Figure 13: the smaller the batch the more its own estimate jumps about; the paper sees harm from a "
                "factor of about 10 on.",
            ),
            "by_environment": Figure(
                paper_figures.curves_by_environment(
                    adjusted, "num_envs", sizes, "All adjustments, environment by environment"
                ),
                "Figure 10.",
            ),
        }

    def notes(self) -> list[str]:
        return notes(self.size)


def notes(size: Size) -> list[str]:
    """What is different from the paper's batch size experiments."""
    remarks = [
        "The policy objective is the KL-penalized one with coefficient 1: the paper's figures name its coefficient for "
        "PPG but its tables, as far as they are legible here, do not; the value is inferred.",
        "An ablation leaves out one adjustment, as the figures' captions say; N_π and the auxiliary phase are always "
        "adjusted.",
    ]
    if size != "full":
        remarks += [
            f"{DIFFERENT} Here the largest batch has {suite.BATCHES[size][0]} environments of "
            f"{suite.COMMON['num_steps']} steps.",
            SETTINGS,
            SCORE,
            BROKEN,
            "Ranges of normalization go from a random policy to what the base configuration reaches at default size.",
        ]
    return remarks


def _differences(finals: pl.DataFrame, batches: tuple[int, ...]) -> pl.DataFrame:
    """Largest − smallest batch by environment and variant (Figure 3)."""
    groups, rows = grouped(finals), []
    for variant in (ADJUSTED, *ABLATIONS):
        weighted = loss(variant, batches[0], batches[-1])
        for environment in groups.with_all(*(labels for _, labels in weighted)):
            gap = stats.contrast([groups(environment, *labels) for _, labels in weighted], [1.0, -1.0])
            about = {"environment": environment, "variant": variant}
            rows.append(about | {"value": gap.value, "lo": gap.lo, "hi": gap.hi})
    return pl.DataFrame(rows)


def _count(groups: Groups, environment: str) -> int:
    """Seeds of an environment's ablation (b)."""
    return len(groups(environment, NO_NORMALIZATION, 1))


def _summed(weighted: list) -> list:
    """The same combination with every group once."""
    totals: dict[tuple, float] = {}
    for weight, labels in weighted:
        totals[labels] = totals.get(labels, 0.0) + weight
    return [(weight, labels) for labels, weight in totals.items() if weight]


def _below(effect: Estimate, margin: float) -> Estimate:
    """margin − effect: positive where the effect is below the margin."""
    return Estimate(margin - effect.value, margin - effect.hi, margin - effect.lo, effect.resolved)


def _drawn(values: np.ndarray) -> list[dict[str, Any]]:
    """A series for drawing: as many values as can be seen, none smoothed."""
    every = max(1, len(values) // SHOWN)
    return [{"share": (i + 1) / len(values), "value": float(values[i])} for i in range(0, len(values), every)]


def _labelled(series: pl.DataFrame) -> pl.DataFrame:
    return series.with_columns(pl.col("num_envs").cast(pl.String).alias("series"), pl.col("environment").alias("panel"))
