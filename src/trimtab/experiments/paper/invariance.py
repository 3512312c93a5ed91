"""`paper/invariance`: PPG-EWMA from the largest batch down to one environment, adjusted and without one adjustment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import polars as pl

from trimtab.advise.rules.variance_rules import oscillation
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.claims import UNDECIDED, Claim, EffectEstimate, Verdict, explained, judge, judge_all
from trimtab.experiments.figures import Figure
from trimtab.experiments.measures import below, number
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
    weak,
)
from trimtab.experiments.paper.published import reference
from trimtab.experiments.paper.trained import (
    ALL,
    CLOSE,
    Cell,
    Groups,
    Key,
    ScoreTables,
    Weighted,
    by_environment,
    combination,
    effects,
    mean_scores,
    minus,
    together,
)
from trimtab.experiments.source_study import Tables
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run

OSCILLATION = 10.0  # the factor from which the paper sees normalization matter (Fig. 13)
SHOWN = 400  # points of a series of estimates that is drawn
H4 = Claim(
    "H4",
    "with all adjustments the performance at one environment is close to that at the largest batch",
    "Fig. 2, 3: a difference of 0.052 in normalized return, 0.019 without Heist",
    f"the difference in score between the largest and the smallest batch is less than {CLOSE} "
    "either way, beyond its 95% interval, over all environments and in none of them more",
)
H5 = Claim(
    "H5",
    "the Adam step size matters most at every batch size",
    "Fig. 2, 3, 11",
    "at every smaller batch, over all environments, the effect size of ablation (a) is above that of every other "
    "ablation, beyond the interval of its difference to the largest of them",
    matters=0.05,  # of the normalized return: the paper's spread between batch sizes is 0.052
)
H6 = Claim(
    "H6",
    "the advantage normalization adjustment matters only where one batch's estimates are noisy: by a factor of 10",
    "Fig. 12, 13",
    f"where estimates without it oscillate by a factor of {OSCILLATION:g} or more ablation (b) has an effect "
    f"above 0, and elsewhere one smaller than {CLOSE}, each beyond its interval; without such a place: not "
    "resolved",
)
H7 = Claim(
    "H7",
    "the EWMA adjustment matters a little at every batch size",
    "Fig. 2, 14, 15",
    "over all environments, at every smaller batch, the effect sizes of ablations (c) and (d) are above 0 beyond "
    "their intervals",
    matters=0.05,  # of the normalized return: the paper's spread between batch sizes is 0.052
)
H9 = Claim(
    "H9",
    "PPG with the KL coefficient at 1/256 is an approximate lower bound",
    "Fig. 2",
    "PPG-EWMA with all adjustments ends above it at every batch size, over all environments, beyond the interval",
    matters=0.05,  # of the normalized return: the paper's spread between batch sizes is 0.052
)


@dataclass(frozen=True)
class _Tables(Tables):
    """Scores, losses by the smallest batch, how much estimates of the advantages' deviation oscillate, and curves."""

    finals: pl.DataFrame
    differences: pl.DataFrame
    oscillation: pl.DataFrame
    deviations: pl.DataFrame
    curves: pl.DataFrame


