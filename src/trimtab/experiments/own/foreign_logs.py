"""A run of trimtab, logged as another library would have logged it: its metrics, its file formats, its option names.

What a library does not record is left out, so a rule sees exactly what it sees of a user's log.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from trimtab.config import Config
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.foreign_options import NOT_SET
from trimtab.training.records import MetricsRow
from trimtab.training.run import Run

MOST_ROWS = 400  # of a log; a longer run is logged every few iterations, as a log interval does


def write_log(run: Run, library: str, folder: Path) -> Path:
    """Log a run in the format of another library.

    Args:
        run: a run of trimtab.
        library: a key of WRITERS.
        folder: where the log goes; made if it is not there.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = run.files.metrics()
    every = -(-len(rows) // MOST_ROWS)
    WRITERS[library](run, [row for row in rows[::every] if not row.not_finite], folder)
    return folder


def options_of(library: str, config: Config) -> dict[str, Any]:
    """The options of a library that mean the same as a configuration; those without a counterpart are left out."""
    options = LIBRARIES[library].options.items()
    values = {name: option.of(config) for name, option in options if not option.absent}
    return {name: value for name, value in values.items() if value is not NOT_SET and value is not None}


def _sb3(run: Run, rows: list[MetricsRow], folder: Path) -> None:
    """progress.csv and the saved model, whose options are plain JSON."""
    log = LIBRARIES["sb3"].log
    assert log is not None
    lines = [{"time/total_timesteps": row.step, **_renamed(row, log.names)} for row in rows]
    coefficient = run.config.clip_coef
    with (folder / "progress.csv").open("w", newline="") as file:
        names = dict.fromkeys(name for line in lines for name in line) | {"train/clip_range": None}
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(line | {"train/clip_range": coefficient} for line in lines)
    options = options_of("sb3", run.config)
    numbers = {k: v for k, v in options.items() if isinstance(v, int | float)}
    data = numbers | {"_total_timesteps": run.config.total_timesteps} | _space(run)
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data))


def _space(run: Run) -> dict[str, Any]:
    """The action space as Stable-Baselines3 writes it."""
    environment = run.files.manifest().environment
    action = environment.action if environment else None
    if action is None:
        return {}
    return {"action_space": {"n": str(action.size)} if action.kind == "discrete" else {"_shape": [action.size]}}


def _cleanrl(run: Run, rows: list[MetricsRow], folder: Path) -> None:
    """Events with every episode, half the squared error as value loss, and a table of hyperparameters."""
    from tensorboardX import SummaryWriter

    log = LIBRARIES["cleanrl"].log
    assert log is not None
    options = options_of("cleanrl", run.config) | {"env_id": run.config.env_id}
    table = "\n".join(f"|{name}|{value}|" for name, value in options.items())
    with SummaryWriter(str(folder)) as writer:
        writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{table}")
        for row in rows:
            for tag, value in _renamed(row, log.names).items():
                sign = -1.0 if tag in log.negated else 0.5 if tag == "losses/value_loss" else 1.0
                writer.add_scalar(tag, sign * value, row.step)
        for episode in run.episodes.iter_rows(named=True):
            writer.add_scalar("charts/episodic_return", episode["return"], episode["step"])
            writer.add_scalar("charts/episodic_length", episode["length"], episode["step"])


def _skrl(run: Run, rows: list[MetricsRow], folder: Path) -> None:
    """Events over calls of the vector environment, losses times their coefficients, and Isaac Lab's agent.yaml."""
    from tensorboardX import SummaryWriter
    from tensorboardX.proto.summary_pb2 import Summary

    log, config = LIBRARIES["skrl"].log, run.config
    assert log is not None
    with SummaryWriter(str(folder)) as writer:
        for row in rows:
            for tag, value in _renamed(row, log.names).items():
                if tag == "Learning / Learning rate" and config.anneal_lr == "constant":
                    continue  # recorded of schedules only
                scaled = value * config.vf_coef if tag == "Loss / Value loss" else value
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=scaled)])
                writer.file_writer.add_summary(summary, row.step // config.num_envs)
    values = options_of("skrl", config)
    tables: dict[str, Any] = {}
    for name, value in values.items():
        at = LIBRARIES["skrl"].options[name].at
        if at in ("", "agent"):
            (tables.setdefault("agent", {}) if at else tables)[name] = value
    tables.setdefault("agent", {})["experiment"] = {"directory": config.env_id}
    (folder / "params").mkdir(exist_ok=True)
    (folder / "params" / "agent.yaml").write_text(yaml.safe_dump(tables))


def _renamed(row: MetricsRow, names: Mapping[str, str]) -> dict[str, float]:
    """The numbers of an iteration under a library's tags."""
    return {theirs: row.numbers[ours] for theirs, ours in names.items() if ours in row.numbers}


WRITERS: dict[str, Callable[[Run, list[MetricsRow], Path], None]] = {"sb3": _sb3, "cleanrl": _cleanrl, "skrl": _skrl}
