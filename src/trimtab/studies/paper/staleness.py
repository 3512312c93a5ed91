"""`paper/staleness`: PPO on data that has waited, under three losses, where iterations move the policy much or little.

Staleness is counted in iterations, so what it does depends on how far the policy moves in one. The paper's runs have
1,500 iterations; short runs with large batches have far fewer, and each must move further. What makes the difference is
varied: `large` takes batches of 64 environments, `little` of 4, rescaled by the paper's rules, so that it learns as
much from as many steps in sixteen times as many iterations, and `least` in addition one epoch and half the step size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.playbook.rescale import rescale
from trimtab.studies.claims import Claim, Evidence, Verdict, explained
from trimtab.studies.declared import Figure, Size
from trimtab.studies.paper import suite
from trimtab.studies.paper.trained import (
    CLOSE,
    DIFFERENT,
    SCORE,
    Cell,
    Groups,
    Trained,
    by_id,
    combination,
    effects,
    judged,
    typical_metric,
)
from trimtab.studies.store import Outcome
from trimtab.studies.study import Outcomes

DECOUPLED, BEHAVIOR, RECENT = "decoupled", "behavior", "recent"
LOSSES = (DECOUPLED, BEHAVIOR, RECENT)
LARGE, LITTLE, LEAST = (f"{word} change per iteration" for word in ("large", "little", "least"))
PAPERS = "the paper's iterations"
LARGEST, SMALLER = 64, 4  # environments of large, and of little and least
WAITS: dict[Size, dict[str, tuple[int, ...]]] = {
    "quick": {LEAST: (0, 2, 8, 16), LITTLE: (0, 2, 8), LARGE: (0, 2, 8)},
    "default": {LEAST: (0, 1, 2, 4, 8, 16), LITTLE: (0, 2, 8), LARGE: (0, 2, 8)},
    "full": {PAPERS: (0, 1, 2, 4, 8, 16)},
}
QUICK_ENVIRONMENTS = ("CartPole-v1",)
SMALL = 2  # iterations up to which staleness is small
FAR = 8  # iterations up to which the paper sees little loss
WATCHED = ("approx_kl", "importance_ess", "clip_fraction", "zero_gradient_fraction", "ratio_cap_fraction")

CLAIMS = (
    Claim(
        "H1",
        "with the recent policy in the importance weights even small staleness makes training unstable",
        "Fig. 1a, 7",
        f"under that loss the score at a staleness of 1 to {SMALL} iterations is below that of fresh "
        f"data by more than {CLOSE}, beyond the interval, in every environment where that is resolved",
    ),
    Claim(
        "H2",
        f"the decoupled objective degrades little up to about {FAR} iterations",
        "Fig. 1b, 8",
        f"under the decoupled loss the score at the longest staleness of at most {FAR} iterations is "
        f"within {CLOSE} of that of fresh data, or above it, beyond the interval",
    ),
    Claim(
        "H3",
        "the behavior policy as proximal policy holds learning back at small staleness and is more stable at large",
        "Fig. 1c, 9",
        f"the decoupled loss ends above the behavior loss at a staleness of 1 to {SMALL}, and below it at the largest "
        f"beyond {FAR}, each beyond the interval",
    ),
)


def stale(base: Config, staleness: int, loss: str) -> Config:
    """The same on data that waits; on fresh data all three losses are one."""
    return base.replace(staleness=staleness, staleness_loss=loss) if staleness else base


@dataclass(frozen=True)
class Staleness(Trained):
    """Three losses over staleness, by how far an iteration moves the policy."""

    kind: ClassVar[str] = "paper/staleness"
    summary: ClassVar[str] = "Which loss can learn from stale data?"
    source: ClassVar[str] = "Fig. 1, 7 to 9"
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS

    @property
    def seeds(self) -> range:
        """The paper's 4 at full size."""
        return range(self.seed, self.seed + (4 if self.size == "full" else suite.num_seeds(self.size)))

    @property
    def waits(self) -> dict[str, tuple[int, ...]]:
        return WAITS[self.size]

    def base(self, environment: str, regime: str) -> Config:
        if regime == PAPERS:
            return suite.clipped(environment, self.size)
        config = suite.clipped(environment, "quick")  # the shorter runs: there are many programs to compile
        config = rescale(config, num_envs=LARGEST if regime == LARGE else SMALLER).config
        return config.replace(update_epochs=1, learning_rate=config.learning_rate / 2) if regime == LEAST else config

    def cells(self) -> list[Cell]:
        environments = QUICK_ENVIRONMENTS if self.size == "quick" else suite.environments(self.size)
        return [
            Cell(
                e,
                {"regime": regime, "loss": loss, "staleness": k},
                stale(self.base(e, regime), k, loss),
            )
            for e in environments
            for regime, waits in self.waits.items()
            for k in waits
            for loss in LOSSES
        ]

    def also(self, outcome: Outcome) -> dict[str, Any]:
        """How far the policy was from the data, and how much of the data still counted."""
        config = outcome.job.config  # type: ignore[attr-defined]
        return {"iterations": config.iterations, "epochs": config.update_epochs} | typical_metric(outcome, *WATCHED)

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        tables = super().measure(outcomes)
        finals = tables["finals"]
        return {"finals": finals, "change": changes(finals), "curves": tables["curves"]}

    # What follows --------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        groups, claim = Groups(tables["finals"], "regime", "loss", "staleness"), by_id(self.claims)
        verdicts = [
            self._recent(claim("H1"), groups),
            self._decoupled(claim("H2"), groups),
            self._behavior(claim("H3"), groups),
        ]
        return explained(verdicts, f"{self._why(tables['change'])} {self.differs}")

    def _small(self, regime: str) -> list[int]:
        return [k for k in self.waits[regime] if 0 < k <= SMALL]

    def _recent(self, claim: Claim, groups: Groups) -> Verdict:
        evidence: list[Evidence] = []
        for regime in self.waits:
            small = self._small(regime)
            wanted = [(1.0, (regime, RECENT, 0)), *((-1 / len(small), (regime, RECENT, k)) for k in small)]
            evidence += effects(groups, wanted, f", {regime}")
        said = f"Fresh − small staleness, by how far iterations move the policy: {_words(evidence)}."
        return judged(claim, "fresh − stale under the recent loss, normalized", evidence, said, least=CLOSE)

    def _decoupled(self, claim: Claim, groups: Groups) -> Verdict:
        evidence: list[Evidence] = []
        for regime, waits in self.waits.items():
            longest = max(k for k in waits if k <= FAR)
            wanted = [(1.0, (regime, DECOUPLED, longest)), (-1.0, (regime, DECOUPLED, 0))]
            evidence += effects(groups, wanted, f", {regime}, {longest}")
        said = f"Stale − fresh: {_words(evidence)}."
        return judged(claim, "stale − fresh under the decoupled loss, normalized", evidence, said, least=-CLOSE)

    def _behavior(self, claim: Claim, groups: Groups) -> Verdict:
        evidence: list[Evidence] = []
        for regime, waits in self.waits.items():
            small, longest = self._small(regime), max(waits)
            early = [(w / len(small), (regime, loss, k)) for k in small for w, loss in ((1, DECOUPLED), (-1, BEHAVIOR))]
            evidence += effects(groups, early, f", {regime}, small staleness")
            if longest > FAR:
                late = [(1.0, (regime, BEHAVIOR, longest)), (-1.0, (regime, DECOUPLED, longest))]
                evidence += effects(groups, late, f", {regime}, {longest}")
        said = f"Decoupled − behavior where small, behavior − decoupled where largest: {_words(evidence)}."
        return judged(claim, "the better loss − the other, as claimed, normalized", evidence, said)

    def _why(self, change: pl.DataFrame) -> str:
        """What the diagnostics say of the regimes."""
        words = []
        for regime, waits in self.waits.items():
            rows = change.filter(pl.col("regime") == regime)
            fresh = rows.filter(pl.col("staleness") == 0)["approx_kl"].mean()
            last = rows.filter((pl.col("staleness") == max(waits)) & (pl.col("loss") == DECOUPLED))
            words.append(
                f"with {regime} ({fresh:.2g} nats to the policy that acted, {rows['iterations'].max():,.0f} "
                f"iterations) data {max(waits)} iterations old keep an effective {last['importance_ess'].mean():.0%} "
                "under the decoupled loss"
            )
        return f"How far iterations move the policy: {'; '.join(words)}."

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        words = {v.claim.id: v.word for v in verdicts}
        return (
            f"Stale data: weights by the recent policy are unstable: {words['H1']}; the decoupled loss loses little "
            f"up to {FAR} iterations: {words['H2']}; keeping near the behavior policy holds back early and steadies "
            f"late: {words['H3']}."
        )

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.report.studies import paper

        finals, change = tables["finals"], tables["change"]
        over = lambda frame, y, title, note: paper.over(
            frame, "staleness", "staleness, iterations", y, title, note, list(LOSSES)
        )
        found = {
            "final_by_staleness": Figure(
                over(
                    summary(finals),
                    "score (normalized return)",
                    "What waiting costs, by loss",
                    "Mean over environments; bars: 95% intervals over seeds.",
                ),
                "Figure 1. In the paper recent falls first, behavior falls a little at once, "
                "decoupled stays level up to about 8. Compare the panels: the same steps of staleness are a longer way "
                "where iterations move the policy further.",
            ),
            "effective_samples": Figure(
                over(
                    diagnostic(change, "importance_ess"),
                    "effective share of samples",
                    "What is left of stale data under importance weights",
                    "(Σw)² / Σw² over samples; median over training, mean over environments.",
                ),
                "Where this falls the decoupled and behavior losses learn from few samples with large weights. Under "
                "the recent loss the weights are those of the policy just before, so they hide how old the data is.",
            ),
            "change": Figure(
                over(
                    diagnostic(change, "approx_kl"),
                    "KL to the policy in the weights, nats",
                    "How far the policy is from its data",
                    "Median over training, mean over environments; at staleness 0, what one iteration changes.",
                ),
                "The size of an iteration's change, and how it adds up over the iterations that data waits.",
            ),
            "clip_fraction": Figure(
                over(
                    diagnostic(change, "clip_fraction"),
                    "ratios clipped",
                    "How much the proximal policy holds back",
                    "Share of samples outside the clip range; median over training, mean over environments.",
                ),
                "Under the behavior loss the range lies around an old policy, so more samples are outside from the "
                "start: that is what holds learning back.",
            ),
        }
        if finals["environment"].n_unique() > 1:
            for regime in self.waits:
                found[f"by_environment_{list(self.waits).index(regime)}"] = Figure(
                    over(
                        summary(finals.filter(pl.col("regime") == regime), "environment"),
                        "score (normalized return)",
                        f"Environment by environment: {regime}",
                        "Bars: 95% intervals over seeds.",
                    ),
                    "Figures 7 to 9.",
                )
        return found

    def notes(self) -> list[str]:
        found = [
            "PPO with the clipped objective, 3 epochs of 8 minibatches, the ratio to the behavior policy capped at "
            "100, as in the paper. The iterations that fill the queue count as steps.",
            "Values and advantages of stale data are those of the moment it was collected; in the paper's code only "
            "the values are, and advantages are computed at use.",
        ]
        if self.size == "full":
            return found
        return [
            *found,
            SCORE,
            DIFFERENT,
            f"{LARGE}: {LARGEST} environments; {LITTLE}: {SMALLER}, rescaled; {LEAST}: {SMALLER}, one epoch, half the "
            "step size. The paper: 256 environments, three epochs.",
        ]


