"""What a library declares: its options and what they are here, its logs, its networks, its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.advise.evidence import NO_NUMBERS, Action, Numbers
from trimtab.config import Config, ConfigError, from_dict
from trimtab.core import reading
from trimtab.core.fields import base_of, choices_of, types_of
from trimtab.core.wording import nearest
from trimtab.math.optimizers import ADAPTIVE_RATES

Values = dict[str, Any]  # hyperparameters by name, as files and command lines give them
NOT_SET: Any = object()


# Options ----------------------------------------------------------------------------------------------------


@dataclass
class Translated:
    """Fields here, remarks on what is not the same, and what has no counterpart."""

    fields: Values = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def config(self, env_id: str | None) -> Config:
        """The configuration of these fields."""
        return from_dict(({"env_id": env_id} if env_id else {}) | self.fields)


class NoCounterpart(Exception):
    """Why a hyperparameter is left out."""


Reader = Callable[[Any, Translated], None]


@dataclass(frozen=True)
class Option:
    """One hyperparameter of a library, and what it is here: exactly one of the first three, and how to convert it."""

    field: str = ""
    """The field that means the same."""
    absent: str = ""
    """Why it has no counterpart, and what happens instead."""
    read: Reader | None = None
    """What sets the fields, where that takes more than a conversion."""
    factor: float = 1.0
    """Value here over value there."""
    why: str = ""
    """Why the units differ, or a remark on every value."""
    values: Mapping[Any, Any] | None = None
    """Values here by values there, for switches and choices."""
    default: Any = NOT_SET
    """What the library does where its user says nothing, if trimtab does something else."""

    def otherwise(self, default: Any) -> Option:
        """The same option with the library's default."""
        return replace(self, default=default)

    def carry_over(self, value: Any, to: Translated) -> None:
        """Set the fields here that a value there means.

        Args:
            value: as a file or a command line has it.
            to: takes the fields and remarks.
        """
        if self.read is not None:
            self.read(value, to)
        elif self.absent:
            raise NoCounterpart(self.absent)
        elif self.values is not None:
            self._choose(value, to)
        elif self.factor == 1.0:
            to.fields[self.field] = _typed(self.field, value)
        elif value is not None:
            here = to.fields[self.field] = float(value) * self.factor
            to.notes.append(f"{self.field}: {float(value):g} there is {here:g} here, {self.why}")

    def _choose(self, value: Any, to: Translated) -> None:
        assert self.values is not None
        key = value.lower() if isinstance(value, str) else value
        if key not in self.values:
            raise NoCounterpart(f"{value!r} is none of {', '.join(map(str, self.values))}")
        to.fields[self.field] = self.values[key]
        if self.why and value:
            to.notes.append(f"{self.field}: {self.why}")

    def there(self, value: Any) -> Any:
        """The value there of a value here; NOT_SET where there is none."""
        if value is None or not self.field:
            return value if self.field else NOT_SET
        if self.values is not None:
            return next((theirs for theirs, ours in self.values.items() if ours == value), NOT_SET)
        return value / self.factor if self.factor != 1.0 else value


def _typed(name: str, value: Any) -> Any:
    """A number as its field wants it: 3e-4 may be text, and 1e6 a whole number."""
    kind = base_of(types_of(Config)[name])
    if kind in (int, float) and isinstance(value, str):
        value = float(value)
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


def same(*names: str) -> dict[str, Option]:
    """Options that are called here what they are called there."""
    return {name: Option(name) for name in names}


def switch(field: str, on: Any, off: Any, why: str = "") -> Option:
    """An option that is true or false there."""
    return Option(field, values={True: on, False: off, None: off}, why=why)


def absent(why: str) -> Option:
    """An option without counterpart."""
    return Option(absent=why)


def read_by(reader: Reader) -> Option:
    """An option that a function carries over."""
    return Option(read=reader)


def grouped() -> Option:
    """An option that means something only together with others; `Library.prepare` reads and removes it."""
    return Option(absent="it means something only together with others")


HALF_SQUARED = Option("vf_coef", factor=0.5, why="because its value loss is half of the squared error")
STOPS_AT_TARGET = Option("target_kl", factor=1 / 1.5, why="because here updates stop at 1.5 times it")
PER_MINIBATCH = switch(
    "norm_adv", "minibatch", "none", "per minibatch there, and kept so; trimtab's default is over the batch"
)


def _value_clip(value: Any, to: Translated) -> None:
    if value:
        to.fields["clip_vloss"] = "clip_coef"


def _activation(value: Any, to: Translated) -> None:
    to.fields["activation"] = activation_here(str(value))


def activation_here(name: str) -> str:
    """The name here of an activation function; NoCounterpart for one that trimtab does not have."""
    here = {"swish": "silu"}.get(name.lower(), name.lower())
    if here not in (choices_of(types_of(Config)["activation"]) or []):
        raise NoCounterpart("trimtab does not have this activation")
    return here


CLIPS_VALUE = read_by(_value_clip)  # a switch; the range is clip_coef
ACTIVATION = read_by(_activation)


# Logs -------------------------------------------------------------------------------------------------------

NOTHING: tuple[Numbers, Numbers] = (np.zeros(0, int), NO_NUMBERS)


