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
from trimtab.config import ConfigError
from trimtab.core.wording import nearest
from trimtab.libraries.common.options import NOT_SET, Option, Translated, Values
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
