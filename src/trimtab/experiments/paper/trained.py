"""What the paper's studies that train have in common: cells of runs, their scores, and contrasts of them.

A cell is one configuration of one environment under a few labels (what varies in the study); each is trained on every
seed. Two tables follow: `finals`, a row per run, and `curves`, a row per run and bin of steps.

The score of a run is its final normalized return at full size, as in the paper. The small environments are learned to
their ceiling, where nothing can differ any more; there it is the mean normalized return over training, the area under
the learning curve, which tells a run that learns later or less steadily from one that does not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.claims import EffectEstimate
from trimtab.experiments.measures import number
from trimtab.experiments.paper import suite
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.experiments.trained_runs import course
from trimtab.math import stats
from trimtab.studies.job import Train
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


@dataclass(frozen=True)
class ScoreTables(Tables):
    """A row for every run, and a row for every run and bin of steps."""

    finals: pl.DataFrame
    curves: pl.DataFrame


T = TypeVar("T", bound=Tables)


class Trained(SourceStudy[T]):
    """A study of scores: subclasses name the cells."""

    full_seeds = suite.SEEDS

    @property
    def differs(self) -> str:
        return SAME_SCALE if self.size == "full" else DIFFERENT

    @abstractmethod
    def cells(self) -> list[Cell]:
        """What is trained, grouped by environment."""

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + (self.full_seeds if self.size == "full" else suite.SEEDS))

    def runs(self) -> list[tuple[Cell, int, Train]]:
        """Every run, environment by environment and seed by seed: programs of one seed serve the next ones."""
        cells = self.cells()
        return [
            (cell, seed, Train(cell.config.replace(seed=seed), checkpoints=1))
            for environment in dict.fromkeys(cell.environment for cell in cells)
            for seed in self.seeds
            for cell in cells
            if cell.environment == environment
        ]

    def jobs(self) -> list[Train]:
        return list({job.identity: job for _, _, job in self.runs()}.values())

    def scores(self, outcomes: Outcomes) -> ScoreTables:
        """The score of every run with a learning curve, and the curves."""
        finals, curves = [], []
        for cell, seed, job in self.runs():
            outcome = outcomes[job.identity]
            curve = course(outcome)
            if curve is None:
                continue
            about = {"environment": cell.environment, **cell.labels, "seed": seed}
            scale = suite.normalizer(cell.environment)
            final, area = curve.final(suite.final_share(self.size)), curve.area
            assert final is not None and area is not None  # the curve has data
            score = scale(final if self.size == "full" else area)
            scores = {"final": final, "area": area, "final_normalized": scale(final), "score": score}
            finals.append(about | scores | dict(self.also(outcome) if outcome.done else {}))
            steps = zip(curve.step, curve.value)
            curves += [about | {"step": round(s), "return": v, "normalized": scale(v)} for s, v in steps]
        return ScoreTables(pl.DataFrame(finals, infer_schema_length=None), pl.DataFrame(curves))

    def also(self, outcome: Outcome) -> Mapping[str, float | None]:
        """More columns of a run, beside its score."""
        return {}


def typical_metric(outcome: Outcome, *names: str) -> dict[str, float]:
    """Medians over training of what its iterations recorded: a policy that breaks makes any mean."""
    metrics = Run(outcome.path).metrics
    values = {name: metrics[f"train/{name}"].drop_nulls() for name in names if f"train/{name}" in metrics.columns}
    return {name: number(v.drop_nans().median()) or 0.0 for name, v in values.items() if len(v)}


# Groups of seeds and contrasts of them ---------------------------------------------------------------------

Key = tuple[Any, ...]  # labels of a group
Weighted = Sequence[tuple[float, Key]]  # weights, each with the labels of a group


class Groups:
    """Scores by environment and labels: `groups(environment, labels...)` is a list over seeds."""

    def __init__(self, finals: pl.DataFrame, *labels: str, value: str = "score"):
        self.environments = list(dict.fromkeys(finals["environment"]))
        self._values: dict[Key, dict[int, float]] = {}
        rows = finals.sort("seed").drop_nulls(value).select("environment", *labels, "seed", value)
        for *key, seed, score in rows.iter_rows():
            self._values.setdefault(tuple(key), {})[seed] = score

    def __call__(self, environment: str, *labels: Any) -> list[float]:
        return list(self.by_seed(environment, *labels).values())

    def by_seed(self, environment: str, *labels: Any) -> dict[int, float]:
        """The same by seed: a seed whose run failed is missing."""
        return self._values.get((environment, *labels), {})

    def with_all(self, *label_sets: Key) -> list[str]:
        """Environments that have runs under every one of these labels."""
        return [e for e in self.environments if all(self(e, *labels) for labels in label_sets)]

    def fewest(self, environments: Sequence[str], weighted: Weighted) -> int:
        """Seeds of the smallest group."""
        return min((len(self(e, *labels)) for e in environments for _, labels in weighted), default=0)


def minus(above: Key, below: Key) -> Weighted:
    """The weights of one group minus another."""
    return [(1.0, above), (-1.0, below)]


def combination(groups: Groups, environments: Sequence[str], weighted: Weighted) -> Estimate:
    """Σ weight · mean of a group, averaged over environments, with Welch's interval."""
    lists = [groups(e, *labels) for e in environments for _, labels in weighted]
    weights = [weight / len(environments) for _ in environments for weight, _ in weighted]
    return stats.contrast(lists, weights)