@dataclass
class Sources:
    """What was found where a log is: numbers by tag, texts by tag, and the folder for other files of the library."""

    folder: Path
    scalars: dict[str, tuple[NDArray[Any], Numbers]] = field(default_factory=dict)  # steps and values
    texts: dict[str, str] = field(default_factory=dict)

    def of(self, *tags: str) -> tuple[NDArray[Any], Numbers]:
        """Steps and values of the first of these tags that was recorded; empty arrays if none was."""
        return next((self.scalars[tag] for tag in tags if tag in self.scalars), NOTHING)


@dataclass
class Details:
    """What is known beside the metrics: hyperparameters by their own names, single episodes, the action space."""

    hyperparameters: Values = field(default_factory=dict)
    batch: int | None = None  # samples of an iteration, where only the product of N and T shows
    offset: int = 0  # steps that the log's axis lags behind
    env_id: str | None = None
    action: Action | None = None
    returns: Numbers = field(default_factory=lambda: NO_NUMBERS)  # of single episodes, by step
    lengths: Numbers = field(default_factory=lambda: NO_NUMBERS)
    steps: Numbers = field(default_factory=lambda: NO_NUMBERS)
    evaluations: Numbers = field(default_factory=lambda: NO_NUMBERS)


@dataclass(frozen=True)
class LogFormat:
    """How one library logs."""

    marks: tuple[str, ...]
    """Tags by any of which its logs are recognized."""
    names: dict[str, str]
    """Metrics here by its tags."""
    details: Callable[[Sources], Details]
    """What the log and the files beside it say besides."""
    traces: tuple[str, ...] = ()
    """Patterns of files by which a run is recognized that logs no metrics."""
    negated: frozenset[str] = frozenset()
    """Tags with the opposite sign here."""
    axis: Literal["steps", "iterations", "calls"] = "steps"
    """What its x axis counts: iterations count from 0, a call steps all environments."""
    rates: tuple[float, float] = ADAPTIVE_RATES
    """Bounds of an adaptive learning rate."""


# Networks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetworkNames:
    """Where a library keeps its dense networks: layers are numbered under a prefix ("actor.0.weight").

    The last layer is the head, unless the head has a name of its own.
    """

    policy: str
    value: str
    policy_head: str = ""
    value_head: str = ""
    log_std: tuple[str, ...] = ()
    std: tuple[str, ...] = ()  # the standard deviation itself, not its logarithm
    observed: tuple[str, ...] = ()  # mean and deviation of observations, where they are stored with the weights
    observed_by_critic: tuple[str, ...] = ()
    values: str = ""  # mean and deviation that the critic's outputs are in units of
    needs_spread: bool = False  # another library has the same names but no standard deviation


# Libraries --------------------------------------------------------------------------------------------------


ATARI = re.compile(r"ALE/|.*NoFrameskip-v\d+$")


def of_environment(values: Values, env_id: str | None) -> Values:
    """The hyperparameters of one environment out of a file that may hold several by id, as RL Zoo's do."""
    if not values or not all(isinstance(each, dict) for each in values.values()):
        return values
    if env_id and ATARI.match(env_id) and "atari" in values and env_id not in values:
        env_id = "atari"
    if env_id not in values:
        near = nearest(env_id or "", values) or list(values)[:3]
        raise ConfigError("env_id", env_id, f"the file holds {len(values)} environments; nearest: {', '.join(near)}")
    return dict(values[env_id])


@dataclass(frozen=True)
class Library:
    """One library: everything that commands ask of it."""

    name: str
    """As one types it: sb3."""
    title: str
    """As its users call it: Stable-Baselines3."""
    options: dict[str, Option]
    """By its own names, in the order in which they are carried over."""
    fixed: Values = field(default_factory=dict)
    """Fields here that its users cannot choose."""
    always: tuple[str, ...] = ()
    """Remarks on every translation."""
    prepare: Callable[[Values, Translated], None] = lambda values, to: None
    """Reads and removes options that mean something only together."""
    finish: Callable[[Translated], None] = lambda to: None
    """Completes the fields after all options were carried over."""
    settings: Callable[[Values, str | None], Values] = of_environment
    """Hyperparameters out of a file of its own, for one environment if it holds several."""
    beside: Callable[[Path], Values] = lambda file: {}
    """Hyperparameters saved in or beside the file of a policy."""
    log: LogFormat | None = None
    networks: tuple[NetworkNames, ...] = ()
    phrases: Mapping[str, str] = field(default_factory=dict)
    """What gives the effect of a field for which it has no option; `{value}` and fields here are filled in."""
    activation_known: bool = True
    """Whether its files say the activation, or its default may be assumed."""

    def defaults(self) -> Values:
        """What it does where its user says nothing."""
        return {name: option.default for name, option in self.options.items() if option.default is not NOT_SET}

    def option_for(self, name: str) -> str | None:
        """The option that means the same as a field here."""
        return next((theirs for theirs, option in self.options.items() if option.field == name), None)


# Isaac Lab --------------------------------------------------------------------------------------------------


def agent_yaml(folder: Path) -> Values:
    """What Isaac Lab writes beside a log, whoever trains: params/agent.yaml of a run, or of the folder above it."""
    for place in (folder, folder.parent):
        file = place / "params" / "agent.yaml"
        if file.is_file():
            values = reading.read_yaml(file, python_tags=True)
            return values if isinstance(values, dict) else {}
    return {}


def known_options(options: Mapping[str, Option], *tables: Any) -> Values:
    """The options of a library in tables of its YAML, the later tables over the earlier."""
    return {k: v for table in tables if isinstance(table, dict) for k, v in table.items() if k in options}
