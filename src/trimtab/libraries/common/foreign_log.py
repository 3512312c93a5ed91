"""Runs of other libraries, read from the logs they left; nothing that is pickled is opened."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from trimtab import envs
from trimtab.advise.evidence import Action, Evidence, Length, Numbers, usual_length
from trimtab.advise.return_course import WINDOW
from trimtab.config import Config
from trimtab.core import reading, trust
from trimtab.core.errors import RunError
from trimtab.core.estimate import Estimate
from trimtab.envs.base import kind_of, outputs_of
from trimtab.gradient.meter_report import MeterReport, read_reports
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.foreign_options import Values
from trimtab.libraries.common.library import Details, Library, LogFormat, Sources
from trimtab.libraries.common.tensorboard_events import read_events
from trimtab.libraries.common.translation import fit_minibatches, into_range, translate
from trimtab.training.records import LARGEST_COUNT, MetricsRow

TABLE, EVENTS = "progress.csv", ("*tfevents*", "summaries/*tfevents*")  # the second are rl_games's
STEPS = "time/total_timesteps"
SIZES = frozenset({"num_envs", "num_steps", "minibatch"})  # without which nothing can be said of sizes
LOSSES = ("train/value_loss", "train/policy_gradient_loss")  # never NaN but in a run that has diverged


@dataclass(frozen=True)
class Log:
    """Metrics under the names here, one row per iteration that recorded any, and the configuration they come from."""

    path: Path
    library: Library
    rows: list[MetricsRow]
    config: Config
    known: frozenset[str]  # what the log or its reader says; every other field is the library's default
    details: Details
    notes: tuple[str, ...] = ()
    meter: MeterReport | None = None  # the newest of trimtab.torch, where one measured

    @property
    def knows_sizes(self) -> bool:
        """Whether N, T and the minibatch are known."""
        return self.known >= SIZES

    @property
    def recorded(self) -> set[str]:
        """The metrics that any row has."""
        return {name for row in self.rows for name in row.numbers}

    @property
    def evidence(self) -> Evidence:
        """What rules may look at."""
        names = sorted(name for name in self.recorded if name.startswith("train/"))
        last = self.rows[-1].numbers if self.rows else {}
        lengths = self.series("rollout/ep_len_mean")
        return Evidence(
            config=self.config,
            metrics={name: np.array([row.numbers.get(name, np.nan) for row in self.rows]) for name in names},
            iterations=len(self.rows),
            returns=self.details.returns,
            steps=self.details.steps,
            mean_returns=self.series("rollout/ep_rew_mean"),
            mean_episodes=self._mean_episodes(),
            action=self.details.action,
            length=usual_length(self.details.lengths) or (Length(float(lengths[-1])) if len(lengths) else None),
            not_finite=tuple(name for name in LOSSES if not np.isfinite(last.get(name, 0.0))),
            evaluations=self.details.evaluations,
            rates=_format(self.library).rates,
            noise_scale=self._noise_scale,
            noise_scale_step=self.meter.step if self.meter is not None else 0,
        )

    @property
    def _noise_scale(self) -> Estimate | None:
        measured = None if self.meter is None else self.meter.noise_scale_trajectory
        return measured if measured is not None and measured.resolved else None

    def _mean_episodes(self) -> Numbers:
        """About how many episodes had finished by every running mean; 8 windows where that is not known."""
        rows = [row for row in self.rows if "rollout/ep_rew_mean" in row.numbers]
        counted = _format(self.library).axis != "calls" or "num_envs" in self.known
        if not counted or not all("rollout/ep_len_mean" in row.numbers for row in rows):
            return np.linspace(0, 8 * WINDOW, len(rows))
        spacing = np.diff([row.step for row in rows], prepend=0)
        return np.cumsum([gap / max(row.numbers["rollout/ep_len_mean"], 1.0) for gap, row in zip(spacing, rows)])

    def series(self, name: str) -> Numbers:
        """A metric where it was recorded."""
        return np.array([row.numbers[name] for row in self.rows if name in row.numbers])


def is_log(path: str | PathLike[str]) -> bool:
    """Whether another library's log may be here.

    Args:
        path: a table of progress, TensorBoard's events, a saved model, or a folder of any of them.
    """
    place = Path(path)
    if place.is_dir():
        return (place / TABLE).is_file() or bool(_events_in(place)) or _leaving_traces(place) is not None
    return place.is_file() and (place.suffix in (".csv", ".zip") or "tfevents" in place.name)


def read_log(path: str | PathLike[str], hyperparameters: Values | None = None) -> Log:
    """Read the log of a run.

    Args:
        path: its folder, its progress.csv, its TensorBoard events, or a model that was saved beside them.
        hyperparameters: by their names there; they override what the log says.

    Returns:
        The log. What cannot be read raises RunError.
    """
    place, given = Path(path), dict(hyperparameters or {})
    is_model = place.suffix == ".zip" and place.is_file()
    sources = _sources(place.parent if is_model else place)
    library = _recognized(place, sources)
    log_format = _format(library)
    with reading.interpreting(place):
        details = log_format.details(sources)
    if is_model:
        details.hyperparameters |= library.beside(place)
    rows = _rows(sources, log_format)
    if not rows and not is_model and not len(details.returns):
        raise RunError(f"{path} records no updates of {library.title} yet")
    log = replace(_log(place, library, details, given, rows), meter=_newest_report(sources.folder))
    if rows:
        return log
    return replace(log, notes=(*log.notes, f"neither {TABLE} nor events were found: no metrics of training"))


def _newest_report(folder: Path) -> MeterReport | None:
    return next(reversed(read_reports(folder)), None)


def _format(library: Library) -> LogFormat:
    assert library.log is not None
    return library.log


def _logging() -> list[Library]:
    return [library for library in LIBRARIES.values() if library.log is not None]


def _leaving_traces(folder: Path) -> Library | None:
    """The library that leaves files of these names even where it logs no metrics."""
    return next((lib for lib in _logging() if any(any(folder.glob(name)) for name in _format(lib).traces)), None)


def _log(place: Path, library: Library, details: Details, given: Values, rows: list[MetricsRow]) -> Log:
    """The rows and details of a log with the configuration that they come from."""
    names = (given.pop("env_id", None), details.env_id, place.resolve().stem)
    details.env_id = next((name for name in names if isinstance(name, str) and name), "unknown")
    details.hyperparameters = details.hyperparameters | given
    details.action = details.action or _action_of(place, details.env_id)
    with reading.interpreting(place):
        config, known, notes = _configuration(library, details, rows[-1].step + details.offset if rows else 0)
        axis = _format(library).axis
        steps = [_steps(axis, row.step + details.offset, config.num_envs, config.batch) for row in rows]
        rows = [replace(row, step=step) for row, step in zip(rows, steps)]
    return Log(place, library, rows, config, known, details, tuple(notes))


def _sources(place: Path) -> Sources:
    folder = place if place.is_dir() else place.parent
    table = place if place.suffix == ".csv" else folder / TABLE
    if table.is_file() and (place.is_dir() or place == table):
        return Sources(folder, _table(table))
    events = read_events([place] if place.is_file() else _events_in(folder))
    return Sources(folder, events.scalars, events.texts)


def _events_in(folder: Path) -> list[Path]:
    return next((files for pattern in EVENTS if (files := sorted(folder.glob(pattern)))), [])


def _table(file: Path) -> dict[str, tuple[Numbers, Numbers]]:
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
    if not 0 <= step <= LARGEST_COUNT:
        raise ValueError
    return int(step), values


def _recognized(place: Path, sources: Sources) -> Library:
    """By its tags, else by a saved model or other files that it leaves."""
    for library in _logging():
        if any(mark in sources.scalars for mark in _format(library).marks):
            return library
    if place.suffix == ".zip":
        if saved := next((library for library in _logging() if library.beside(place)), None):
            return saved
        raise RunError(f"{place} is no model saved by Stable-Baselines3; unpack other archives and name the folder")
    library_of_traces = None if sources.scalars else _leaving_traces(sources.folder)
    if library_of_traces is not None:
        return library_of_traces
    titles = ", ".join(library.title for library in _logging())
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


def _rows(sources: Sources, log_format: LogFormat) -> list[MetricsRow]:
    """The metrics of each step, under the names here; steps that recorded no update are left out."""
    by_step: dict[int, dict[str, float]] = defaultdict(dict)
    for tag, name in log_format.names.items():
        sign = -1.0 if tag in log_format.negated else 1.0
        for step, value in zip(*sources.of(tag)):
            by_step[int(step)][name] = sign * float(value)
    steps = sorted(step for step, row in by_step.items() if any(name.startswith("train/") for name in row))
    return [MetricsRow(k, step, by_step[step]) for k, step in enumerate(steps, 1)]


def _configuration(library: Library, details: Details, last: int) -> tuple[Config, frozenset[str], list[str]]:
    """The configuration here, which of its fields are known, and what is not the same."""
    fields = translate(library.name, details.hyperparameters).fields
    known = set(translate(library.name, details.hyperparameters, defaults=False).fields)
    notes, axis = into_range(fields), _format(library).axis
    if not known >= {"num_envs", "num_steps"} and details.batch:
        fields |= {"num_envs": 1, "num_steps": details.batch}
        known -= {"num_envs", "num_steps"}
    if "num_envs" not in known and axis == "calls":
        fields["num_envs"] = 1
        notes.append("steps are those of one environment: the log does not say how many there are")
    if known & {"minibatch_size", "num_minibatches"}:
        known.add("minibatch")
    num_envs = int(fields.setdefault("num_envs", Config.num_envs))
    batch = num_envs * int(fields.setdefault("num_steps", Config.num_steps))
    reached = _steps(axis, last, num_envs, batch)
    fields |= {"env_id": details.env_id, "total_timesteps": max(reached, fields.get("total_timesteps", 0), batch)}
    config, more = fit_minibatches(fields, batch)
    return config, frozenset(known), notes + more


def _steps(axis: str, count: int, num_envs: int, batch: int) -> int:
    """Environment steps at a place of the log's axis."""
    return {"steps": count, "iterations": (count + 1) * batch, "calls": count * num_envs}[axis]
