"""Logs of Stable-Baselines3 2: progress.csv or TensorBoard; Monitor's files, saved models, evaluations beside them."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.advise.size_rules import Action
from trimtab.libraries.foreign_log import Details, Format, Sources
from trimtab.libraries.sb3 import LIBRARY

SAME = ("approx_kl", "clip_fraction", "entropy_loss", "explained_variance", "learning_rate", "policy_gradient_loss")
UPDATES, RANGE = "train/n_updates", "train/clip_range"


def _details(sources: Sources) -> Details:
    """Hyperparameters as a saved model has them, else as far as the numbers give them away."""
    at, _ = sources.scalars.get("rollout/ep_rew_mean", sources.scalars.get("time/fps", (np.zeros(0), None)))
    batch = int(np.median(np.diff(at))) if len(at) > 1 else None
    details = Details(_numbers(sources), batch)
    for model in sorted(sources.folder.glob("*.zip"), key=lambda file: file.stat().st_mtime):
        hyperparameters, action = said_by_model(model)
        details.hyperparameters |= hyperparameters
        details.action = action or details.action
    _add_episodes(sorted(sources.folder.glob("*monitor.csv")), details)
    evaluations = sources.folder / "evaluations.npz"
    if evaluations.is_file():
        details.evaluations = np.load(evaluations, allow_pickle=False)["results"].mean(axis=1)
    return details


def _numbers(sources: Sources) -> dict[str, Any]:
    """What records give away: the epochs on a batch, the step size and the range of the clip."""
    values: dict[str, Any] = {}
    if UPDATES in sources.scalars and len(sources.scalars[UPDATES][1]) > 1:
        values["n_epochs"] = max(1, round(float(np.median(np.diff(sources.scalars[UPDATES][1])))))
    for tag, name in (("train/learning_rate", "learning_rate"), (RANGE, "clip_range")):
        if tag in sources.scalars:
            recorded = sources.scalars[tag][1]
            falls = "lin_" if recorded[-1] < 0.5 * recorded[0] else ""
            values[name] = f"{falls}{float(recorded[0])!r}"
    return values


def said_by_model(file: Path) -> tuple[dict[str, Any], Action | None]:
    """Hyperparameters and actions of a saved model, where they are plain JSON; what it pickles is not opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            data = json.loads(archive.read("data"))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        return {}, None  # another kind of archive
    if not isinstance(data, dict) or "n_steps" not in data:
        return {}, None
    space = data.get("action_space", {})
    if "n" in space:
        return _hyperparameters(data), Action("discrete", int(re.sub(r"\D", "", str(space["n"])) or 1))
    action = Action("continuous", int(np.prod(space["_shape"]))) if space.get("_shape") else None
    return _hyperparameters(data), action


def _hyperparameters(data: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {k: v for k, v in data.items() if k in LIBRARY.rules and isinstance(v, int | float | bool)}
    values["total_timesteps"] = data.get("_total_timesteps", 0)
    activation = (data.get("policy_kwargs") or {}).get("activation_fn")  # as text, beside what is pickled
    values |= {"policy_kwargs": {"activation_fn": activation}} if isinstance(activation, str) else {}
    for name, key in (("learning_rate", "lr_schedule"), ("clip_range", "clip_range"), ("clip_range_vf",) * 2):
        text = str((data.get(key) or {}).get("value_schedule")) if isinstance(data.get(key), dict) else ""
        if number := re.search(r"(?:Constant|Linear)Schedule\((?:val|start)=([^,)]+)", text):
            values[name] = f"{'lin_' if 'Linear' in text else ''}{number[1]}"
    return values


def _add_episodes(files: list[Path], details: Details) -> None:
    """Single episodes out of Monitor's files, one for each environment; steps of all environments together."""
    rows = []
    for file in files:
        with open(file, newline="") as lines:
            header = next(lines, "")
            if header.startswith("#"):
                details.env_id = json.loads(header[1:]).get("env_id") or details.env_id
            taken = 0
            for row in csv.DictReader(lines):
                taken += int(row["l"])
                rows.append((taken * len(files), float(row["r"]), int(row["l"])))
    if rows:
        steps, returns, lengths = zip(*sorted(rows))
        details.steps, details.returns, details.lengths = map(np.asarray, (steps, returns, lengths))


FORMAT = Format(
    library="sb3",
    title="Stable-Baselines3",
    marks=(UPDATES, RANGE, "train/clip_fraction"),
    names={
        **{f"train/{name}": f"train/{name}" for name in (*SAME, "value_loss")},
        **{f"rollout/ep_{name}_mean": f"rollout/ep_{name}_mean" for name in ("rew", "len")},
        "time/fps": "time/fps",
    },
    details=_details,
)
