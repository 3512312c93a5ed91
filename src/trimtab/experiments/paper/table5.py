"""`paper/table5`: is every ablation's effect significant? van Elteren's test, environments as strata, Bonferroni."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import REACH, UNDECIDED, Claim, EffectEstimate, Verdict, Word, beyond
from trimtab.experiments.figures import Figure
from trimtab.experiments.measures import number
from trimtab.experiments.paper.batch_sizes import ABLATIONS, ADJUSTED, Batches, grouped
from trimtab.experiments.paper.trained import Groups
from trimtab.experiments.source_study import Tables
from trimtab.math import stats
from trimtab.studies.study_engine import Outcomes

LEVEL, HYPOTHESES = 0.001, 16  # the paper's: 0.1% after Bonferroni over 4 ablations x 4 smaller batches
THRESHOLD = stats.z_needed(LEVEL, HYPOTHESES)
MOSTLY = 0.84  # standard errors beyond it, so that it is passed with a probability of 80%


@dataclass(frozen=True)
class _Row:
    """An ablation at a smaller batch: its effect size, van Elteren's test, and how many runs there are."""

    ablation: str
    num_envs: int
    effect: float
    lo: float
    hi: float
    z: float
    p: float
    p_bonferroni: float
    max_z: float
    environments: int
    seeds: int

    @property
    def name(self) -> str:
        """(a), (b), (c) or (d)."""
        return self.ablation[:3]


TYPES = {"str": pl.String, "int": pl.Int64, "float": pl.Float64}
SCHEMA = {name: TYPES[annotation] for name, annotation in _Row.__annotations__.items()}


@dataclass(frozen=True)
class _Tables(Tables):
    """Table 5, and the scores that it follows from."""

    table5: pl.DataFrame
    finals: pl.DataFrame


