"""Logs of rl_games 1.6: TensorBoard (in `summaries` of a run), and params/agent.yaml of Isaac Lab.

There is no clip fraction; the KL is recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.libraries.foreign_log import Details, Format, Sources
from trimtab.libraries.isaac_log import agent_in, plain_values
from trimtab.libraries.rl_games import LIBRARY

RATE = "info/last_lr"


def _details(sources: Sources) -> Details:
    params = agent_in(sources.folder).get("params") or {}
    network, config = params.get("network") or {}, params.get("config") or {}
    values = _numbers(sources) | plain_values(LIBRARY, params, network, network.get("mlp"), config)
    frames = sources.scalars.get("losses/a_loss", (np.zeros(0), None))[0]
    batch = int(np.median(np.diff(frames))) if len(frames) > 1 else None
    offset = batch or 0 if len(frames) and frames[0] == 0 else 0  # of continuous actions the batch is counted after
    name = (config.get("env_config") or {}).get("name") or config.get("name")
    return Details(values, batch, offset, name)


def _numbers(sources: Sources) -> dict[str, Any]:
    """What records give away: the range of the clip, and a step size that goes up and down."""
    values: dict[str, Any] = {}
    if "info/e_clip" in sources.scalars:
        values["e_clip"] = float(sources.scalars["info/e_clip"][1][0])
    rates = sources.scalars.get(RATE, (None, np.zeros(0)))[1]
    if len(rates):
        values["learning_rate"] = float(rates[0])
        falls = "linear" if rates[-1] < 0.5 * rates[0] else None
        values["lr_schedule"] = "adaptive" if (np.diff(rates) > 0).any() else falls
    return values


FORMAT = Format(
    library="rl_games",
    title="rl_games",
    marks=("losses/a_loss", "info/e_clip"),
    names={
        "losses/a_loss": "train/policy_gradient_loss",
        "losses/c_loss": "train/value_loss",
        "losses/entropy": "train/entropy_loss",
        "info/kl": "train/approx_kl",
        RATE: "train/learning_rate",
        "performance/step_inference_rl_update_fps": "time/fps",
        "rewards/step": "rollout/ep_rew_mean",
        "episode_lengths/step": "rollout/ep_len_mean",
    },
    details=_details,
    negated=frozenset({"losses/entropy"}),
    rates=(1e-6, 1e-2),
)
