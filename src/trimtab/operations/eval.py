"""`trimtab eval`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.core.json_values import JsonMapping
from trimtab.core.options import Options
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import run_of
from trimtab.training.records import Evaluation
from trimtab.training.run import Run


@dataclass(frozen=True)
class Evaluate(Options):
    """What to evaluate."""

    run: Run | Place
    """Run directory; in Python also a Run."""
    episodes: int = option(10, low=1)
    """Episodes, one per environment."""
    _: KW_ONLY
    at: int | None = option(None, metavar="STEP")
    """Step of the checkpoint to evaluate (default: the last)."""
    seed: int | None = option(None, low=0)
    """Seed of the episodes (default: 1000000 + the run's seed)."""


@dataclass(frozen=True, eq=False)
class Evaluated(JsonMapping):
    """The returns of a checkpoint's episodes; `evaluated["eval/mean_reward"]`."""

    evaluation: Evaluation

    def as_dict(self) -> dict[str, Any]:
        """The step, and the returns by their metric names."""
        return {"step": self.evaluation.step, **self.evaluation.metrics()}


def _show(result: Evaluated, call: Call) -> None:
    if call.json:
        print_json({"run": call.given["run"], **result})
        return
    seen = result.evaluation
    print(
        f"{seen.episodes} episodes at step {seen.step:,}: mean {seen.mean_reward:.4g}, "
        f"median {seen.median_reward:.4g}, IQR {seen.iqr_low:.4g} to {seen.iqr_high:.4g}"
    )


@operation("eval", Evaluate, _show)
def evaluate(options: Evaluate) -> Evaluated:
    """Play one episode in each of several environments with exploration off, and summarize the returns.

    Returns:
        The step and the returns, by their metric names.
    """
    from trimtab.training.evaluation import evaluate_run

    return Evaluated(evaluate_run(run_of(options.run).path, options.episodes, options.at, options.seed))
