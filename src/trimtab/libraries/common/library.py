"""What a library declares: its options, its logs, its networks, its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.advise.evidence import NO_NUMBERS, Action, Numbers
from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.wording import nearest
from trimtab.libraries.common.foreign_options import NOT_SET, Option, Translated, Values
from trimtab.libraries.common.settings_text import Writer
from trimtab.math.optimizers import ADAPTIVE_RATES

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


def environment_in(values: Values, env_id: str | None) -> str | None:
    """The key of an environment in a file that holds several, as RL Zoo's do; None for a file of one."""
    if not values or not all(isinstance(each, dict) for each in values.values()):
        return None
    if env_id and ATARI.match(env_id) and "atari" in values and env_id not in values:
        return "atari"
    if env_id not in values:
        near = nearest(env_id or "", values) or list(values)[:3]
        raise ConfigError("env_id", env_id, f"the file holds {len(values)} environments; nearest: {', '.join(near)}")
    return env_id


def table_in(values: Any, path: str) -> Values:
    """A table of a file by its path with dots, in which numbers count entries of a list; empty where there is none."""
    for part in filter(None, path.split(".")):
        if isinstance(values, list) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        else:
            values = values.get(part) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def agent_yaml(folder: Path) -> Values:
    """The hyperparameters that Isaac Lab writes for every library: params/agent.yaml of a run, or one folder above."""
    for place in (folder, folder.parent):
        file = place / "params" / "agent.yaml"
        if file.is_file():
            values = reading.read_yaml(file, python_tags=True)
            return values if isinstance(values, dict) else {}
    return {}


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
    """Notes on every translation."""
    prepare: Callable[[Values, Translated], None] = lambda values, to: None
    """Reads and removes options that mean something only together."""
    finish: Callable[[Translated], None] = lambda to: None
    """Completes the fields after all options were carried over."""
    tables: tuple[str, ...] = ()
    """Tables of its YAML that hold options, the later over the earlier; none for a file without tables."""
    saved: Callable[[Path], Values] | None = None
    """Hyperparameters in the file of a policy; without it, those that Isaac Lab writes beside it."""
    forms: Mapping[str, Writer] = field(default_factory=dict)
    """How its users write settings, by name, the usual one first; empty where trimtab does not write them."""
    complete: Callable[[Values, Config], None] = lambda values, config: None
    """Adds options that mean something only together."""
    outside: Mapping[str, str] = field(default_factory=dict)
    """Options that its file does not hold, and how `{value}` is given instead."""
    per_rank: frozenset[str] = frozenset()
    """Options that count for each of the processes that train together."""
    log: LogFormat | None = None
    networks: tuple[NetworkNames, ...] = ()
    phrases: Mapping[str, str] = field(default_factory=dict)
    """How to get the effect of a field for which it has no option; `{value}` and fields here are filled in."""
    activation_known: bool = True
    """Whether its files contain the activation, or its default may be assumed."""

    def defaults(self) -> Values:
        """The values of options that its user does not give."""
        return {name: option.default for name, option in self.options.items() if option.default is not NOT_SET}

    def option_for(self, name: str) -> str | None:
        """The option that means the same as a field here."""
        return next((theirs for theirs, option in self.options.items() if option.field == name), None)

    def settings(self, values: Values, env_id: str | None = None) -> Values:
        """The hyperparameters in a file.

        Args:
            values: the contents of the file.
            env_id: for which environment, where the file holds several.

        Returns:
            Hyperparameters by their names there.
        """
        if not self.tables:
            key = environment_in(values, env_id)
            return dict(values[key]) if key else values
        return {k: v for path in self.tables for k, v in table_in(values, path).items() if k in self.options}

    def beside(self, file: Path) -> Values:
        """The hyperparameters in or beside the file of a policy."""
        if self.saved is not None:
            return self.saved(file)
        return self.settings(agent_yaml(file.parent)) if self.tables else {}
