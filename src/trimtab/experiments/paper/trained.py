"""What the paper's studies that train have in common: cells of runs, their scores, and contrasts of them.

A cell is one configuration of one environment under a few labels (what varies in the study); each is trained on every
seed. Two tables follow: `finals`, a row per run, and `curves`, a row per run and bin of steps.

The score of a run is its final normalized return at full size, as in the paper. The small environments are learned to
their ceiling, where nothing can differ any more; there it is the mean normalized return over training, the area under
the learning curve, which tells a run that learns later or less steadily from one that does not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.claims import Claim, Evidence
from trimtab.experiments.paper import suite
from trimtab.experiments.run_scores import course
from trimtab.experiments.source_study import Declared
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run

ALL = "all environments"
CLOSE = 0.1  # of the normalized range: differences within it are called small
SCORE = (
    "Score is the mean normalized return over training, the area under the learning curve: final returns of these "
    "environments are at their ceiling, where nothing can differ. Final returns are in the tables beside it, and at "
    "full size they are the score, as in the paper."
)
DIFFERENT = (
    "Here small networks learn compiled games for a few hundred thousand steps; in the paper IMPALA networks learn "
    "Procgen for 100 million, with 256 environments of 256 steps as the largest batch."
)
SETTINGS = (
    "Other settings than the paper's: γ 0.99 (there 0.999), networks of two layers of 64, policy and value apart also "
    "for PPO (there shared), step sizes found environment by environment; in PPG 8 policy iterations a phase (32) and "
    "3 auxiliary epochs (6) with a step size of 1e-3 (5e-4)."
)
SAME_SCALE = (
    "The scale is the paper's; the implementation is another one, and what the paper's tables leave open was inferred."
)


@dataclass(frozen=True)
class Cell:
    """A configuration of an environment, and the labels under which its runs are compared."""

    environment: str
    labels: Mapping[str, Any]
    config: Config


class Trained(Declared):
    """A study of scores: subclasses name the cells."""

    full_seeds: ClassVar[int] = suite.SEEDS

    @property
    def differs(self) -> str:
        return SAME_SCALE if self.size == "full" else DIFFERENT

    @abstractmethod
    def cells(self) -> list[Cell]:
        """What is trained, grouped by environment."""

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + (self.full_seeds if self.size == "full" else suite.SEEDS))

    def job(self, cell: Cell, seed: int) -> Train:
        return Train(cell.config.replace(seed=seed), checkpoints=1)

    def runs(self) -> list[tuple[Cell, int, Train]]:
        """Every run, environment by environment and seed by seed: programs of one seed serve the next ones."""
        cells = self.cells()
        environments = dict.fromkeys(cell.environment for cell in cells)
        return [
            (cell, seed, self.job(cell, seed))
            for environment in environments
            for seed in self.seeds
            for cell in cells
            if cell.environment == environment
        ]

    def jobs(self) -> list[Job]:
        return list({job.identity: job for _, _, job in self.runs()}.values())

    def finished(self, outcomes: Outcomes) -> list[tuple[Cell, int, Outcome]]:
        """The runs that came to an end; what failed is reported elsewhere."""
        runs = [(cell, seed, outcomes[job.identity]) for cell, seed, job in self.runs()]
        return [(cell, seed, outcome) for cell, seed, outcome in runs if outcome.done]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        finals, curves = [], []
        for cell, seed, job in self.runs():
            outcome = outcomes[job.identity]
            curve = course(outcome)
            if curve is None:
                continue
            about = {"environment": cell.environment, **cell.labels, "seed": seed}
            scale = suite.normalizer(cell.environment)
            final, area = curve.final(suite.final_share(self.size)), curve.area
            score = scale(final if self.size == "full" else area)
            scores = {"final": final, "area": area, "final_normalized": scale(final), "score": score}
            finals.append(about | scores | (self.also(outcome) if outcome.done else {}))
            steps = zip(curve.step, curve.value)
            curves += [about | {"step": round(s), "return": v, "normalized": scale(v)} for s, v in steps]
        return {"finals": pl.DataFrame(finals, infer_schema_length=None), "curves": pl.DataFrame(curves)}

    def also(self, outcome: Outcome) -> dict[str, Any]:
        """More numbers of a run, beside its score."""
        return {}


def typical_metric(outcome: Outcome, *names: str) -> dict[str, float]:
    """Medians over training of what its iterations recorded: a policy that breaks makes any mean."""
    metrics = Run(outcome.path).metrics
    values = {name: metrics[f"train/{name}"].drop_nulls() for name in names if f"train/{name}" in metrics.columns}
    return {name: float(v.drop_nans().median() or 0.0) for name, v in values.items() if len(v)}


# Groups of seeds and contrasts of them ---------------------------------------------------------------------


class Groups:
    """Scores by environment and labels: `groups(environment, labels...)` is a list over seeds."""

    def __init__(self, finals: pl.DataFrame, *labels: str, value: str = "score"):
        self.environments = list(dict.fromkeys(finals["environment"]))
        self._values: dict[tuple, dict[int, float]] = {}
        for row in finals.sort("seed").iter_rows(named=True):
            key = (row["environment"], *(row[name] for name in labels))
            if row[value] is None:
                continue
            self._values.setdefault(key, {})[row["seed"]] = row[value]

    def __call__(self, environment: str, *labels: Any) -> list[float]:
        return list(self.by_seed(environment, *labels).values())

    def by_seed(self, environment: str, *labels: Any) -> dict[int, float]:
        """The same by seed: a seed whose run failed is missing."""
        return self._values.get((environment, *labels), {})

    def with_all(self, *label_sets: tuple) -> list[str]:
        """Environments that have runs under every one of these labels."""
        return [e for e in self.environments if all(self(e, *labels) for labels in label_sets)]


Weighted = Sequence[tuple[float, tuple]]  # weights, each with the labels of a group


def combination(groups: Groups, environments: Sequence[str], weighted: Weighted) -> Estimate:
    """Σ weight · mean of a group, averaged over environments, with Welch's interval."""
    lists = [groups(e, *labels) for e in environments for _, labels in weighted]
    weights = [weight / len(environments) for _ in environments for weight, _ in weighted]
    return stats.contrast(lists, weights)


def effects(groups: Groups, weighted: Weighted, mark: str = "") -> list[Evidence]:
    """A combination over all environments and in each of them; `mark` says more about it."""
    environments = groups.with_all(*(labels for _, labels in weighted))
    if not environments:
        return []
    seeds = min(len(groups(e, *labels)) for e in environments for _, labels in weighted)
    evidence = [Evidence(f"{e}{mark}", combination(groups, [e], weighted), seeds) for e in environments]
    if len(environments) > 1:
        evidence.insert(0, Evidence(f"{ALL}{mark}", combination(groups, environments, weighted), seeds, pooled=True))
    return evidence


def together(groups: Groups, weighted: Weighted, mark: str = "") -> Evidence:
    """A combination over all environments that have its groups."""
    environments = groups.with_all(*(labels for _, labels in weighted))
    seeds = min((len(groups(e, *labels)) for e in environments for _, labels in weighted), default=0)
    effect = combination(groups, environments, weighted) if environments else UNRESOLVED
    return Evidence(f"{ALL}{mark}", effect, seeds, pooled=True)


def by_id(claims: Sequence[Claim]) -> Callable[[str], Claim]:
    return {claim.id: claim for claim in claims}.__getitem__