def _table5(finals: pl.DataFrame, batches: tuple[int, ...]) -> pl.DataFrame:
    """Effect size, Z and p of every ablation at every smaller batch.

    Within an environment the seeds' losses (largest − smaller batch) are ranked: those of the ablation against those
    of the unablated runs, one-sided.
    """
    groups, rows = grouped(finals), []
    largest = batches[0]
    for ablation in ABLATIONS:
        for n in batches[1:]:
            cells = [(v, m) for v in (ADJUSTED, ablation) for m in (largest, n)]
            pairs = {
                e: (_losses(groups, e, ablation, largest, n), _losses(groups, e, ADJUSTED, largest, n))
                for e in groups.with_all(*cells)
            }
            strata = {e: pair for e, pair in pairs.items() if all(pair)}  # seeds that have both batches
            if not strata:
                continue
            losses = list(strata.values())
            test = stats.van_elteren(losses, "greater")
            size = stats.effect_size([stats.Ablation(*(groups(e, *labels) for labels in cells)) for e in strata])
            adjusted, most = stats.bonferroni(test.p, HYPOTHESES), stats.max_attainable_z(losses)
            about = (size.value, size.lo, size.hi, test.z, test.p, adjusted, most)
            rows.append((ablation, n, *about, len(strata), min(len(ablated) for ablated, _ in losses)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _losses(groups: Groups, environment: str, variant: str, largest: int, num_envs: int) -> list[float]:
    """Largest − smaller batch, for every seed that has both."""
    large, small = (groups.by_seed(environment, variant, n) for n in (largest, num_envs))
    return [large[seed] - small[seed] for seed in large if seed in small]


def _seeds_for(environments: int, threshold: float = THRESHOLD) -> int:
    """Seeds with which complete separation in every environment would be significant."""
    for seeds in range(2, 10_000):
        if stats.max_attainable_z([([1.0] * seeds, [0.0] * seeds)] * environments) > threshold:
            return seeds
    return 10_000


class Table5(Batches[_Tables]):
    """Hypothesis tests of the four ablations."""

    kind = "paper/table5"
    summary = "Which adjustments pass the paper's test?"
    source = "Table 5, Appendix F"
    claims = (
        Claim(
            "H8",
            "every ablation is significant between the largest and the smallest batch",
            "Table 5",
            f"van Elteren's one-sided Z, environments as strata, is above {THRESHOLD:.2f} (0.1% after Bonferroni over "
            f"{HYPOTHESES}) for all four ablations: holds; for some: depends; for none although that could have been "
            "seen: inconclusive, unless an effect's interval, 95% for all four together, lies below 0: contradicted. "
            "Where even complete separation could not reach the threshold: inconclusive",
        ),
    )

    def variants(self) -> tuple[str, ...]:
        return (ADJUSTED, *ABLATIONS)

    def measure(self, outcomes: Outcomes) -> _Tables:
        finals = self.scores(outcomes).finals
        return _Tables(_table5(finals, self.batches), finals)

    def judge(self, tables: _Tables) -> list[Verdict]:
        rows = [_Row(**row) for row in tables.table5.filter(num_envs=self.batches[-1]).iter_rows(named=True)]
        evidence = tuple(
            EffectEstimate(f"{row.ablation}: Z = {row.z:.2f}", Estimate(row.effect, row.lo, row.hi), row.seeds)
            for row in rows
        )
        significant = [row.name for row in rows if row.z > THRESHOLD]
        attainable = min((row.max_z for row in rows), default=0.0)
        word: Word = UNDECIDED
        if len(significant) == len(ABLATIONS):
            word = "holds"
        elif significant:
            word = "depends"
        elif attainable > THRESHOLD and any(beyond(e, 0.0, len(evidence)) < 0 for e in evidence):
            word = "contradicted"
        sentence = (
            f"Z at {self.batches[-1]} against {self.batches[0]} environments: "
            + ", ".join(f"{row.name} {row.z:.2f}" for row in rows)
            + f"; significant above {THRESHOLD:.2f}: {', '.join(significant) or 'none'}. "
            + f"The largest Z these numbers of seeds can show is {attainable:.2f}."
        )
        needed = _needed(rows, attainable) if word == UNDECIDED else ""
        return [Verdict(self.claims[0], word, "effect size of Table 5, normalized return", evidence, sentence, needed)]

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        table = tables.table5
        if not len(table):
            return "No ablation has runs that could be compared."
        significant, most = table.filter(pl.col("z") > THRESHOLD), number(table["max_z"].min()) or 0.0
        return (
            f"{len(significant)} of {len(table)} hypotheses are significant at the 0.1% level after Bonferroni "
            f"(Z above {THRESHOLD:.2f}; at most {most:.2f} can be reached with {min(table['seeds'])} "
            f"seeds in {min(table['environments'])} environments)."
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        if not len(tables.table5):
            return {}
        return {
            "table5": Figure(
                paper_figures.effect_table(tables.table5, THRESHOLD),
                "Table 5's layout: effect sizes grow to the right, with the distance of the batches; in the paper all "
                "but (b) are significant almost everywhere, and (b) only at the smallest batch.",
            )
        }

    def notes(self) -> list[str]:
        return [
            *super().notes(),
            f"The threshold is the paper's, for {HYPOTHESES} hypotheses, also where fewer batch sizes make fewer.",
            "Ablations (a) to (c) share the runs of the largest batch with the unablated ones, so their losses are "
            "compared seed by seed at the smaller batch; ranks see no pairing.",
        ]


def _needed(rows: list[_Row], attainable: float) -> str:
    """The size that would resolve it: seeds until the threshold can be reached, then until the measured effects do."""
    if not rows:
        return "runs that finish"
    environments, seeds = min(row.environments for row in rows), min(row.seeds for row in rows)
    if attainable <= THRESHOLD:
        fewest = f"at least {_seeds_for(environments)} seeds in each of {environments} environments ({seeds} here)"
        return f"{fewest}: with fewer the threshold cannot be passed"
    weakest = min(rows, key=lambda row: row.z)
    if weakest.z <= 0:
        return f"out of reach: {weakest.name} shows no effect at all here, and may be nil"
    seeds_needed = round(seeds * ((THRESHOLD + MOSTLY) / weakest.z) ** 2) + 1
    if seeds_needed > REACH:
        return f"out of reach: over {REACH} seeds for the weakest, {weakest.name}, which may be nil"
    return f"about {seeds_needed} seeds ({seeds} here), for the weakest, {weakest.name}"
