"""What a run records of itself: metrics, evaluations, checkpoints, manifest, timing, summary. Types and their JSON.

`run_dir` reads and writes the files. A record's JSON form has a key for every field that is not at its default; the
JSON of metrics and evaluations uses the metric names of Stable-Baselines3 (`rollout/ep_rew_mean`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.config import Config
from trimtab.core.fields import types_of
from trimtab.core.json_values import from_json, to_json

SCHEMA = 1  # of run directories
LARGEST_COUNT = 2**53  # of steps or iterations in a file; more is damage
STEP = "time/total_timesteps"


def is_count(value: Any) -> bool:
    """Whether a JSON value is a number of steps, iterations or bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST_COUNT if isinstance(value, int) else math.isfinite(value)


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


class Record:
    """A dataclass whose JSON form leaves out the fields that are at their default."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        values = {item: getattr(self, item.name) for item in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {item.name: to_json(value) for item, value in values.items() if value != item.default}


# Metrics and evaluations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricsRow:
    """What one iteration recorded: a row of metrics.jsonl."""

    iteration: int
    step: int
    """Environment steps at its end; `time/total_timesteps` in JSON."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Every other number by its name, such as `train/approx_kl`; only those under time/ differ between equal runs."""
    not_finite: tuple[str, ...] = ()
    """Tensors that were infinite or not a number; such a row is the last."""

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last 100 episodes."""
        return self.numbers.get("rollout/ep_rew_mean")

    @property
    def fps(self) -> float:
        """Environment steps per second of training so far."""
        return self.numbers.get("time/fps", 0.0)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: one flat object."""
        broken = {"not_finite": list(self.not_finite)} if self.not_finite else {}
        return {"iteration": self.iteration, STEP: self.step, **self.numbers, **broken}

    @classmethod
    def from_dict(cls, row: Any) -> MetricsRow:
        """A row from its JSON form; entries that are not finite numbers are left out, ValueError for anything else."""
        _need(isinstance(row, dict) and is_count(row.get("iteration")) and is_count(row.get(STEP)), "not a row")
        broken = row.get("not_finite")
        are_names = isinstance(broken, list) and all(isinstance(name, str) for name in broken)
        numbers = {k: v for k, v in row.items() if k not in ("iteration", STEP) and _is_number(v)}
        return cls(row["iteration"], row[STEP], numbers, tuple(broken) if are_names else ())


@dataclass(frozen=True)
class Evaluation:
    """Returns of fresh episodes of one policy: a row of evaluations.jsonl or evaluated.jsonl.

    `sampled_reward` is the mean return of the policy as it acts in training; the other returns are of episodes with
    exploration off. `episodes` is the number of either kind.
    """

    step: int
    mean_reward: float
    median_reward: float | None
    iqr_low: float
    iqr_high: float
    std_reward: float | None
    mean_ep_length: float | None
    episodes: int | None
    sampled_reward: float | None = None
    sampled_std: float | None = None
    env_steps: int | None = None
    """Environment steps of the episodes; they are no steps of training."""
    iteration: int | None = None
    """Of training's own evaluations."""
    seed: int | None = None
    """Of `trimtab eval`."""

    def metrics(self) -> dict[str, float]:
        """The numbers by their metric names."""
        names = [item.name for item in dataclasses.fields(self) if item.name not in ("step", "iteration", "seed")]
        return {f"eval/{name}": value for name in names if (value := getattr(self, name)) is not None}

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: one flat object."""
        iteration = {} if self.iteration is None else {"iteration": self.iteration}
        seed = {} if self.seed is None else {"seed": self.seed}
        return {**iteration, STEP: self.step, **seed, **self.metrics()}

    @classmethod
    def from_dict(cls, row: Any) -> Evaluation:
        """An evaluation from its JSON form; ValueError without a step, a mean return or quartiles."""
        _need(isinstance(row, dict) and is_count(row.get(STEP)), "not an evaluation")
        names = {item.name: f"eval/{item.name}" for item in dataclasses.fields(cls)}
        names |= {"step": STEP, "iteration": "iteration", "seed": "seed"}
        values = {name: value if _is_number(value := row.get(key)) else None for name, key in names.items()}
        _need(None not in (values["mean_reward"], values["iqr_low"], values["iqr_high"]), "not an evaluation")
        return cls(**values)  # type: ignore[arg-type]  # numbers, as the line above says


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk and what its checkpoint.json says."""

    step: int
    path: Path
    iteration: int
    sha256: str = ""
    """Checksum of the tensors; empty where checkpoint.json is missing or damaged."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each log when the checkpoint was written."""


# The manifest ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine(Record):
    """What a run was trained on."""

    platform: str
    processor: str
    device: str
    devices: int = 0
    processes: int = 0


@dataclass(frozen=True)
class ActionRecord(Record):
    """The actions of an environment: `size` outputs of a policy; `choices` of each of several discrete actions."""

    kind: str
    size: int
    choices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _need(0 < self.size <= LARGEST_COUNT, "an action has a size")


