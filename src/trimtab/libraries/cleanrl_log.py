"""Logs of CleanRL: TensorBoard, with every episode and a table of hyperparameters as text."""

from __future__ import annotations

import re

import numpy as np

from trimtab.core import reading
from trimtab.libraries.cleanrl import LIBRARY
from trimtab.libraries.foreign_log import Details, Format, Sources

RETURN, LENGTH = "charts/episodic_return", "charts/episodic_length"


def _details(sources: Sources) -> Details:
    rows = re.findall(r"^\|(\w+)\|(.*)\|$", sources.texts.get("hyperparameters", ""), re.MULTILINE)
    values = {name: reading.parse_yaml(text) for name, text in rows if name in LIBRARY.rules and text != "None"}
    none = (np.zeros(0, int), np.zeros(0))
    steps, returns = sources.scalars.get(RETURN, none)
    details = Details(values, env_id=values.get("env_id"), returns=returns, steps=steps)
    details.lengths = sources.scalars.get(LENGTH, none)[1]
    return details


FORMAT = Format(
    library="cleanrl",
    title="CleanRL",
    marks=("losses/clipfrac", "losses/old_approx_kl", "charts/SPS"),
    names={
        "losses/clipfrac": "train/clip_fraction",
        "losses/approx_kl": "train/approx_kl",
        "losses/entropy": "train/entropy_loss",
        "losses/explained_variance": "train/explained_variance",
        "losses/value_loss": "train/value_loss",
        "losses/policy_loss": "train/policy_gradient_loss",
        "charts/learning_rate": "train/learning_rate",
        "charts/SPS": "time/fps",
    },
    details=_details,
    negated=frozenset({"losses/entropy"}),
)
