"""`post/split`: the same batch as few long or many short rows: variance, its two terms, and whether batches agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.core.wording import split_name, split_text
from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge
from trimtab.experiments.figures import Chart, Figure, distributions, effects, heat_maps, stacked
from trimtab.experiments.jobs import Directions
from trimtab.experiments.measures import (
    SPLIT_TEXT,
    Effect,
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
    AT_SECOND,
    LONG,
    LONG_NAME,
    LONG_TEXT,
    SHORT,
    SHORT_TEXT,
    STAGES,
    Split,
)
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes

SHORTEST = (64, 16)
MORE_STEPS = (4, 512)  # as many samples more than 4 × 256 as 8 × 256 has
LARGE = 0.1  # a covariance term above a tenth of the variance is large
MUCH = 1.1  # and a variance that is lower by less is not much lower

P1 = Claim(
    "P1",
    "A long T brings a large covariance term, of either sign.",
    "post, Effect of Batch Size on Variance, Impact",
    f"At 4 × 256, the covariance term is more than {LARGE:.0%} of the variance, in size, beyond the 95% interval over "
    "seeds; stage by stage of training.",
)
P2 = Claim(
    "P2",
    "A long T raises the individual variance too.",
    "post, Effect of Batch Size on Variance, Impact",
    "The logarithm of the individual term at 4 × 256 over that at 64 × 16 is above 0 beyond the interval over seeds; "
    "stage by stage.",
    matters=math.log(1.1),  # a tenth of the term
)
P3 = Claim(
    "P3",
    "At the same N × T the variance of short rollouts is much lower.",
    "post, Effect of Batch Size on Variance, Impact",
    f"The variance at 4 × 256 over that at 16 × 64 is above {MUCH:g} (its logarithm above {math.log(MUCH):.3f}) beyond "
    "the interval over seeds; stage by stage.",
)
P6 = Claim(
    "P6",
    "Means of batches of 4 × 256 point with and against each other more strongly than those of 16 × 64.",
    "post, heat maps of five batches at step 450,560",
    "Over all pairs of many batches, the mean size of the cosine between batch means at 4 × 256 minus that at 16 × 64 "
    "is above 0 beyond the interval over seeds, at the post's step.",
    matters=0.03,  # of a cosine; five heat maps cannot show less
)
P17 = Claim(
    "P17",
    "More environments is the way to reduce the variance.",
    "post, Effect of Batch Size on Variance, Take-away",
    "The logarithm of the variance at 4 × 512 over that at 8 × 256 (the same number of samples more, as steps or as "
    "environments) is above 0 beyond the interval over seeds; stage by stage.",
    matters=math.log(1.1),  # a tenth of the variance
)


@dataclass(frozen=True)
class _Tables(Tables):
    """The variance and its terms by stage, split and seed, and cosines between the means of batches i and j."""

    variance: pl.DataFrame
    batches: pl.DataFrame


class PostSplit(SourceStudy[_Tables]):
    """Variance and agreement of batches at the post's splits, over training."""

    kind = "post/split"
    summary = "Which is noisier: few long rows or many short rows?"
    source = "post: Effect of Batch Size on Variance; heat maps of five batches at step 450,560"
    claims = (P1, P2, P3, P6, P17)
    leads = ("P3", "P1")
    different = (
        "The post looks at five batches of one run's buffer, of settings that it does not give; here many batches are "
        "drawn afresh from frozen policies of several seeds, rows start out of step with each other, and γ 0.99, λ "
        "0.95, rates and normalization are CleanRL's."
    )

    @property
    def stages(self) -> dict[str, float]:
        chosen = ("early", AT_SECOND) if self.size == "quick" else tuple(STAGES)
        return {name: STAGES[name] for name in chosen}

    def jobs(self) -> list[Directions]:
        return [job for run in pendulum_runs.trained(self.size, self.seed) for job in self._looks(run)]

    def _looks(self, run: Train) -> list[Directions]:
        """Pairs of samples are looked at where they are shown."""
        looked = {LONG: 1, SHORT: 1, SHORTEST: 0, MORE_STEPS: 0}
        at = self.stages.values()
        return [
            pendulum_runs.directions(run, split, at, self.size, looked=count, bias=False)
            for split, count in looked.items()
        ]

    def measure(self, outcomes: Outcomes) -> _Tables:
        table = with_split(gathered(self.jobs(), outcomes, "directions.parquet"))
        table = pendulum_runs.with_stage(table, pendulum_runs.pendulum(self.size, self.seed), self.stages)
        terms = table.filter(pl.col("quantity").is_in(["variance", "individual", "covariance"]))
        keys = ["stage", "step", "split", "seed"]
        return _Tables(
            variance=terms.select(*keys, "num_envs", "num_steps", "quantity", "value", "lo", "hi"),
            batches=pendulum_runs.batch_pairs(table, *keys),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [
            self._large_covariance(tables.variance),
            self._ratio(P2, tables.variance, "individual", LONG, SHORTEST),
            self._ratio(P3, tables.variance, "variance", LONG, SHORT, math.log(MUCH)),
            self._agreement(tables.batches),
            self._environments(tables.variance),
        ]

    def _by_stage(self, table: pl.DataFrame, effect: Effect) -> dict[str, EffectEstimate]:
        return {s: over_seeds(f"Pendulum-v1, {s}", table.filter(stage=s), effect) for s in self.stages}

    def _large_covariance(self, table: pl.DataFrame) -> Verdict:
        """The size of the covariance term, by the sign of its mean over seeds."""
        signed = self._by_stage(table, _share)
        evidence = []
        for stage, e in signed.items():
            side = math.copysign(1.0, e.effect.value or 1.0)
            size = lambda own, side=side: (_share(own) or math.nan) * side
            evidence.append(over_seeds(e.environment, table.filter(stage=stage), size))
        shares = ", ".join(f"{stage} {e.effect.value:+.0%}" for stage, e in signed.items())
        sentence = f"Covariance term as a share of the variance at 4 × 256: {shares}."
        return judge(P1, "size of covariance / variance", evidence, sentence, LARGE)

    def _ratio(
        self, claim: Claim, table: pl.DataFrame, quantity: str, above: Split, below: Split, least: float = 0.0
    ) -> Verdict:
        evidence = self._by_stage(table, lambda own: _log_ratio(own, quantity, above, below))
        name = "individual term" if quantity == "individual" else "variance"
        sentence = f"The {name} at {split_text(*above)} over that at {split_text(*below)}: {_ratios(evidence)}."
        measured = f"log {name} ratio, {split_text(*above)} over {split_text(*below)}"
        return judge(claim, measured, list(evidence.values()), sentence, least)

    def _environments(self, table: pl.DataFrame) -> Verdict:
        """Rows are independent, so 8 × 256 has half the variance of 4 × 256; 4 × 512 is measured."""
        more = lambda own: math.log(2) + (_log_ratio(own, "variance", MORE_STEPS, LONG) or math.nan)
        evidence = self._by_stage(table, more)
        sentence = f"Variance at 4 × 512 over that at 8 × 256: {_ratios(evidence)}."
        return judge(P17, "log variance ratio, 4 × 512 over 8 × 256", list(evidence.values()), sentence)

    def _agreement(self, batches: pl.DataFrame) -> Verdict:
        here = batches.filter(stage=AT_SECOND)
        size = lambda own, split: mean_of(own, "size", split=split_name(*split))
        sizes = here.with_columns(size=pl.col("value").abs())
        more = over_seeds("Pendulum-v1, at 450,560", sizes, lambda own: difference(size(own, LONG), size(own, SHORT)))
        values = {split: here.filter(split=split_name(*split))["value"].to_numpy() for split in (LONG, SHORT)}
        spreads = "; ".join(
            f"{split_text(*s)}: mean {v.mean():.2f}, standard deviation {v.std(ddof=1):.2f}, "
            f"{(v < 0).mean():.0%} negative"
            for s, v in values.items()
        )
        sentence = f"Cosines between batch means over {len(values[LONG]):,} pairs. {spreads}."
        return judge(P6, "mean |cosine| between batch means, 4 × 256 minus 16 × 64", [more], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        return {
            "variance": Figure(
                self._terms_chart(tables.variance),
                "Compare the lengths of the bars from split to split, and how much of each is orange, stage by stage.",
            ),
            "five_batches": Figure(
                _five_batches_chart(tables.batches),
                "The figure of the post, for one seed. Other batches give another picture: see the distribution.",
            ),
            "batches": Figure(
                self._batches_chart(tables.batches),
                "The same cosines over all pairs of many batches and all seeds. More agreement and opposition would "
                "make the outline wider.",
            ),
            "share": Figure(
                self._shares_chart(tables.variance),
                "Right of 0, neighbouring samples are positively correlated; left of 0, negatively.",
            ),
        }

    def _terms_chart(self, variance: pl.DataFrame) -> Chart:
        """Individual and covariance terms by split, relative to the individual term of 4 × 256."""
        keys = ["stage", "split", "num_steps", "quantity"]
        means = variance.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
        unit = means.filter(split=LONG_NAME, quantity="individual").select("stage", unit="value")
        parts = ["individual", "covariance"]
        data = means.join(unit, on="stage").sort("num_steps", descending=True)
        data = data.filter(pl.col("quantity").is_in(parts) & pl.col("stage").is_in(self.stages))
        return stacked(
            data.select(row=SPLIT_TEXT, part="quantity", panel="stage", value=pl.col("value") / pl.col("unit")),
            parts,
            "relative to the individual term of 4 × 256",
            "The variance of a batch gradient, by split and stage",
            "Individual and covariance terms, means over seeds. 4 × 512 has twice the samples of the others.",
            panels=list(self.stages),
        )

    def _shares_chart(self, variance: pl.DataFrame) -> Chart:
        """Covariance / variance by split and stage."""
        wide = variance.pivot(on="quantity", index=["stage", "split", "seed", "num_steps"], values="value")
        wide = wide.with_columns(SPLIT_TEXT, value=pl.col("covariance") / pl.col("variance"))
        order = pl.col("stage").cast(pl.Enum(list(self.stages)), strict=False)
        table = wide.filter(order.is_not_null()).sort(order, -pl.col("num_steps"))
        return effects(
            intervals(table, row="stage", series="split"),
            "covariance / variance",
            "How much of the variance is correlation along rows",
            "Mean over seeds with its 95% interval.",
        )

    def _batches_chart(self, batches: pl.DataFrame) -> Chart:
        """The distribution of cosines between batch means."""
        splits = [LONG_TEXT, SHORT_TEXT]
        data = batches.select("value", panel="stage", kind=SPLIT_TEXT)
        return distributions(
            data.filter(pl.col("kind").is_in(splits)),
            "Do gradients of independent batches agree? All pairs of many batches",
            "Cosines between the mean gradients of independent batches: pairs of all batches, all seeds.",
            panels=list(self.stages),
            kinds=splits,
            columns=2,
        )

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "All splits are probed on the same policies: those of the runs trained at 4 × 256. The post samples five "
            "batches from the rollout buffer; here every batch is drawn afresh from the frozen policy, so batches are "
            "independent.",
            "The variance at 8 × 256 is half of that at 4 × 256: rows are independent given the policy.",
            "An earlier version of P3's rule required any lower variance; it was made stricter after a first run had "
            "been seen, and before this one.",
            "Sign and size of the covariance term depend on the configuration and on the run: `trimtab split "
            "Pendulum-v1 --batch 1024 --gamma 0.99`, with this library's preset and one run's policies, finds it above "
            "0 early.",
        ]


def _value(own: pl.DataFrame, quantity: str, split: Split) -> float | None:
    return mean_of(own, quantity=quantity, split=split_name(*split))


def _share(own: pl.DataFrame) -> float | None:
    """Covariance / variance at the long split, of one seed at one stage."""
    return ratio(_value(own, "covariance", LONG), _value(own, "variance", LONG))


def _log_ratio(own: pl.DataFrame, quantity: str, above: Split, below: Split) -> float | None:
    return log_ratio(_value(own, quantity, above), _value(own, quantity, below))


def _ratios(by_stage: dict[str, EffectEstimate]) -> str:
    return ", ".join(f"{stage} {math.exp(e.effect.value):.2f}" for stage, e in by_stage.items())


def _five_batches_chart(batches: pl.DataFrame) -> Chart:
    """The post's heat maps: five batches of the first seed."""
    first = (pl.col("seed") == batches["seed"].min()) & (pl.col("i") < 5) & (pl.col("j") < 5)
    return heat_maps(
        batches.filter(first, stage=AT_SECOND).select(SPLIT_TEXT.alias("panel"), "i", "j", "value"),
        "Do gradients of independent batches agree? Five batches",
        "Cosines between the mean gradients of five independent batches of one seed. Blue agrees, red opposes.",
        panels=[LONG_TEXT, SHORT_TEXT],
    )
