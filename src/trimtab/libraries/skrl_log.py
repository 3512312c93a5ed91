"""Logs of skrl 2: TensorBoard over calls of the vector environment, and params/agent.yaml of Isaac Lab.

There is no clip fraction and no KL; an adaptive step size, which follows the KL, stands in for them. What is recorded
as the losses of entropy and values has been multiplied by their coefficients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trimtab.libraries.foreign_log import Details, Format, Sources
from trimtab.libraries.isaac_log import agent_in, plain_values
from trimtab.libraries.skrl import LIBRARY

RATE = "Learning / Learning rate"


def hyperparameters_in(folder: Path) -> dict[str, Any]:
    """What Isaac Lab writes down of a run's hyperparameters."""
    agent = agent_in(folder)
    return plain_values(LIBRARY, agent, agent.get("agent"))


def _details(sources: Sources) -> Details:
    values, settings = hyperparameters_in(sources.folder), agent_in(sources.folder).get("agent") or {}
    rates = sources.scalars.get(RATE, (None, np.zeros(0)))[1]
    if len(rates) and "learning_rate_scheduler" not in values and (np.diff(rates) > 0).any():
        values["learning_rate_scheduler"] = "KLAdaptiveLR"
    return Details(values, env_id=(settings.get("experiment") or {}).get("directory"))


FORMAT = Format(
    library="skrl",
    title="skrl",
    marks=("Loss / Policy loss",),
    names={
        "Loss / Policy loss": "train/policy_gradient_loss",
        "Loss / Value loss": "train/value_loss",
        "Policy / Standard deviation": "train/std",
        RATE: "train/learning_rate",
        "Reward / Total reward (mean)": "rollout/ep_rew_mean",
        "Episode / Total timesteps (mean)": "rollout/ep_len_mean",
    },
    details=_details,
    axis="calls",
    rates=(1e-6, 1e-2),
)
