"""What studies of learning share: areas under learning curves, and differences between groups of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.run_scores import course
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes


def areas_of(runs: Iterable[Train], outcomes: Outcomes) -> list[dict[str, Any]]:
    """Seed, area under the learning curve and final return of every run in which an episode ended."""
    rows = []
    for run in runs:
        outcome = outcomes[run.identity]
        curve = course(outcome)
        if curve is not None:
            final = outcome.result["ep_rew_mean"] if outcome.done else float(curve.value[-1])
            rows.append({"seed": run.config.seed, "area": curve.area, "final": final})
    return rows


def contrast(inside: Sequence[Sequence[float]], outside: Sequence[Sequence[float]]) -> Estimate:
    """Mean of the groups' means inside minus outside, with Welch's interval; groups are seeds of one setting."""
    if not all(map(len, [*inside, *outside])) or not inside or not outside:
        return UNRESOLVED
    weights = [1 / len(inside)] * len(inside) + [-1 / len(outside)] * len(outside)
    return stats.contrast([*inside, *outside], weights)