@dataclass(frozen=True)
class ObservationRecord(Record):
    """The observations of an environment.

    `parts` are names and ends of the entries of a Dict or Tuple in the flat vector; `seen` are the ends of what the
    policy sees of it.
    """

    shape: tuple[int, ...]
    dtype: str
    parts: tuple[tuple[str, int, int], ...] = ()
    seen: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Bounds(Record):
    """The box of continuous actions; None is an open side, since JSON has no infinity."""

    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class EnvironmentRecord(Record):
    """What a policy must know of its environment to be used without it. Manifests of earlier versions lack some."""

    id: str = ""
    backend: str = ""
    time_limit: int | None = None
    action: ActionRecord | None = None
    observation: ObservationRecord | None = None
    network: str | None = None
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        _need(self.time_limit is None or is_count(self.time_limit), "a time limit is a number of steps")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, in which no time limit is null."""
        values = super().as_dict()
        order = [item.name for item in dataclasses.fields(self)]
        return {name: values.get(name) for name in order if name in values or name == "time_limit"}


@dataclass(frozen=True)
class Segment(Record):
    """A part of a run with one length and one number of devices, so that the same steps can be taken again.

    A run that is extended follows the schedules of its first length up to a step, and those of the new length after.
    """

    step: int
    """Where it begins."""
    total_timesteps: int
    """The length that schedules follow in it."""
    schedules: str = ""
    """The same for a person who reads the manifest."""
    devices: int = 1
    not_bit_for_bit: str | None = None
    """Why its numbers differ from those of an uninterrupted run."""

    def __post_init__(self) -> None:
        _need(is_count(self.step) and is_count(self.total_timesteps), "a segment counts steps")

    @classmethod
    def of(cls, config: Config, step: int = 0, not_bit_for_bit: str | None = None) -> Segment:
        """The segment in which a run follows `config` from `step` on."""
        total = config.total_timesteps
        schedules = f"from step {step} on, annealing follows a length of {total}"
        return cls(step, total, schedules, config.devices, not_bit_for_bit)


def extend_segments(segments: tuple[Segment, ...], step: int, config: Config, exact: bool) -> tuple[Segment, ...]:
    """The segments of a run that resumes at `step` and follows `config` from there.

    A new one begins where the length or the number of devices changes, and at every resume of environments whose
    states are not saved (`exact` is false).
    """
    before = tuple(segment for segment in segments if segment.step < step)
    if not before:
        return (Segment.of(config, step),)
    last = before[-1]
    if last.devices != config.devices:
        why = f"devices {last.devices} -> {config.devices}: other keys, other shuffles"
        return (*before, Segment.of(config, step, why))
    same = exact and last.total_timesteps == config.total_timesteps
    return before if same else (*before, Segment.of(config, step))


@dataclass(frozen=True)
class CheckpointReference(Record):
    """A checkpoint of another run, and whether its optimizer state was taken too."""

    run: str
    step: int
    sha256: str
    optimizer: bool

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class StartedFrom(Record):
    """Where the parameters came from that a run began with."""

    start: CheckpointReference | None = None
    """None for parameters that were no run's."""
    place: str = ""
    taken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest(Record):
    """manifest.json: with which versions a run was made, on what machine, how repeatable it is."""

    id: str | None = None
    """What a run of a module's environment is listed by in the state directory of the user who made it."""
    trimtab: str | None = None
    python: str | None = None
    packages: Mapping[str, str] | None = None
    machine: Machine | None = None
    threads: str | None = None
    seed: int | None = None
    environment: EnvironmentRecord | None = None
    determinism: str | None = None
    command: str | None = None
    segments: tuple[Segment, ...] = ()
    started_from: StartedFrom | None = None
    ended: str | None = None
    """The error that ended the run; None once it was resumed."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"schema": SCHEMA, **super().as_dict()}

    def segments_of(self, config: Config) -> tuple[Segment, ...]:
        """The recorded segments; runs of older versions have one, that of their configuration."""
        return self.segments or (Segment.of(config),)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> tuple[Manifest, list[str]]:
        """A manifest from its JSON form, and the entries that are damaged and left out."""
        known: dict[str, Any] = {}
        damaged = []
        for name, kind in types_of(cls).items():  # type: ignore[arg-type]  # mypy doubts that a class is hashable
            if values.get(name) is not None:
                try:
                    known[name] = from_json(kind, values[name])
                except (ValueError, TypeError):
                    damaged.append(name)
        return cls(**known), damaged


# What a process tells of the run it trained ----------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """How long the training of one process took; without a speed where there was nothing left to train."""

    steps: int
    interval: tuple[float, float]
    """When training began and ended, in seconds since 1970; compiling and evaluating are left out."""
    fps: float | None = None
    seconds: float | None = None
    compile_seconds: float | None = None


@dataclass(frozen=True)
class RunSummary(Record):
    """What `train --json` prints."""

    run: str
    env_id: str
    algo: str
    seed: int
    total_timesteps: int
    ep_rew_mean: float | None
    fps: float
    seconds: float
    compile_seconds: float
    interval: tuple[float, float] | None = None
