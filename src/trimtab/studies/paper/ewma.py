"""`paper/ewma`: PPO and PPG against their EWMA variants, in return, in counted passes and in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from trimtab import stats
from trimtab.config import Config
from trimtab.estimate import Estimate
from trimtab.studies.claims import Claim, Evidence, Verdict, judge_all
from trimtab.studies.courses import BROKEN
from trimtab.studies.declared import Figure
from trimtab.studies.paper import suite
from trimtab.studies.paper.published import reference
from trimtab.studies.paper.trained import DIFFERENT, SCORE, SETTINGS, Cell, Groups, Trained, by_id, effects
from trimtab.studies.store import Outcome
from trimtab.studies.study import Outcomes

PPO, PPO_EWMA, PPG, PPG_EWMA = "PPO", "PPO-EWMA", "PPG", "PPG-EWMA"
PAIRS = ((PPO_EWMA, PPO), (PPG_EWMA, PPG))
PAPER_COST = {PPO: 0.30, PPG: 0.023}
BACKWARD = 3  # cost of a forward-backward pass in forward passes (the paper, footnote 2)

CLAIMS = (
    Claim(
        "H10",
        "the EWMA variants beat PPO and PPG a little but consistently",
        "Fig. 4, 17: on all of the last 8 games",
        "for both pairs the difference in score is above 0 beyond its interval over all "
        "environments, and below 0 beyond it in none",
    ),
    Claim(
        "H11",
        "the EWMA costs 30% of PPO's compute and 2.3% of PPG's",
        "section 5.3, footnote 2",
        "passes counted as in the paper's footnote, for the paper's hyperparameters, come to 30% and 2.3% within half "
        "a percentage point",
    ),
)


def passes(config: Config) -> float:
    """Forward passes of one network per environment step, a backward pass counting as two; without the EWMA's own.

    PPO: 1 to act and 3 for each epoch. PPG: the same for both networks, and E_aux auxiliary epochs more of both.
    """
    if config.is_ppg:
        return 2 * (1 + BACKWARD * (config.update_epochs + config.aux_epochs))
    return 1 + BACKWARD * config.update_epochs


def extra_passes(config: Config) -> float:
    """Forward passes that an EWMA adds: its policy is evaluated at every policy gradient step."""
    return float(config.update_epochs)


def overhead(config: Config) -> float:
    """Cost of the EWMA as a share of the compute without it."""
    return extra_passes(config) / passes(config)


@dataclass(frozen=True)
class Ewma(Trained):
    """All four algorithms at the largest batch."""

    kind: ClassVar[str] = "paper/ewma"
    summary: ClassVar[str] = "Do PPO-EWMA and PPG-EWMA beat PPO and PPG?"
    source: ClassVar[str] = "Fig. 4, 17, section 5.3"
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS

    @property
    def seeds(self) -> range:
        """The paper's 4 at full size."""
        return range(self.seed, self.seed + (4 if self.size == "full" else suite.num_seeds(self.size)))

    def cells(self) -> list[Cell]:
        made = {
            PPO: lambda e: suite.clipped(e, self.size),
            PPO_EWMA: lambda e: suite.clipped(e, self.size, ewma=True),
            PPG: lambda e: suite.phasic(e, self.size, ewma=False),
            PPG_EWMA: lambda e: suite.phasic(e, self.size),
        }
        return [
            Cell(e, {"algorithm": name}, config(e))
            for e in suite.environments(self.size)
            for name, config in made.items()
        ]

    def also(self, outcome: Outcome) -> dict[str, Any]:
        """Seconds of training, without compiling."""
        return {"fps": outcome.result["fps"]}

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        tables = super().measure(outcomes)
        curves = tables["curves"]
        if self.size == "full":
            curves = pl.concat([curves, *(reference(name, "algorithm") for name in (PPO, PPG))], how="diagonal")
        return {
            "finals": tables["finals"],
            "differences": _differences(tables["finals"]),
            "costs": self._costs(tables["finals"]),
            "curves": curves,
        }

    def _costs(self, finals: pl.DataFrame) -> pl.DataFrame:
        """What the EWMA costs: counted for the paper's hyperparameters and for these, and measured."""
        rows = []
        for better, base in PAIRS:
            here = suite.clipped if base == PPO else suite.phasic
            paper = here(suite.environments("full")[0], "full")
            mine = here(suite.environments(self.size)[0], self.size)
            time = _slowdown(Groups(finals, "algorithm", value="fps"), better, base)
            rows.append(
                {
                    "algorithm": base,
                    "claimed": PAPER_COST[base],
                    "counted_paper": overhead(paper),
                    "counted_here": overhead(mine),
                    "time": time.value,
                    "time_lo": time.lo,
                    "time_hi": time.hi,
                }
            )
        return pl.DataFrame(rows)

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        groups, claim = Groups(tables["finals"], "algorithm"), by_id(self.claims)
        parts: list[list[Evidence]] = []
        words = []
        for better, base in PAIRS:
            found = effects(groups, [(1.0, (better,)), (-1.0, (base,))], f", {better}")
            parts.append(found)
            if not found:
                continue
            strata = [(groups(e, better), groups(e, base)) for e in groups.with_all((better,), (base,))]
            chance = stats.probability_of_improvement(strata)
            words.append(f"{better} − {base}: {found[0].effect}, probability of improvement {chance}")
        gain = judge_all(claim("H10"), "EWMA − without, score", parts, f"{'; '.join(words)}.")
        return [gain, self._cost(claim("H11"), tables["costs"])]

    def _cost(self, claim: Claim, costs: pl.DataFrame) -> Verdict:
        evidence, words = [], []
        for row in costs.iter_rows(named=True):
            near = 0.005 - abs(row["counted_paper"] - row["claimed"])
            evidence.append(Evidence(row["algorithm"], Estimate(near, near, near), 1))
            measured = Estimate(row["time"], row["time_lo"], row["time_hi"])
            words.append(
                f"{row['algorithm']}: {row['counted_paper']:.1%} counted for the paper's hyperparameters, "
                f"{row['counted_here']:.1%} for those here, and training took {_percent(measured)} more time"
            )
        said = f"{'; '.join(words)}."
        return judge_all(claim, "half a percentage point − |counted − claimed|", [[e] for e in evidence], said)

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        gain, cost = verdicts
        return (
            f"That the EWMA variants are better: {gain.word}. That the EWMA costs what the paper counts: {cost.word}."
        )

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.report.studies import paper

        order = list(dict.fromkeys(tables["curves"]["algorithm"]))
        return {
            "differences": Figure(
                paper.by_environment(tables["differences"], "EWMA − without, score", "pair"),
                "Figure 4, right: points right of 0 are environments in which the EWMA helps.",
            ),
            "curves": Figure(
                paper.mean_curves(tables["curves"], "algorithm", order, "All four algorithms"),
                "Figure 4, left: an EWMA variant should lie a little above the one without, all the way.",
            ),
            "by_environment": Figure(
                paper.curves_by_environment(
                    tables["curves"], "algorithm", order, "All four, environment by environment"
                ),
                "Figure 17.",
            ),
        }

    def notes(self) -> list[str]:
        found = [
            "PPO clips its ratio and takes 3 epochs, PPG is KL-penalized and takes 1; the EWMA's centre of mass is 8 "
            "gradient steps for both and was not tuned here.",
            "Times are of training without compiling, with whatever else ran beside it.",
        ]
        return found if self.size == "full" else [*found, BROKEN, SCORE, DIFFERENT, SETTINGS]


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
    groups, rows = Groups(finals, "algorithm"), []
    for better, base in PAIRS:
        for environment in groups.with_all((better,), (base,)):
            gap = stats.contrast([groups(environment, better), groups(environment, base)], [1.0, -1.0])
            about = {"environment": environment, "pair": f"{better} − {base}"}
            rows.append(about | {"value": gap.value, "lo": gap.lo, "hi": gap.hi})
    return pl.DataFrame(rows)