def changes(finals: pl.DataFrame) -> pl.DataFrame:
    """Diagnostics by environment, regime, loss and staleness, mean over seeds."""
    columns = [name for name in ("iterations", "epochs", *WATCHED) if name in finals.columns]
    keys = ["environment", "regime", "loss", "staleness"]
    return finals.group_by(keys, maintain_order=True).agg(*(pl.col(name).mean() for name in columns))


def summary(finals: pl.DataFrame, panel: str = "regime") -> pl.DataFrame:
    """Mean score with its interval by loss, staleness and panel."""
    groups, rows = Groups(finals, "regime", "loss", "staleness"), []
    for regime, loss, k in finals.select("regime", "loss", "staleness").unique(maintain_order=True).rows():
        environments = groups.with_all((regime, loss, k))
        for name in [regime] if panel == "regime" else environments:
            chosen = environments if panel == "regime" else [name]
            found = combination(groups, chosen, [(1.0, (regime, loss, k))])
            row = {"panel": name, "series": loss, "staleness": k}
            rows.append(row | {"value": found.value, "lo": found.lo, "hi": found.hi})
    return pl.DataFrame(rows)


def diagnostic(change: pl.DataFrame, name: str) -> pl.DataFrame:
    """One diagnostic by loss and staleness: mean over environments, and the lowest and highest of them."""
    value = pl.col(name)
    found = change.group_by("regime", "loss", "staleness", maintain_order=True).agg(
        value.mean().alias("value"), value.min().alias("lo"), value.max().alias("hi")
    )
    return found.rename({"regime": "panel", "loss": "series"})


def _words(evidence: list[Evidence]) -> str:
    """The first row of every group of evidence: what all environments say, or the only one."""
    firsts: dict[str, Evidence] = {}
    for e in evidence:
        firsts.setdefault(e.environment.partition(", ")[2], e)
    return "; ".join(f"{mark}: {e.effect}" for mark, e in firsts.items())
