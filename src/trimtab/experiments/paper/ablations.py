"""`paper/linear` and `paper/betas`: other ways to adjust Adam when the batch shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.experiments.claims import Claim, Evidence, Verdict, judge, judge_all
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.batch_sizes import (
    ADJUSTED,
    BOTH_BETAS,
    LINEAR,
    ONLY_BETA2,
    Batches,
    grouped,
    summary_by_batch,
)
from trimtab.experiments.paper.invariance import notes
from trimtab.experiments.paper.trained import effects
from trimtab.experiments.source_study import Figure

LITTLE = 0.05  # normalized return: a gain below it does not count as help


@dataclass(frozen=True)
class Linear(Batches):
    """Adam's step size divided by c instead of √c."""

    kind: ClassVar[str] = "paper/linear"
    summary: ClassVar[str] = "Adam's step size: square root rule or linear?"
    source: ClassVar[str] = "Fig. 5, 16, Appendix D"
    claims: ClassVar[tuple[Claim, ...]] = (
        Claim(
            "H12",
            "the square root rule beats the linear one",
            "Fig. 5",
            "at the smallest batch the score with the square root rule is above that with the linear "
            "one beyond the interval of the difference, over all environments, and below it in none",
        ),
    )

    def variants(self) -> tuple[str, ...]:
        return (ADJUSTED, LINEAR)

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        groups = grouped(tables["finals"])
        gain = lambda n: effects(groups, [(1.0, (ADJUSTED, n)), (-1.0, (LINEAR, n))])
        smallest = gain(self.batches[-1])
        words = [f"{n}: {evidence[0].effect.value:+.3f}" for n in self.batches[1:] if (evidence := gain(n))]
        sentence = f"Square root − linear over all environments, by number of environments: {'; '.join(words)}."
        measured = "square root − linear at the smallest batch, normalized return"
        return [judge(self.claims[0], measured, smallest, sentence)]

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return f"The square root rule beats the linear one: {verdicts[0].word}. {verdicts[0].sentence}"

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        order = [str(n) for n in self.batches]
        linear = tables["curves"].filter(pl.col("variant") == LINEAR)
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    summary_by_batch(tables["finals"]),
                    "num_envs",
                    "environments",
                    "score (normalized return)",
                    "Square root and linear rule for Adam's step size",
                    "Mean over environments; bars: 95% intervals over seeds.",
                    [ADJUSTED, LINEAR],
                ),
                "The linear rule takes steps that are too small by √c: the further left, the more it falls behind.",
            ),
            "curves_linear": Figure(
                paper_figures.mean_curves(linear, "num_envs", order, "Linear rule, by number of environments"),
                "Figure 5: small batches learn later.",
            ),
            "by_environment": Figure(
                paper_figures.curves_by_environment(
                    linear, "num_envs", order, "Linear rule, environment by environment"
                ),
                "Figure 16.",
            ),
        }

    def notes(self) -> list[str]:
        return notes(self.size)


@dataclass(frozen=True)
class Betas(Batches):
    """Adam's β raised to the power 1/c."""

    kind: ClassVar[str] = "paper/betas"
    summary: ClassVar[str] = "Does it help to adjust Adam's β to the batch?"
    source: ClassVar[str] = "Fig. 6, Appendix E"
    claims: ClassVar[tuple[Claim, ...]] = (
        Claim(
            "H13",
            "raising Adam's betas to the power 1/c does not help",
            "Fig. 6",
            f"at the smallest batch neither adjusting β₂ nor adjusting both raises the score by "
            f"{LITTLE} or more, beyond the interval, over all environments, and none in which one does",
        ),
    )

    def variants(self) -> tuple[str, ...]:
        return (ADJUSTED, ONLY_BETA2, BOTH_BETAS)

    @property
    def batches(self) -> tuple[int, ...]:
        """The two ends."""
        return suite.BATCHES[self.size][0], suite.BATCHES[self.size][-1]

    @property
    def environments(self) -> tuple[str, ...]:
        """In the paper only its outlier."""
        return (suite.procgen("heist"),) if self.size == "full" else super().environments

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        groups, n = grouped(tables["finals"]), self.batches[-1]
        parts: list[list[Evidence]] = []
        words = []
        for variant in (ONLY_BETA2, BOTH_BETAS):
            evidence = effects(groups, [(1.0, (ADJUSTED, n)), (-1.0, (variant, n))], f", {variant}")
            parts.append(evidence)
            words += [f"{variant}: {-evidence[0].effect.value:+.3f}"] if evidence else []
        sentence = f"What it changes at the smallest batch, over all environments: {'; '.join(words)}."
        measured = f"kept − adjusted β at the smallest batch, above −{LITTLE}"
        return [judge_all(self.claims[0], measured, parts, sentence, least=-LITTLE)]

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return f"Adjusting Adam's β does not help: {verdicts[0].word}. {verdicts[0].sentence}"

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        variants = list(self.variants())
        smallest = tables["curves"].filter(pl.col("num_envs") == self.batches[-1])
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    summary_by_batch(tables["finals"], panel="environment"),
                    "num_envs",
                    "environments",
                    "score (normalized return)",
                    "Adam's β kept and adjusted",
                    "Bars: 95% intervals over seeds. At the largest batch there is nothing to adjust.",
                    variants,
                    3,
                ),
                "Where adjusting helped, its points at one environment would stand above the others and nearer to the "
                "level of the largest batch.",
            ),
            "curves": Figure(
                paper_figures.curves_by_environment(smallest, "variant", variants, "At the smallest batch"),
                "Figure 6, at the smallest batch.",
            ),
        }

    def notes(self) -> list[str]:
        only = "The paper ran it on Heist alone, its outlier; here it runs on every environment of the suite."
        return notes(self.size) + ([] if self.size == "full" else [only])
