"""Runs of other libraries, read from the logs they left; nothing that is pickled is opened."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from trimtab import envs
from trimtab.advise.evidence import Action
from trimtab.config import Config
from trimtab.core import reading, trust
from trimtab.envs.base import kind_of, outputs_of
from trimtab.libraries import cleanrl_log, rl_games_log, rsl_rl_log, sb3_log, skrl_log
from trimtab.libraries.foreign_log import Details, Format, Log, Sources
from trimtab.libraries.tensorboard_events import read_events
from trimtab.libraries.translation import fitting, translate
from trimtab.training.records import LARGEST, RunError

FORMATS = (sb3_log.FORMAT, cleanrl_log.FORMAT, rsl_rl_log.FORMAT, skrl_log.FORMAT, rl_games_log.FORMAT)
TABLE, EVENTS = "progress.csv", ("*tfevents*", "summaries/*tfevents*")  # the second are rl_games's
STEPS = "time/total_timesteps"


def is_log(path: str | PathLike[str]) -> bool:
    """Whether another library's log may be here: a table of progress or TensorBoard's events, or a directory of one."""
    place = Path(path)
    if place.is_dir():
        return (place / TABLE).is_file() or bool(_events_in(place))
    return place.is_file() and (place.suffix == ".csv" or "tfevents" in place.name)


def read_log(path: str | PathLike[str], hyperparameters: dict[str, Any] | None = None) -> Log:
    """The log of a run; `hyperparameters`, by their own names there, are laid over what the log says of them."""
    place = Path(path)
    sources = _sources(place)
    log_format = _recognized(place, sources)
    with reading.interpreting(place):
        details = log_format.details(sources)
    over = {k: v for k, v in (hyperparameters or {}).items() if k != "env_id"}
    names = ((hyperparameters or {}).get("env_id"), details.env_id, place.resolve().stem)
    details.env_id = next((name for name in names if isinstance(name, str) and name), "unknown")
    details.hyperparameters = details.hyperparameters | over
    details.action = details.action or _action_of(place, details.env_id)
    rows = _rows(sources, log_format)
    if not rows:
        raise RunError(f"{path} records no updates of {log_format.title} yet")
    with reading.interpreting(place):
        rows = [row | {STEPS: row[STEPS] + details.offset} for row in rows]
        config, known, notes = _configuration(log_format, details, rows[-1][STEPS])
        rows = [row | {STEPS: _steps(log_format, row[STEPS], config.num_envs, config.batch)} for row in rows]
    return Log(place, log_format, rows, config, known, details, tuple(notes))


def _sources(place: Path) -> Sources:
    folder = place if place.is_dir() else place.parent
    table = place if place.suffix == ".csv" else folder / TABLE
    if table.is_file() and (place.is_dir() or place == table):
        return Sources(folder, _table(table))
    events = read_events([place] if place.is_file() else _events_in(folder))
    return Sources(folder, events.scalars, events.texts)


def _events_in(folder: Path) -> list[Path]:
    return next((files for pattern in EVENTS if (files := sorted(folder.glob(pattern)))), [])


def _table(file: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Columns of a table of progress over its steps; empty cells are left out."""
    points: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for step, values in reading.read_csv_rows(file, _progress):
        for name, value in values.items():
            points[name].append((step, value))
    return {name: (np.array([s for s, _ in p], int), np.array([v for _, v in p])) for name, p in points.items() if name}


def _progress(row: dict[str, str]) -> tuple[int, dict[str, float]]:
    """The step of a row of a table of progress and its numbers; ValueError for a row without a step."""
    values = {}
    for name, text in row.items():
        with suppress(ValueError):
            values[name] = float(text)
    step = values.get(STEPS, math.nan)
    if not 0 <= step <= LARGEST:
        raise ValueError
    return int(step), values


def _recognized(place: Path, sources: Sources) -> Format:
    for log_format in FORMATS:
        if any(mark in sources.scalars for mark in log_format.marks):
            return log_format
    titles = ", ".join(log_format.title for log_format in FORMATS)
    tags = ", ".join(sorted(sources.scalars)[:4]) or "nothing"
    raise RunError(f"{place} is no log of {titles}: it records {tags}")


def _action_of(place: Path, env_id: str) -> Action | None:
    """What an environment that is known here takes; a module that only the log names is not imported."""
    try:
        spec = envs.look(env_id)
    except trust.Untrusted as error:
        reading.report(f"{place}: {error}")
        return None
    except envs.EnvError:
        return None
    return Action(kind_of(spec.action), outputs_of(spec.action))


def _rows(sources: Sources, log_format: Format) -> list[dict[str, Any]]:
    """What was recorded at each step, under the names here; steps that recorded no update are left out."""
    by_step: dict[int, dict[str, Any]] = defaultdict(dict)
    for tag, name in log_format.names.items():
        sign = -1.0 if tag in log_format.negated else 1.0
        for step, value in zip(*sources.scalars.get(tag, ((), ()))):
            by_step[int(step)][name] = sign * float(value)
    steps = sorted(step for step, row in by_step.items() if any(name.startswith("train/") for name in row))
    return [by_step[step] | {STEPS: step, "iteration": k} for k, step in enumerate(steps, 1)]


def _configuration(log_format: Format, details: Details, last: int) -> tuple[Config, frozenset[str], list[str]]:
    """The configuration here, which of its fields are known, and what is not the same."""
    fields = translate(log_format.library, details.hyperparameters).fields
    known = set(translate(log_format.library, details.hyperparameters, defaults=False).fields)
    if not known >= {"num_envs", "num_steps"} and details.batch:
        fields |= {"num_envs": 1, "num_steps": details.batch}
        known -= {"num_envs", "num_steps"}
    notes = []
    if "num_envs" not in known and log_format.axis == "calls":
        fields["num_envs"] = 1
        notes.append("steps are those of one environment: the log does not say how many there are")
    if known & {"minibatch_size", "num_minibatches"}:
        known.add("minibatch")
    num_envs = int(fields.setdefault("num_envs", Config.num_envs))
    batch = num_envs * int(fields.setdefault("num_steps", Config.num_steps))
    reached = _steps(log_format, last, num_envs, batch)
    fields |= {"env_id": details.env_id, "total_timesteps": max(reached, fields.get("total_timesteps", 0), batch)}
    config, more = fitting(fields, batch)
    return config, frozenset(known), notes + more


def _steps(log_format: Format, count: int, num_envs: int, batch: int) -> int:
    """Environment steps at a place of the log's axis."""
    return {"steps": count, "iterations": (count + 1) * batch, "calls": count * num_envs}[log_format.axis]