def effects(groups: Groups, weighted: Weighted, mark: str = "") -> list[EffectEstimate]:
    """A combination over all environments and in each of them; `mark` says more about it."""
    environments = groups.with_all(*(labels for _, labels in weighted))
    seeds = groups.fewest(environments, weighted)
    single = [EffectEstimate(f"{e}{mark}", combination(groups, [e], weighted), seeds) for e in environments]
    return [together(groups, weighted, mark), *single] if len(environments) > 1 else single


def together(groups: Groups, weighted: Weighted, mark: str = "") -> EffectEstimate:
    """A combination over all environments that have its groups."""
    environments = groups.with_all(*(labels for _, labels in weighted))
    effect = combination(groups, environments, weighted) if environments else UNRESOLVED
    return EffectEstimate(f"{ALL}{mark}", effect, groups.fewest(environments, weighted), pooled=True)


def by_environment(groups: Groups, weighted: Weighted, **about: str) -> pl.DataFrame:
    """A combination in each environment that has its groups: environment, what it is about, value, lo, hi."""
    environments = groups.with_all(*(labels for _, labels in weighted))
    gaps = [combination(groups, [e], weighted) for e in environments]
    rows = [(e, *about.values(), gap.value, gap.lo, gap.hi) for e, gap in zip(environments, gaps)]
    schema: dict[str, Any] = dict.fromkeys(("environment", *about), pl.String)
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(("value", "lo", "hi"), pl.Float64), orient="row")


def mean_scores(finals: pl.DataFrame, series: str, x: str, panel: str | None = None) -> pl.DataFrame:
    """The mean score with its interval by series and x.

    Args:
        finals: a row for every run.
        series: the label whose values become series.
        x: the label over which they are drawn.
        panel: "environment" for a panel each; another label for means over environments in a panel each.

    Returns:
        The columns panel, series, x, value, lo and hi.
    """
    labels = [series, x] if panel in (None, "environment") else [str(panel), series, x]
    groups, rows = Groups(finals, *labels), []
    for key in finals.select(labels).unique(maintain_order=True).iter_rows():
        environments = groups.with_all(key)
        for chosen in [[e] for e in environments] if panel == "environment" else [environments]:
            mean = combination(groups, chosen, [(1.0, key)])
            name = chosen[0] if panel == "environment" else key[0]
            rows.append((name, *key[-2:], mean.value, mean.lo, mean.hi))
    table = pl.DataFrame(rows, schema=["panel", "series", x, "value", "lo", "hi"], orient="row")
    return table if panel else table.drop("panel")
