"""Logs of rsl_rl 2 to 5 (Isaac Lab, legged_gym): TensorBoard by iteration, and params/agent.yaml of Isaac Lab.

There is no clip fraction and no KL; the adaptive step size, which follows the KL, stands in for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trimtab.libraries.foreign_log import Details, Format, Sources
from trimtab.libraries.isaac_log import agent_in, plain_values
from trimtab.libraries.rsl_rl import LIBRARY

COLLECTING = ("Perf/collection_time", "Perf/collection time")
LEARNING = "Perf/learning_time"


def _details(sources: Sources) -> Details:
    values, batch = hyperparameters_in(sources.folder), _batch(sources)
    if "num_steps_per_env" in values and batch:
        values.setdefault("num_envs", max(1, round(batch / values["num_steps_per_env"])))
    return Details(values, batch, env_id=agent_in(sources.folder).get("experiment_name"))


def hyperparameters_in(folder: Path) -> dict[str, Any]:
    """What Isaac Lab writes down of a run's hyperparameters."""
    agent = agent_in(folder)
    return plain_values(LIBRARY, agent, *(agent.get(name) for name in ("algorithm", "policy", "actor")))


def _batch(sources: Sources) -> int | None:
    """Samples of an iteration: steps per second times the seconds it took."""
    collecting = next((sources.scalars[tag][1] for tag in COLLECTING if tag in sources.scalars), None)
    if collecting is None or LEARNING not in sources.scalars or "Perf/total_fps" not in sources.scalars:
        return None
    return round(float(np.median(sources.scalars["Perf/total_fps"][1] * (collecting + sources.scalars[LEARNING][1]))))


FORMAT = Format(
    library="rsl_rl",
    title="rsl_rl",
    marks=("Loss/surrogate", "Perf/total_fps", "Policy/mean_noise_std"),
    names={
        "Loss/value": "train/value_loss",
        "Loss/value_function": "train/value_loss",
        "Loss/surrogate": "train/policy_gradient_loss",
        "Loss/entropy": "train/entropy_loss",
        "Loss/learning_rate": "train/learning_rate",
        "Policy/mean_std": "train/std",
        "Policy/mean_noise_std": "train/std",
        "Perf/total_fps": "time/fps",
        "Train/mean_reward": "rollout/ep_rew_mean",
        "Train/mean_episode_length": "rollout/ep_len_mean",
    },
    details=_details,
    negated=frozenset({"Loss/entropy"}),
    axis="iterations",
)
