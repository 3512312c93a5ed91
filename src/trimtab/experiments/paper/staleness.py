"""`paper/staleness`: PPO on data that has waited, under three losses, where iterations move the policy much or little.

Staleness is counted in iterations, so what it does depends on how far the policy moves in one. The paper's runs have
1,526 iterations. Here the same environment steps are taken in about as many (MANY), in a sixteenth of them with batches
sixteen times as large, rescaled by the paper's rules (FEW), and in as many with one epoch (ONCE). Claims are judged
where iterations are as many as the paper's; the other regimes, and how far policies are from their data, say why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from trimtab.advise.rescaling import rescale
from trimtab.config import Config
from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, explained, judge, judge_all
from trimtab.experiments.figures import Chart, Figure
from trimtab.experiments.measures import mean_of, spread
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.trained import (
    CLOSE,
    DIFFERENT,
    SCORE,
    SETTINGS,
    Cell,
    Groups,
    Trained,
    effects,
    mean_scores,
    minus,
    typical_metric,
)
from trimtab.experiments.source_study import Size, Tables
from trimtab.experiments.trained_runs import BROKEN
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes

DECOUPLED, BEHAVIOR, RECENT = "decoupled", "behavior", "recent"
LOSSES = (DECOUPLED, BEHAVIOR, RECENT)
WEIGHTED = (DECOUPLED, BEHAVIOR)  # losses whose importance weights are those of the policy that acted
STEPS = 196_608  # of every run
LARGER, SMALLER = 64, 4  # environments of the few iterations, and of the many
FEW, MANY, ONCE = "96 iterations", "1,536 iterations", "1,536 iterations, one epoch"
PAPERS = "1,526 iterations"  # the paper's
WAITS: dict[Size, dict[str, tuple[int, ...]]] = {
    "quick": {MANY: (0, 2, 8, 16), FEW: (0, 2, 8), ONCE: (0, 8)},
    "default": {MANY: (0, 2, 8, 16), FEW: (0, 2, 8), ONCE: (0, 2, 8)},
    "full": {PAPERS: (0, 1, 2, 4, 8, 16)},
}
QUICK_ENVIRONMENTS = ("CartPole-v1",)
SMALL = 2  # iterations up to which staleness is small
FAR = 8  # iterations up to which the paper sees little loss
NEAR, AWAY = 0.01, 0.1  # nats between the policy and its data: below, little; above, much
KEYS = ("environment", "regime", "loss", "staleness")
WATCHED = ("approx_kl", "importance_ess", "clip_fraction", "zero_gradient_fraction", "ratio_cap_fraction")

H1 = Claim(
    "H1",
    "with the recent policy in the importance weights even small staleness makes training unstable",
    "Fig. 1a, 7",
    f"in runs of as many iterations as the paper's, under that loss the score at a staleness of 1 to {SMALL} is "
    f"below that of fresh data by more than {CLOSE}, beyond the interval",
)
H2 = Claim(
    "H2",
    f"the decoupled objective degrades little up to about {FAR} iterations",
    "Fig. 1b, 8",
    f"in runs of as many iterations as the paper's, under the decoupled loss the score at the longest staleness "
    f"of at most {FAR} is within {CLOSE} of that of fresh data, or above it, beyond the interval",
)
H3 = Claim(
    "H3",
    "the behavior policy as proximal policy holds learning back at small staleness and is more stable at large",
    "Fig. 1c, 9",
    f"in runs of as many iterations as the paper's, the score under the decoupled loss is above that under the "
    f"behavior loss at a staleness of 1 to {SMALL}, and below it at the largest beyond {FAR}, beyond the interval",
    matters=0.05,  # of the normalized return: the paper's spread between batch sizes is 0.052
)


def stale(base: Config, staleness: int, loss: str) -> Config:
    """The same on data that waits; on fresh data all three losses are one."""
    return base.replace(staleness=staleness, staleness_loss=loss) if staleness else base


@dataclass(frozen=True)
class _Tables(Tables):
    """Scores, diagnostics by case, distances of policies from their data, and curves."""

    finals: pl.DataFrame
    change: pl.DataFrame
    distance: pl.DataFrame
    curves: pl.DataFrame


class Staleness(Trained[_Tables]):
    """Three losses over staleness, by how far an iteration moves the policy."""

    kind = "paper/staleness"
    summary = "Which loss can learn from stale data?"
    source = "Fig. 1, 7 to 9"
    claims = (H1, H2, H3)
    full_seeds = 4  # the paper's

    @property
    def waits(self) -> dict[str, tuple[int, ...]]:
        return WAITS[self.size]

    @property
    def judged_on(self) -> str:
        """The regime with as many iterations as the paper's."""
        return PAPERS if self.size == "full" else MANY

    def base(self, environment: str, regime: str) -> Config:
        """Fresh data in this regime; a run that is longer than its base takes steps as much smaller."""
        if regime == PAPERS:
            return suite.clipped(environment, self.size)
        config = suite.clipped(environment, "quick")
        slower = config.replace(
            total_timesteps=STEPS, learning_rate=config.learning_rate * config.total_timesteps / STEPS
        )
        config = rescale(slower, num_envs=LARGER if regime == FEW else SMALLER).config
        if regime == ONCE:
            return config.replace(update_epochs=1, learning_rate=suite.PPO_RATE_FACTOR * config.learning_rate)
        return config

    def cells(self) -> list[Cell]:
        environments = QUICK_ENVIRONMENTS if self.size == "quick" else suite.environments(self.size)
        return [
            Cell(e, {"regime": regime, "loss": loss, "staleness": k}, stale(self.base(e, regime), k, loss))
            for e in environments
            for regime, waits in self.waits.items()
            for k in waits
            for loss in LOSSES
        ]

    def also(self, outcome: Outcome) -> Mapping[str, float | None]:
        """How far the policy was from the data, and how much of the data still counted."""
        assert isinstance(outcome.job, Train)
        config = outcome.job.config
        return {"iterations": config.iterations, "epochs": config.update_epochs} | typical_metric(outcome, *WATCHED)

    def measure(self, outcomes: Outcomes) -> _Tables:
        scores = self.scores(outcomes)
        return _Tables(scores.finals, _changes(scores.finals), _distances(scores.finals), scores.curves)

    # What follows --------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        groups = Groups(tables.finals, "regime", "loss", "staleness")
        verdicts = [self._recent(groups), self._decoupled(groups), self._behavior(groups)]
        return explained(verdicts, f"{_why(tables.change, tables.distance)} {self.differs}")

    def _small(self, regime: str) -> list[int]:
        return [k for k in self.waits[regime] if 0 < k <= SMALL]

    def _recent(self, groups: Groups) -> Verdict:
        def fresh_minus_stale(regime: str) -> list[EffectEstimate]:
            small = self._small(regime)
            stale = [(-1 / len(small), (regime, RECENT, k)) for k in small]
            return effects(groups, [(1.0, (regime, RECENT, 0)), *stale]) if small else []

        sentence = f"Fresh − small staleness: {self._by_regime(fresh_minus_stale)}."
        measured = "fresh − stale under the recent loss, normalized"
        return judge(H1, measured, fresh_minus_stale(self.judged_on), sentence, least=CLOSE)

    def _decoupled(self, groups: Groups) -> Verdict:
        def stale_minus_fresh(regime: str) -> list[EffectEstimate]:
            longest = max(k for k in self.waits[regime] if k <= FAR)
            return effects(groups, minus((regime, DECOUPLED, longest), (regime, DECOUPLED, 0)))

        sentence = f"{FAR} iterations stale − fresh: {self._by_regime(stale_minus_fresh)}."
        measured = "stale − fresh under the decoupled loss, normalized"
        return judge(H2, measured, stale_minus_fresh(self.judged_on), sentence, least=-CLOSE)

    def _behavior(self, groups: Groups) -> Verdict:
        def early(regime: str) -> list[EffectEstimate]:
            small = self._small(regime)
            pairs = [(w / len(small), (regime, loss, k)) for k in small for w, loss in ((1, DECOUPLED), (-1, BEHAVIOR))]
            return effects(groups, pairs, ", small staleness") if small else []

        def late(regime: str) -> list[EffectEstimate]:
            longest = max(self.waits[regime])
            pair = minus((regime, BEHAVIOR, longest), (regime, DECOUPLED, longest))
            return effects(groups, pair, f", staleness {longest}") if longest > FAR else []

        sentence = (
            f"Decoupled − behavior at small staleness: {self._by_regime(early)}; behavior − decoupled beyond {FAR}: "
            f"{self._by_regime(late)}."
        )
        parts = [early(self.judged_on), late(self.judged_on)]
        return judge_all(H3, "the better loss − the other, as claimed, normalized", parts, sentence)

    def _by_regime(self, effects_in: Callable[[str], list[EffectEstimate]]) -> str:
        """Of every regime what all environments say, or the only one."""
        by_regime = {regime: effects_in(regime) for regime in self.waits}
        return "; ".join(f"{regime} {evidence[0].effect}" for regime, evidence in by_regime.items() if evidence)

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        words = {v.claim.id: v.word for v in verdicts}
        return (
            f"Stale data: weights by the recent policy are unstable: {words['H1']}; the decoupled loss loses little "
            f"up to {FAR} iterations: {words['H2']}; keeping near the behavior policy slows learning early, stabilizes "
            f"late: {words['H3']}. {_by_distance(tables.distance)}"
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        finals, change = tables.finals, tables.change

        def over(frame: pl.DataFrame, y_title: str, title: str, note: str) -> Chart:
            return paper_figures.over(frame, "staleness", "staleness, iterations", y_title, title, note, LOSSES)

        figures = {
            "final_by_staleness": Figure(
                over(
                    mean_scores(finals, "loss", "staleness", "regime"),
                    "score (normalized return)",
                    "The cost of stale data, by loss",
                    "Mean over environments; bars: 95% intervals over seeds.",
                ),
                "Figure 1. In the paper recent falls first, behavior falls a little at once, "
                "decoupled stays level up to about 8. Compare the panels: the same staleness is a longer way where "
                "iterations are few and each moves the policy further.",
            ),
            "distance": Figure(
                paper_figures.against_distance(tables.distance, list(WEIGHTED), list(self.waits), (NEAR, AWAY)),
                "Each point is an environment in one regime at one staleness. If staleness cost anything by itself, "
                "points of one distance would lie apart by regime; if distance is what costs, they lie on one curve.",
            ),
            "effective_samples": Figure(
                over(
                    _diagnostic(change, "importance_ess"),
                    "effective share of samples",
                    "Effective share of stale data under importance weights",
                    "(Σw)² / Σw² over samples; median over training, mean over environments.",
                ),
                "Where this falls the decoupled and behavior losses learn from few samples with large weights. Under "
                "the recent loss the weights are those of the policy just before, so they hide how old the data is.",
            ),
            "change": Figure(
                over(
                    _diagnostic(change, "approx_kl"),
                    "KL to the policy in the weights, nats",
                    "How far the policy is from its data",
                    "Median over training, mean over environments; at staleness 0, what one iteration changes.",
                ),
                "The size of an iteration's change, and how it adds up over the iterations that data waits.",
            ),
            "clip_fraction": Figure(
                over(
                    _diagnostic(change, "clip_fraction"),
                    "ratios clipped",
                    "How often the proximal policy clips the ratio",
                    "Share of samples outside the clip range; median over training, mean over environments.",
                ),
                "Under the behavior loss the range lies around an old policy, so more samples are outside from the "
                "start, which slows learning.",
            ),
        }
        if finals["environment"].n_unique() > 1:
            for regime in self.waits:
                figures[f"by_environment_{list(self.waits).index(regime)}"] = Figure(
                    over(
                        mean_scores(finals.filter(regime=regime), "loss", "staleness", "environment"),
                        "score (normalized return)",
                        f"Environment by environment: {regime}",
                        "Bars: 95% intervals over seeds.",
                    ),
                    "Figures 7 to 9.",
                )
        return figures

    def notes(self) -> list[str]:
        remarks = [
            "PPO with the clipped objective, 3 epochs of 8 minibatches, the ratio to the behavior policy capped at "
            "100, as in the paper. The iterations that fill the queue count as steps.",
            "Values and advantages of stale data are those of the moment it was collected; in the paper's code only "
            "the values are, and advantages are computed at use.",
        ]
        if self.size == "full":
            return remarks
        return [
            *remarks,
            SCORE,
            BROKEN,
            DIFFERENT,
            SETTINGS,
            f"Every run has {STEPS:,} steps: {FEW} of {LARGER} environments or 1,536 of {SMALLER}, rescaled. Step "
            "sizes are those of the suite's shorter runs, smaller by as much as the run is longer; with one epoch in "
            f"place of three, {suite.PPO_RATE_FACTOR} times as large.",
            "Claims are judged on 1,536 iterations. An earlier version judged them on 32 and 512 iterations too; that "
            "was changed after CartPole had shown what more iterations do, and before the other environments were run.",
        ]


def _changes(finals: pl.DataFrame) -> pl.DataFrame:
    """Diagnostics by environment, regime, loss and staleness, mean over seeds."""
    columns = [name for name in ("iterations", "epochs", *WATCHED) if name in finals.columns]
    return finals.group_by(KEYS, maintain_order=True).agg(*(pl.col(name).mean() for name in columns))


def _distances(finals: pl.DataFrame) -> pl.DataFrame:
    """How far the policy was from stale data (nats), and by how much the score is above that of fresh data."""
    means = finals.group_by(KEYS, maintain_order=True).agg(pl.col("score", "approx_kl").mean())
    fresh = means.filter(pl.col("staleness") == 0).select("environment", "regime", "loss", fresh="score")
    stale = means.filter((pl.col("staleness") > 0) & pl.col("loss").is_in(WEIGHTED))
    change = (pl.col("score") - pl.col("fresh")).alias("change")
    return stale.join(fresh, on=["environment", "regime", "loss"]).select(*KEYS, nats="approx_kl", change=change)


def _by_distance(distance: pl.DataFrame) -> str:
    """What the decoupled loss loses where its data are near and where they are far.

    Cases of one environment share its fresh runs: they are averaged first, and the interval is over environments.
    """
    mine = distance.filter(pl.col("loss") == DECOUPLED)
    parts = []
    for here, where in ((pl.col("nats") < NEAR, f"less than {NEAR:g}"), (pl.col("nats") > AWAY, f"more than {AWAY:g}")):
        cases = mine.filter(here)
        change = cases.group_by("environment", maintain_order=True).agg(pl.col("change").mean())["change"]
        if len(change) > 1:
            counted = f"{len(cases)} cases in {len(change)} environments"
            parts.append(
                f"{stats.mean_interval(change.to_list())} where the policy is {where} nats from its data ({counted})"
            )
    return f"Under the decoupled loss stale data change the score by {', by '.join(parts)}." if parts else ""


def _why(change: pl.DataFrame, distance: pl.DataFrame) -> str:
    """What the diagnostics say: how far iterations move the policy, and what distance costs."""
    words = []
    for regime in dict.fromkeys(change["regime"]):
        rows = change.filter(regime=regime, loss=DECOUPLED)
        last = max(rows["staleness"])
        moved, away = (mean_of(rows, "approx_kl", staleness=k) or math.nan for k in (min(rows["staleness"]), last))
        kept = mean_of(rows, "importance_ess", staleness=last) or math.nan
        words.append(
            f"in {regime} one changes it by {moved:.2g} nats, and data {last} iterations old are {away:.2g} nats away "
            f"and keep an effective {kept:.0%}"
        )
    return f"How far iterations move the policy: {'; '.join(words)}. {_by_distance(distance)}"


def _diagnostic(change: pl.DataFrame, name: str) -> pl.DataFrame:
    """One diagnostic by loss and staleness: mean over environments, and the lowest and highest of them."""
    return spread(change.rename({"regime": "panel", "loss": "series"}), "panel", "series", "staleness", column=name)
