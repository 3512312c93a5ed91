"""`paper/published`: the statistics of these studies on curves that others published, with nothing to train.

procgen-published.csv holds training curves of openai/phasic-policy-gradient (MIT licence, copyright 2020 OpenAI): PPO,
PPG, PPG with a KL penalty in place of clipping, and PPG in a single network; 3 runs on each of the 16 Procgen games,
means over 4 million steps each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Figure
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.trained import Groups, by_environment, combination, minus
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.math import stats
from trimtab.studies.job import Job
from trimtab.studies.study_engine import Outcomes

DATA = Path(__file__).with_name("procgen-published.csv")
TITLES = {"ppo": "PPO", "ppg": "PPG", "ppgkl": "PPG, KL penalty", "ppgsingle": "PPG, single network"}
PAIRS = (("PPG", "PPO"), ("PPG, KL penalty", "PPG"), ("PPG", "PPG, single network"))
LAST = 1  # bins of 4 million steps that are "final", as in the paper


def _published() -> pl.DataFrame:
    """The published curves: algorithm, environment, seed, step, return, normalized."""
    raw = pl.read_csv(DATA)
    scale = {game: suite.normalizer(suite.procgen(game)) for game in raw["game"].unique()}
    return raw.select(
        pl.col("algo").replace_strict(TITLES).alias("algorithm"),
        pl.col("game").alias("environment"),
        pl.col("run").alias("seed"),
        "step",
        pl.col("mean_return").alias("return"),
        pl.struct("game", "mean_return")
        .map_elements(lambda row: scale[row["game"]](row["mean_return"]), return_dtype=pl.Float64)
        .alias("normalized"),
    )


def reference(algorithm: str, label: str) -> pl.DataFrame:
    """Published curves of an algorithm to draw beside a study's own; the column `label` says "ALGORITHM, published"."""
    chosen = _published().filter(pl.col("algorithm") == algorithm)
    return chosen.select(
        pl.col("environment").map_elements(suite.procgen, return_dtype=pl.String),
        pl.lit(f"{algorithm}, published").alias(label),
        pl.col("seed").cast(pl.Int64),
        "step",
        "return",
        "normalized",
    )


def _finals_of(curves: pl.DataFrame) -> pl.DataFrame:
    """The last bin of every run."""
    return curves.sort("step").group_by("algorithm", "environment", "seed", maintain_order=True).tail(LAST)


def _grouped(finals: pl.DataFrame) -> Groups:
    """Final normalized returns by game and algorithm, games in alphabetical order."""
    return Groups(finals.sort("environment", maintain_order=True), "algorithm", value="normalized")


def _named(name: str, estimate: Estimate) -> dict[str, float]:
    """An estimate as three columns."""
    return {name: estimate.value, f"{name}_lo": estimate.lo, f"{name}_hi": estimate.hi}


def _compared(groups: Groups, better: str, worse: str) -> dict[str, Any]:
    """A row: every statistic of one algorithm against another, games as strata."""
    games = groups.environments
    strata = [(groups(game, better), groups(game, worse)) for game in games]
    test, most = stats.van_elteren(strata), stats.max_attainable_z(strata)
    difference = _named("difference", combination(groups, games, minus((better,), (worse,))))
    improvement = _named("improvement", stats.probability_of_improvement(strata))
    return {"first": better, "second": worse, "z": test.z, "p": test.p, "max_z": most, **difference, **improvement}


def _summary(groups: Groups, name: str) -> dict[str, Any]:
    """A row: mean and interquartile mean of the final normalized returns over all games and runs."""
    games = groups.environments
    middle = stats.stratified_bootstrap([groups(game, name) for game in games], stats.iqm)
    return {"algorithm": name, **_named("mean", combination(groups, games, [(1.0, (name,))])), **_named("iqm", middle)}


@dataclass(frozen=True)
class _Tables(Tables):
    """Statistics of pairs of algorithms, means of each, final returns, and the published curves."""

    comparisons: pl.DataFrame
    summary: pl.DataFrame
    finals: pl.DataFrame
    curves: pl.DataFrame


class Published(SourceStudy[_Tables]):
    """PPO against PPG on published Procgen curves."""

    kind = "paper/published"
    summary = "Is PPG above PPO in the published curves?"
    source = "openai/phasic-policy-gradient; statistics of Appendix F"

    def jobs(self) -> list[Job]:
        return []

    def measure(self, outcomes: Outcomes) -> _Tables:
        curves = _published()
        finals = _finals_of(curves)
        groups = _grouped(finals)
        return _Tables(
            comparisons=pl.DataFrame([_compared(groups, *pair) for pair in PAIRS]),
            summary=pl.DataFrame([_summary(groups, name) for name in TITLES.values()]),
            finals=finals,
            curves=curves,
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        better, worse = PAIRS[0]
        gaps = by_environment(_grouped(tables.finals), minus((better,), (worse,)), pair=f"{better} − {worse}")
        return {
            "learning_curves": Figure(
                paper_figures.mean_curves(
                    tables.curves, "algorithm", list(TITLES.values()), "Published runs on Procgen"
                ),
                "PPG's three variants lie well above PPO from 10 million steps on, and end together.",
            ),
            "comparisons": Figure(
                paper_figures.comparisons(tables.comparisons),
                "Probability that a run of the first algorithm ends above one of the second, averaged over games; the "
                "line at one half is no difference. Z is van Elteren's, which no seed count of this size can bring "
                "above the number beside it.",
            ),
            "by_environment": Figure(
                paper_figures.by_environment(gaps, "PPG − PPO, final normalized return", "pair"),
                "Game by game: PPG ends above PPO in nearly all, and the bars say how well three runs tell.",
            ),
        }

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        row = tables.comparisons.row(0, named=True)
        return (
            f"On the published runs PPG ends {row['difference']:.2f} ({row['difference_lo']:.2f} to "
            f"{row['difference_hi']:.2f}) of the normalized range above PPO over 16 games, and a run of PPG beats one "
            f"of PPO with probability {row['improvement']:.2f} ({row['improvement_lo']:.2f} to "
            f"{row['improvement_hi']:.2f}). Van Elteren's Z is {row['z']:.2f} of at most {row['max_z']:.2f} "
            f"(p = {row['p']:.1g})."
        )

    def notes(self) -> list[str]:
        return [
            "Nothing is trained: the curves are those of openai/phasic-policy-gradient (MIT licence), hard difficulty, "
            "3 runs on each of 16 games, in bins of 4 million steps; final is the last bin.",
            "The published runs do not include the EWMA variants, so they say nothing about this paper's own claims.",
        ]
