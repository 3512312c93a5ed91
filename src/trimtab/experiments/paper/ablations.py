"""`paper/linear` and `paper/betas`: other ways to adjust Adam when the batch shrinks."""

from __future__ import annotations

from trimtab.experiments.claims import Claim, Verdict, judge, judge_all
from trimtab.experiments.figures import Figure
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.batch_sizes import ADJUSTED, BOTH_BETAS, LINEAR, ONLY_BETA2, Batches, grouped
from trimtab.experiments.paper.trained import ScoreTables, effects, mean_scores, minus
from trimtab.studies.study_engine import Outcomes

LITTLE = 0.05  # normalized return: a gain below it does not count as help


class _Comparison(Batches[ScoreTables]):
    """Another adjustment of Adam beside the paper's."""

    def measure(self, outcomes: Outcomes) -> ScoreTables:
        return self.scores(outcomes)


class Linear(_Comparison):
    """Adam's step size divided by c instead of √c."""

    kind = "paper/linear"
    summary = "Adam's step size: square root rule or linear?"
    source = "Fig. 5, 16, Appendix D"
    claims = (
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

    def judge(self, tables: ScoreTables) -> list[Verdict]:
        groups = grouped(tables.finals)
        gain = lambda n: effects(groups, minus((ADJUSTED, n), (LINEAR, n)))
        words = [f"{n}: {evidence[0].effect.value:+.3f}" for n in self.batches[1:] if (evidence := gain(n))]
        sentence = f"Square root − linear over all environments, by number of environments: {'; '.join(words)}."
        measured = "square root − linear at the smallest batch, normalized return"
        return [judge(self.claims[0], measured, gain(self.batches[-1]), sentence)]

    def answer(self, tables: ScoreTables, verdicts: list[Verdict]) -> str:
        return f"The square root rule beats the linear one: {verdicts[0].word}. {verdicts[0].sentence}"

    def figures(self, tables: ScoreTables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        order = [str(n) for n in self.batches]
        linear = tables.curves.filter(variant=LINEAR)
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    mean_scores(tables.finals, "variant", "num_envs"),
                    "num_envs",
                    "environments",
                    "score (normalized return)",
                    "Square root and linear rule for Adam's step size",
                    "Mean over environments; bars: 95% intervals over seeds.",
                    self.variants(),
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


class Betas(_Comparison):
    """Adam's β raised to the power 1/c."""

    kind = "paper/betas"
    summary = "Does it help to adjust Adam's β to the batch?"
    source = "Fig. 6, Appendix E"
    claims = (
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

    def judge(self, tables: ScoreTables) -> list[Verdict]:
        groups, n = grouped(tables.finals), self.batches[-1]
        parts = {v: effects(groups, minus((ADJUSTED, n), (v, n)), f", {v}") for v in (ONLY_BETA2, BOTH_BETAS)}
        words = [f"{variant}: {-part[0].effect.value:+.3f}" for variant, part in parts.items() if part]
        sentence = f"What it changes at the smallest batch, over all environments: {'; '.join(words)}."
        measured = f"kept − adjusted β at the smallest batch, above −{LITTLE}"
        return [judge_all(self.claims[0], measured, list(parts.values()), sentence, least=-LITTLE)]

    def answer(self, tables: ScoreTables, verdicts: list[Verdict]) -> str:
        return f"Adjusting Adam's β does not help: {verdicts[0].word}. {verdicts[0].sentence}"

    def figures(self, tables: ScoreTables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        smallest = tables.curves.filter(num_envs=self.batches[-1])
        return {
            "final_by_batch": Figure(
                paper_figures.over(
                    mean_scores(tables.finals, "variant", "num_envs", "environment"),
                    "num_envs",
                    "environments",
                    "score (normalized return)",
                    "Adam's β kept and adjusted",
                    "Bars: 95% intervals over seeds. At the largest batch there is nothing to adjust.",
                    self.variants(),
                    3,
                ),
                "Where adjusting helped, its points at one environment would stand above the others and nearer to the "
                "level of the largest batch.",
            ),
            "curves": Figure(
                paper_figures.curves_by_environment(smallest, "variant", self.variants(), "At the smallest batch"),
                "Figure 6, at the smallest batch.",
            ),
        }

    def notes(self) -> list[str]:
        only = "The paper ran it on Heist alone, its outlier; here it runs on every environment of the suite."
        return super().notes() + ([] if self.size == "full" else [only])
