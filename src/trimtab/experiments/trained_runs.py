"""The runs that studies train, their learning curves, and differences between groups of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from trimtab.config import Config
from trimtab.core.errors import RunError
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes
from trimtab.training.learning_curve import LearningCurve
from trimtab.training.resource_estimates import checkpoint_iterations
from trimtab.training.run_dir import RunDir

BROKEN = (
    "A run whose numbers stop being finite counts with its curve until then, and with its initial return afterwards; "
    "runs that failed for other reasons are excluded and listed."
)


def base_config(env_id: str, split: tuple[int, int], steps: int, seed: int, **changes: Any) -> Config:
    """PPO with 4 epochs of 4 minibatches and a learning rate that falls linearly, as in CleanRL.

    Args:
        env_id: the environment.
        split: (N, T).
        steps: environment steps of the whole run.
        seed: its seed.
        changes: fields of the configuration that are different.

    Returns:
        The configuration.
    """
    common: dict[str, Any] = {"num_minibatches": 4, "update_epochs": 4, "anneal_lr": "linear"}
    sizes: dict[str, Any] = {"num_envs": split[0], "num_steps": split[1], "total_timesteps": steps, "seed": seed}
    return Config(env_id=env_id, **common | sizes | changes)


def small_ppo(env_id: str, split: tuple[int, int], steps: int, seed: int, **changes: Any) -> Config:
    """PPO on the environments that learn in minutes: Pendulum with normalization, the others with an entropy bonus."""
    scaled = env_id == "Pendulum-v1"
    own: dict[str, Any] = {"ent_coef": 0.0 if scaled else 0.01, "norm_obs": scaled, "norm_reward": scaled}
    return base_config(env_id, split, steps, seed, **{"learning_rate": 3e-4} | own | changes)


def step_at(config: Config, share: float, checkpoints: int) -> int:
    """The checkpoint nearest to a share of the run, in environment steps."""
    iterations = checkpoint_iterations(config.iterations, checkpoints)
    k = min(max(1, round(share * len(iterations))), len(iterations))
    return iterations[k - 1] * config.batch


# Learning curves -------------------------------------------------------------------------------------------


def course(outcome: Outcome) -> LearningCurve | None:
    """The curve of a training job; None where no return is known, or it failed for other reasons than its numbers.

    A run that stopped because its numbers were not finite any more has, from there on, the return it began with: left
    out, it would flatter whatever broke it.
    """
    try:
        run = RunDir.open(outcome.path)
        rows, curve = run.metrics(), run.learning_curve()
    except (OSError, RunError):
        return None
    if not rows or not curve.seen.any() or not (outcome.done or rows[-1].not_finite):
        return None
    if outcome.done:
        return curve
    assert isinstance(outcome.job, Train)
    stop = rows[-1].step
    return curve.broken_at(stop, max(stop, outcome.job.config.total_timesteps))


def areas_of(runs: Iterable[Train], outcomes: Outcomes, **labels: Any) -> pl.DataFrame:
    """Labels, seed, area under the learning curve and final return of every run in which an episode ended."""
    rows = []
    for run in runs:
        outcome = outcomes[run.identity]
        curve = course(outcome)
        if curve is not None:
            final = outcome.result["ep_rew_mean"] if outcome.done else float(curve.value[-1])
            rows.append((*labels.values(), run.config.seed, curve.area, final))
    return pl.DataFrame(rows, schema=[*labels, "seed", "area", "final"], orient="row") if rows else pl.DataFrame()


def contrast(inside: Sequence[Sequence[float]], outside: Sequence[Sequence[float]]) -> Estimate:
    """Mean of the groups' means inside minus outside, with Welch's interval; groups are seeds of one setting."""
    if not all(map(len, [*inside, *outside])) or not inside or not outside:
        return UNRESOLVED
    weights = [1 / len(inside)] * len(inside) + [-1 / len(outside)] * len(outside)
    return stats.contrast([*inside, *outside], weights)
