"""`paper/ewma`: PPO and PPG against their EWMA variants, in return, in counted passes and in time.

A proximal policy that follows within an iteration lets the iteration go further: at one step size PPO-EWMA changes its
policy by more than PPO does. Where step sizes are as large as PPO stands, that alone can decide, so at default size
the pair is also trained with a quarter of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import Claim, Verdict, explained, judge_all
from trimtab.experiments.figures import Figure, labels_in
from trimtab.experiments.measures import exactly, number
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.published import reference
from trimtab.experiments.paper.trained import (
    DIFFERENT,
    SCORE,
    SETTINGS,
    Cell,
    Groups,
    Trained,
    by_environment,
    effects,
    minus,
)
from trimtab.experiments.source_study import Tables
from trimtab.experiments.trained_runs import BROKEN
from trimtab.math import stats
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run

PPO, PPO_EWMA, PPG, PPG_EWMA = "PPO", "PPO-EWMA", "PPG", "PPG-EWMA"
SMALLER = 4  # so many times smaller are the step sizes of the second comparison of PPO and PPO-EWMA
PPO_SMALLER, PPO_EWMA_SMALLER = f"PPO, 1/{SMALLER} step size", f"PPO-EWMA, 1/{SMALLER} step size"
PAIRS = ((PPO_EWMA, PPO), (PPG_EWMA, PPG))
SMALLER_PAIR = (PPO_EWMA_SMALLER, PPO_SMALLER)
EARLY = 1 / 3  # of training: while policies are being learned, before any of them is broken
PAPER_COST = {PPO: 0.30, PPG: 0.023}
BACKWARD = 3  # cost of a forward-backward pass in forward passes (the paper, footnote 2)

H10 = Claim(
    "H10",
    "the EWMA variants beat PPO and PPG a little but consistently",
    "Fig. 4, 17: on all of the last 8 games",
    "for both pairs the difference in score is above 0 beyond its interval over all "
    "environments, and below 0 beyond it in none",
    matters=0.02,  # of the normalized return: "a little" in the paper
)
H11 = Claim(
    "H11",
    "the EWMA costs 30% of PPO's compute and 2.3% of PPG's",
    "section 5.3, footnote 2",
    "passes counted as in the paper's footnote, for the paper's hyperparameters, come to 30% and 2.3% within half "
    "a percentage point",
)


def _passes(config: Config) -> float:
    """Forward passes of one network per environment step, a backward pass counting as two; without the EWMA's own.

    PPO: 1 to act and 3 for each epoch. PPG: the same for both networks, and E_aux auxiliary epochs more of both.
    """
    if config.is_ppg:
        return 2 * (1 + BACKWARD * (config.update_epochs + config.aux_epochs))
    return 1 + BACKWARD * config.update_epochs


def _extra_passes(config: Config) -> float:
    """Forward passes that an EWMA adds: its policy is evaluated at every policy gradient step."""
    return float(config.update_epochs)


def _overhead(config: Config) -> float:
    """Cost of the EWMA as a share of the compute without it."""
    return _extra_passes(config) / _passes(config)


@dataclass(frozen=True)
class _Tables(Tables):
    """Scores, differences of pairs, how far iterations move policies, what the EWMA costs, and curves."""

    finals: pl.DataFrame
    differences: pl.DataFrame
    change: pl.DataFrame
    costs: pl.DataFrame
    curves: pl.DataFrame


class Ewma(Trained[_Tables]):
    """All four algorithms at the largest batch."""

    kind = "paper/ewma"
    summary = "Do PPO-EWMA and PPG-EWMA beat PPO and PPG?"
    source = "Fig. 4, 17, section 5.3"
    claims = (H10, H11)
    full_seeds = 4  # the paper's

    def _config(self, name: str, environment: str) -> Config:
        make = suite.phasic if name in (PPG, PPG_EWMA) else suite.clipped
        config = make(environment, self.size, ewma="EWMA" in name)
        smaller = config.replace(learning_rate=config.learning_rate / SMALLER)
        return smaller if name in SMALLER_PAIR else config

    def cells(self) -> list[Cell]:
        names = [PPO, PPO_EWMA, PPG, PPG_EWMA, *(SMALLER_PAIR[::-1] if self.size == "default" else ())]
        return [
            Cell(e, {"algorithm": name}, self._config(name, e)) for e in suite.environments(self.size) for name in names
        ]

    def also(self, outcome: Outcome) -> Mapping[str, float | None]:
        """Speed of training, without compiling, and how far an iteration moves the policy early on."""
        moved = Run(outcome.path).metrics["train/approx_kl"].drop_nulls()
        early = number(moved.head(max(1, round(EARLY * len(moved)))).mean())
        return {"fps": outcome.result["fps"], "early_kl": early}

    def measure(self, outcomes: Outcomes) -> _Tables:
        scores = self.scores(outcomes)
        finals, curves = scores.finals, scores.curves
        if self.size == "full":
            curves = pl.concat([curves, *(reference(name, "algorithm") for name in (PPO, PPG))], how="diagonal")
        return _Tables(finals, _differences(finals), _change(finals), self._costs(finals), curves)

    def _costs(self, finals: pl.DataFrame) -> pl.DataFrame:
        """What the EWMA costs: counted for the paper's hyperparameters and for these, and measured."""
        rows, speeds = [], Groups(finals, "algorithm", value="fps")
        for better, base in PAIRS:
            here = suite.clipped if base == PPO else suite.phasic
            paper = _overhead(here(suite.environments("full")[0], "full"))
            mine = _overhead(here(suite.environments(self.size)[0], self.size))
            time = _slowdown(speeds, better, base)
            rows.append((base, PAPER_COST[base], paper, mine, time.value, time.lo, time.hi))
        names = ["algorithm", "claimed", "counted_paper", "counted_here", "time", "time_lo", "time_hi"]
        return pl.DataFrame(rows, schema=names, orient="row")

    def judge(self, tables: _Tables) -> list[Verdict]:
        groups = Groups(tables.finals, "algorithm")
        parts, words = [], []
        for better, base in PAIRS:
            evidence = effects(groups, minus((better,), (base,)), f", {better}")
            parts.append(evidence)
            if evidence:
                strata = [(groups(e, better), groups(e, base)) for e in groups.with_all((better,), (base,))]
                chance = stats.probability_of_improvement(strata)
                words.append(f"{better} − {base}: {evidence[0].effect}, probability of improvement {chance}")
        gain = judge_all(H10, "EWMA − without, score", parts, f"{'; '.join(words)}.")
        why = f"{_why(groups, tables.change)} {self.differs}"
        return [*explained([gain], why), self._cost(tables.costs)]

    def _cost(self, costs: pl.DataFrame) -> Verdict:
        evidence, words = [], []
        for name, claimed, paper, here, *time in costs.iter_rows():
            evidence.append([exactly(name, 0.005 - abs(paper - claimed), 1)])
            words.append(
                f"{name}: {paper:.1%} counted for the paper's hyperparameters, {here:.1%} for those here, and training "
                f"took {_percent(Estimate(*time))} more time"
            )
        measured = "half a percentage point − |counted − claimed|"
        return judge_all(H11, measured, evidence, f"{'; '.join(words)}.")

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        gain, cost = verdicts
        return (
            f"That the EWMA variants are better: {gain.word}. That the EWMA costs what the paper counts: {cost.word}."
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures as paper

        order = labels_in(tables.curves, "algorithm")
        four = [name for name in order if name not in SMALLER_PAIR]
        small = {}
        if len(four) < len(order):
            ppo = [PPO, PPO_EWMA, *SMALLER_PAIR[::-1]]
            small["smaller_steps"] = Figure(
                paper.mean_curves(_of(tables.curves, ppo), "algorithm", ppo, "PPO and PPO-EWMA, two step sizes"),
                "Does the step size explain it? At the larger one PPO-EWMA leads at first; see whether it keeps "
                "the lead, and whether it does with smaller steps.",
            )
        return {
            "differences": Figure(
                paper.by_environment(tables.differences, "EWMA − without, score", "pair"),
                "Figure 4, right: points right of 0 are environments in which the EWMA helps.",
            ),
            "curves": Figure(
                paper.mean_curves(_of(tables.curves, four), "algorithm", four, "All four algorithms"),
                "Figure 4, left: an EWMA variant should lie a little above the one without, all the way.",
            ),
            **small,
            "by_environment": Figure(
                paper.curves_by_environment(
                    _of(tables.curves, four), "algorithm", four, "All four, environment by environment"
                ),
                "Figure 17.",
            ),
        }

    def notes(self) -> list[str]:
        remarks = [
            "PPO clips its ratio and takes 3 epochs, PPG is KL-penalized and takes 1; the EWMA's centre of mass is 8 "
            "gradient steps for both and was not tuned here. Step sizes are what PPO and PPG learn fastest with; with "
            f"the EWMA they stay the same. At default size PPO and PPO-EWMA are also trained with 1/{SMALLER} of them; "
            "that was added after the first result had been seen, and no claim is judged by it.",
            "Times are of training without compiling, with whatever else ran beside it.",
        ]
        return remarks if self.size == "full" else [*remarks, BROKEN, SCORE, DIFFERENT, SETTINGS]


def _of(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return frame.filter(pl.col("algorithm").is_in(names))


def _change(finals: pl.DataFrame) -> pl.DataFrame:
    """How far an iteration moves the policy while it is being learned, in nats, and what is reached."""
    means = pl.col("early_kl", "score", "final_normalized").mean()
    return finals.group_by("environment", "algorithm", maintain_order=True).agg(means)


def _why(groups: Groups, change: pl.DataFrame) -> str:
    """What the records say of a difference between PPO and PPO-EWMA."""
    moved = {(e, a): kl for e, a, kl in change.select("environment", "algorithm", "early_kl").iter_rows()}
    both = [(moved[e, PPO_EWMA], moved[e, PPO]) for e in groups.with_all((PPO_EWMA,), (PPO,))]
    ratios = [more / less for more, less in both if more and less]
    sentences = []
    if ratios:
        sentences.append(
            f"At one step size an iteration of PPO-EWMA moves the policy {min(ratios):.2g} to {max(ratios):.2g} times "
            "as far as one of PPO (KL in the first third of training): the proximal policy follows."
        )
    if small := effects(groups, minus(SMALLER_PAIR[:1], SMALLER_PAIR[1:])):
        sentences.append(f"With 1/{SMALLER} of the step size the difference is {small[0].effect}.")
    return " ".join(sentences)


def _slowdown(groups: Groups, better: str, base: str) -> Estimate:
    """Time with the EWMA over time without, minus 1, over environments and seeds."""
    ratios = [
        fast / slow - 1
        for e in groups.with_all((better,), (base,))
        for seed, slow in groups.by_seed(e, better).items()
        if (fast := groups.by_seed(e, base).get(seed))
    ]
    return stats.mean_interval(ratios)


def _percent(estimate: Estimate) -> str:
    return f"{estimate.value:.0%} ({estimate.lo:.0%} to {estimate.hi:.0%})"


def _differences(finals: pl.DataFrame) -> pl.DataFrame:
    groups, pairs = Groups(finals, "algorithm"), (*PAIRS, SMALLER_PAIR)
    names = {pair: f"{pair[0].split(',')[0]} − {pair[1]}" for pair in pairs}
    return pl.concat([by_environment(groups, minus((a,), (b,)), pair=name) for (a, b), name in names.items()])