class Invariance(Batches[_Tables]):
    """Batch size-invariance and the four ablations."""

    kind = "paper/invariance"
    summary = "Is one environment as good as a large batch?"
    source = "Fig. 2, 3, 10 to 15"
    claims = (H4, H5, H6, H7, H9)

    def variants(self) -> tuple[str, ...]:
        return (ADJUSTED, *ABLATIONS)

    def cells(self) -> list[Cell]:
        reference = [
            Cell(e, {"variant": WEAK, "num_envs": self.batches[0]}, weak(e, self.size)) for e in self.environments
        ]
        return [*super().cells(), *reference]

    # What is measured ----------------------------------------------------------------------------------------

    def measure(self, outcomes: Outcomes) -> _Tables:
        scores: ScoreTables = self.scores(outcomes)
        factors, series = self._deviations(outcomes)
        return _Tables(
            finals=scores.finals,
            differences=_differences(scores.finals, self.batches),
            oscillation=factors,
            deviations=series,
            curves=scores.curves,
        )

    def _deviations(self, outcomes: Outcomes) -> tuple[pl.DataFrame, pl.DataFrame]:
        """How much one batch's estimate of the advantages' deviation oscillates; the estimates of the first seed.

        The estimates are not smoothed: as many of them are kept as can be seen.
        """
        factors, series = [], []
        for cell, seed, job in self.runs():
            outcome = outcomes[job.identity]
            if not outcome.done or cell.labels["variant"] != NO_NORMALIZATION:
                continue
            values = Run(outcome.path).metrics["train/adv_std"].drop_nulls().to_numpy()
            about = (cell.environment, cell.labels["num_envs"])
            factors.append((*about, seed, oscillation(values[len(values) // 10 :])))
            if seed == self.seed:
                shown = range(0, len(values), max(1, len(values) // SHOWN))
                series += [(*about, (i + 1) / len(values), float(values[i])) for i in shown]
        keys = ["environment", "num_envs"]
        return (
            pl.DataFrame(factors, schema=[*keys, "seed", "factor"], orient="row"),
            pl.DataFrame(series, schema=[*keys, "share", "value"], orient="row"),
        )

    # What follows --------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        groups = grouped(tables.finals)
        return [
            self._invariant(groups),
            self._step_size_first(groups),
            self._normalization(groups, tables.oscillation),
            self._ewma(groups),
            self._lower_bound(groups),
        ]

    def _invariant(self, groups: Groups) -> Verdict:
        largest, smallest = self.batches[0], self.batches[-1]
        raw = effects(groups, loss(ADJUSTED, largest, smallest))
        change = below(0.0, raw[0].effect if raw else UNRESOLVED)
        sentence = f"From {largest} environments to {smallest} the score changes by {change}."
        far = [e.environment for e in raw if e.environment != ALL and abs(e.effect.value) > CLOSE]
        sentence += f" More than {CLOSE} apart: {', '.join(far)}." if far else ""
        measured = f"{CLOSE} − |largest − smallest batch|, normalized"
        return judge(H4, measured, [e.within(CLOSE) for e in raw], sentence)

    def _step_size_first(self, groups: Groups) -> Verdict:
        parts, words = [], []
        for n in self.batches[1:]:
            sizes = {v: self._effect(groups, v, n) for v in ABLATIONS}
            rival = max((v for v in ABLATIONS if v != NO_STEP_SIZE), key=lambda v: sizes[v].value)
            lead = [*effect(NO_STEP_SIZE, self.batches[0], n), *((-w, g) for w, g in effect(rival, self.batches[0], n))]
            parts.append([together(groups, _summed(lead), f", {n} of {self.batches[0]}")])
            words.append(f"{n}: {sizes[NO_STEP_SIZE].value:+.3f} against {sizes[rival].value:+.3f} for {rival[:3]}")
        sentence = f"Effect sizes by environments: {'; '.join(words)}."
        return judge_all(H5, "effect size of (a) − the largest of the others", parts, sentence)

    def _normalization(self, groups: Groups, oscillation: pl.DataFrame) -> Verdict:
        noisy: list[EffectEstimate] = []
        calm: list[EffectEstimate] = []
        smaller = oscillation.filter(pl.col("num_envs") != self.batches[0])
        factors = smaller.group_by("environment", "num_envs").agg(pl.col("factor").median())
        for environment, num_envs, factor in factors.sort("environment", "num_envs").iter_rows():
            weighted = effect(NO_NORMALIZATION, self.batches[0], num_envs)
            if environment not in groups.with_all(*(g for _, g in weighted)):
                continue
            cost = combination(groups, [environment], weighted)
            name, seeds = f"{environment}, {num_envs}: × {factor:.3g}", len(groups(environment, NO_NORMALIZATION, 1))
            if factor >= OSCILLATION:
                noisy.append(EffectEstimate(name, cost, seeds))
            else:
                calm.append(EffectEstimate(name, below(CLOSE, cost), seeds))
        most = number(factors["factor"].max()) or math.nan
        sentence = (
            f"Without the adjustment estimates at smaller batches oscillate by at most a factor of {most:.3g} (median "
            f"over seeds); by {OSCILLATION:g} or more in {len(noisy)} of {len(noisy) + len(calm)} cases."
        )
        measured = f"effect size of (b) where estimates are noisy, {CLOSE} − it elsewhere"
        verdict = judge_all(H6, measured, [part for part in (noisy, calm) if part], sentence)
        if verdict.word != "holds" or noisy:
            return verdict
        needed = (
            f"batches or environments whose estimates oscillate by {OSCILLATION:g} or more are needed to see it matter"
        )
        return replace(verdict, word=UNDECIDED, needed=needed)

    def _ewma(self, groups: Groups) -> Verdict:
        evidence = {
            f"{variant[:3]} at {n}": together(groups, effect(variant, self.batches[0], n), f", {variant[:3]} at {n}")
            for variant in (NO_EWMA_ADJUSTMENT, NO_EWMA)
            for n in self.batches[1:]
        }
        sentence = f"Effect sizes: {'; '.join(f'{name} {e.effect.value:+.3f}' for name, e in evidence.items())}."
        return judge_all(H7, "effect sizes of (c) and (d)", [[e] for e in evidence.values()], sentence)

    def _lower_bound(self, groups: Groups) -> Verdict:
        above = lambda n: minus((ADJUSTED, n), (WEAK, self.batches[0]))
        evidence = {n: together(groups, above(n), f", {n}") for n in self.batches}
        least = min(evidence, key=lambda n: evidence[n].effect.value)
        sentence = f"It comes nearest at {least} environments, with a distance of {evidence[least].effect}."
        measured = "PPG-EWMA − PPG with 1/256, normalized"
        verdict = judge_all(H9, measured, [[e] for e in evidence.values()], sentence)
        different = f"{self.differs} A penalty that is too weak needs time, and large steps, to do harm."
        return explained([verdict], different)[0]

    def _effect(self, groups: Groups, variant: str, num_envs: int) -> Estimate:
        return together(groups, effect(variant, self.batches[0], num_envs)).effect

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        words = {v.claim.id: v.word for v in verdicts}
        finals = tables.finals.filter(pl.col("variant") == ADJUSTED)
        means = finals.group_by("num_envs").agg(pl.col("score").mean()).sort("num_envs", descending=True)
        ends = f"{means['score'][0]:.2f} at {means['num_envs'][0]} environments, {means['score'][-1]:.2f} at 1"
        return (
            f"With all adjustments PPG-EWMA has a score of {ends}; that these are close: {words['H4']}. That leaving "
            f"the step size alone costs most at every batch size: {words['H5']}."
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        finals, curves = tables.finals, tables.curves
        order = [str(n) for n in self.batches]
        adjusted = curves.filter(pl.col("variant") == ADJUSTED).with_columns(pl.col("num_envs").cast(pl.String))
        if self.size == "full":
            adjusted = pl.concat([adjusted, reference("PPG", "num_envs")], how="diagonal")
        sizes = list(dict.fromkeys(adjusted["num_envs"]))
        ablated = curves.filter(pl.col("variant").is_in(ABLATIONS))
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    mean_scores(finals, "variant", "num_envs"),
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
                paper_figures.by_environment(tables.differences, "Largest − smallest batch, score", "variant"),
                "Figure 3: right of 0 the small batch is worse. All adjustments should lie at 0 in every environment.",
            ),
            "deviations": Figure(
                paper_figures.deviations(_labelled(tables.deviations), order),
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


def _differences(finals: pl.DataFrame, batches: tuple[int, ...]) -> pl.DataFrame:
    """Largest − smallest batch by environment and variant (Figure 3)."""
    groups, ends = grouped(finals), (batches[0], batches[-1])
    return pl.concat([by_environment(groups, loss(v, *ends), variant=v) for v in (ADJUSTED, *ABLATIONS)])


def _summed(weighted: Weighted) -> Weighted:
    """The same combination with every group once."""
    totals: dict[Key, float] = {}
    for weight, labels in weighted:
        totals[labels] = totals.get(labels, 0.0) + weight
    return [(weight, labels) for labels, weight in totals.items() if weight]


def _labelled(series: pl.DataFrame) -> pl.DataFrame:
    return series.with_columns(series=pl.col("num_envs").cast(pl.String), panel="environment")
