"""Logs of Stable-Baselines3 2: progress.csv or TensorBoard; Monitor's files, saved models, evaluations beside them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.advise.evidence import Action
from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
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
        details.evaluations = _evaluations(evaluations)
    return details


def _evaluations(file: Path) -> np.ndarray:
    """The mean return of every evaluation that EvalCallback saved; none where that cannot be read."""
    try:
        results = reading.read_npz(file, "results")
    except UnreadableFile as error:
        reading.report(f"{error}; its evaluations are left out")
        return np.zeros(0)
    numbers = results is not None and results.dtype.kind in "fiu" and results.ndim == 2 and results.shape[1] > 0
    return np.asarray(results, float).mean(axis=1) if numbers else np.zeros(0)


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
        text = reading.read_zip_member(file, "data")
        data = reading.parse_json(text) if text is not None else None
    except (UnreadableFile, ValueError) as error:
        reading.report(f"{error}; the saved model is left out")
        return {}, None
    if not isinstance(data, dict) or "n_steps" not in data:
        return {}, None  # another kind of archive
    return _hyperparameters(data), _action(data.get("action_space"))


def _action(space: Any) -> Action | None:
    """The actions of a Gymnasium space as Stable-Baselines3 writes it in JSON."""
    if not isinstance(space, dict):
        return None
    if "n" in space:
        digits = re.sub(r"\D", "", str(space["n"])[:20])
        return Action("discrete", int(digits)) if digits and int(digits) else None
    shape = space.get("_shape")
    sizes = isinstance(shape, list) and 0 < len(shape) < 9 and all(type(n) is int and 0 < n < 10**6 for n in shape)
    return Action("continuous", math.prod(shape)) if sizes else None


def _hyperparameters(data: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {k: v for k, v in data.items() if k in LIBRARY.rules and isinstance(v, int | float | bool)}
    values["total_timesteps"] = data.get("_total_timesteps", 0)
    kwargs = data.get("policy_kwargs")
    activation = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None  # as text, beside what is pickled
    values |= {"policy_kwargs": {"activation_fn": activation}} if isinstance(activation, str) else {}
    for name, key in (("learning_rate", "lr_schedule"), ("clip_range", "clip_range"), ("clip_range_vf",) * 2):
        text = str((data.get(key) or {}).get("value_schedule")) if isinstance(data.get(key), dict) else ""
        if number := re.search(r"(?:Constant|Linear)Schedule\((?:val|start)=([^,)]+)", text):
            values[name] = f"{'lin_' if 'Linear' in text else ''}{number[1]}"
    return values


def _add_episodes(files: list[Path], details: Details) -> None:
    """Single episodes out of Monitor's files, one for each environment; steps of all environments together."""
    parts = []
    for file in files:
        try:
            details.env_id = _id_in(file) or details.env_id
            episodes = np.array(reading.read_csv_rows(file, _episode), float).reshape(-1, 2)
        except UnreadableFile as error:
            reading.report(f"{error}; its episodes are left out")
            continue
        parts.append(np.column_stack([np.cumsum(episodes[:, 1]) * len(files), episodes]))
    if parts and len(rows := np.concatenate(parts)):
        rows = rows[np.lexsort(rows.T[::-1])]
        details.steps, details.returns, details.lengths = rows[:, 0].astype(int), rows[:, 1], rows[:, 2].astype(int)


def _id_in(file: Path) -> str | None:
    """The environment that the first line of a Monitor file names."""
    with reading.open_regular(file) as lines:
        header = lines.readline(reading.MOST_LINE)
    try:
        about = reading.parse_json(header[1:]) if header.startswith(b"#") else {}
    except ValueError:
        reading.report(f"{file}: its first line is damaged; the environment is not known from it")
        return None
    name = about.get("env_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _episode(row: dict[str, str]) -> tuple[float, float]:
    """Return and length of an episode; ValueError for what is none."""
    total, length = float(row.get("r", "")), int(row.get("l", ""))
    if not math.isfinite(total) or not 0 < length < 2**53:
        raise ValueError
    return total, float(length)


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
