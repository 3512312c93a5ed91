"""What a finding advises: fields to move, the values that the tuning notes sweep, and advice without contradictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trimtab.config import Config, ConfigError, from_dict

LEARNING_RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
EPOCHS = (1, 2, 4)
CLIP_NORMS = (0.5, 1.0, 2.0)
GAMMAS = (0.95, 0.98, 0.99, 0.995, 0.999)
ENTROPY = {"discrete": 0.01, "continuous": 0.001}
ENTROPY_FACTORS = (0.3, 1.0, 3.0)
ENTROPY_ANNEALED = (0.0, 0.5, 0.8)  # the last shares of training over which the bonus falls to 0
VALUE_RATE_FACTORS = (1.0, 2.0)  # of the policy's learning rate
EQUAL = 1e-6  # relative difference below which two values are the same step of a ladder

Direction = Literal["raise", "lower", "set"]
# Fields that move the same thing: the axis, and whether a higher value moves it up.
AXES = {"desired_kl": ("learning_rate", True), "minibatch_size": ("num_minibatches", False)}


# The values that are swept ----------------------------------------------------------------------------------


def below(value: float, ladder: tuple[float, ...]) -> float:
    """The next lower value of a ladder; below the lowest, a third of the value."""
    return max((step for step in ladder if step < value * (1 - EQUAL)), default=_two_digits(value / 3))


def _above(value: float, ladder: tuple[float, ...]) -> float:
    """The next higher value of a ladder; above the highest, three times the value."""
    return min((step for step in ladder if step > value * (1 + EQUAL)), default=_two_digits(value * 3))


def around(value: float, ladder: tuple[float, ...]) -> tuple[float, ...]:
    """The value with its neighbors on a ladder, where there are any."""
    return tuple(v for v in (below(value, ladder), value, _above(value, ladder)) if v == value or v in ladder)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


# One thing to try -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Remedy:
    """One way to act on a finding."""

    direction: Direction
    field: str
    value: Any = None
    """What to set the field to; None where only the direction is known."""
    words: str = ""
    """In place of "lower FIELD", with `{name}` where the name of the option belongs."""
    also: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other fields that the first one needs."""

    @property
    def axis(self) -> str:
        """What it moves; two remedies with one axis may contradict each other."""
        return AXES.get(self.field, (self.field, True))[0]

    @property
    def sense(self) -> Any:
        """Which way it moves its axis: True is up, False is down; for a setting, the value."""
        if self.direction == "set":
            return self.value
        return (self.direction == "raise") == AXES.get(self.field, (self.field, True))[1]

    @property
    def change(self) -> dict[str, Any]:
        """The fields to set; empty where no value is suggested."""
        return {} if self.value is None else {self.field: self.value, **self.also}


def reduce_step(config: Config) -> Remedy:
    """Smaller updates. An adaptive learning rate follows the KL, so the KL that it follows is lowered."""
    if config.anneal_lr == "adaptive":
        return Remedy("lower", "desired_kl", config.desired_kl / 2)
    return Remedy("lower", "learning_rate", below(config.learning_rate, LEARNING_RATES))


def increase_step(config: Config) -> Remedy:
    """Larger updates, likewise."""
    if config.anneal_lr == "adaptive":
        return Remedy("raise", "desired_kl", config.desired_kl * 2)
    return Remedy("raise", "learning_rate", _above(config.learning_rate, LEARNING_RATES))


def larger_batch(config: Config, factor: int = 2) -> Remedy:
    """More environments, which leaves T and the bias as they are."""
    return Remedy("raise", "num_envs", factor * config.num_envs, "take a larger batch (raise {name})")


def fewer_epochs(config: Config) -> Remedy:
    return Remedy("lower", "update_epochs", 1, "use fewer epochs (lower {name})")


# Which of them are advised ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wording:
    """An option under its name in the library that trained a run."""

    name: str
    value: Any = None
    phrase: str = ""
    """What to write there where no option does the same, for example VecNormalize(norm_reward=True)."""


Dictionary = Callable[[str, Any, Config], Wording | None]
"""From a field, a value and the configuration to its wording in a library; None where it has nothing for it."""


def own_words(name: str, value: Any, config: Config) -> Wording:
    """Fields under the names they have here."""
    return Wording(name, value)


@dataclass(frozen=True)
class _Advice:
    """What a finding says to do."""

    text: str
    change: dict[str, Any]
    moves: str = ""
    """The first remedy by our names: "lower learning_rate"."""


class Adviser:
    """Words the remedies of one run in the order of work, and drops those that contradict earlier ones."""

    def __init__(self, config: Config, dictionary: Dictionary = own_words):
        self.config, self.dictionary = config, dictionary
        self._moved: dict[str, tuple[Any, str]] = {}  # by axis: which way, and the first check that advised it

    def advice(self, check: str, meaning: str, remedies: Iterable[Remedy]) -> _Advice:
        """The advice of one finding.

        Args:
            check: the rule; remembered, so that later findings can refer to it.
            meaning: what the evidence means.
            remedies: what to try, the best first.

        Returns:
            The meaning with the remedies that this configuration, its library and earlier advice leave, and the
            fields that the first of them changes.
        """
        useful = [remedy for remedy in remedies if not self._is_done(remedy)]
        opposed = [remedy for remedy in useful if self._opposed_by(remedy)]
        worded = [(r, wording) for r in useful if r not in opposed and (wording := self._wording(r))]
        for remedy, _ in worded:
            self._moved.setdefault(remedy.axis, (remedy.sense, check))
        if not worded and opposed:
            first = opposed[0]
            text = f"but {self._opposed_by(first)} asks for the opposite change of {first.axis}: follow that first"
            return _Advice("; ".join(filter(None, [meaning, text])), {})
        text = " or ".join(_spoken(remedy, wording) for remedy, wording in worded)
        moves = f"{worded[0][0].direction} {worded[0][0].field}" if worded else ""
        return _Advice(": ".join(filter(None, [text, meaning])), self._change(worded), moves)

    def _is_done(self, remedy: Remedy) -> bool:
        """Whether the configuration has it already."""
        try:
            return bool(remedy.change) and from_dict(remedy.change, self.config) == self.config
        except ConfigError:
            return False

    def _opposed_by(self, remedy: Remedy) -> str:
        """The check whose advice this would undo; empty if there is none."""
        sense, check = self._moved.get(remedy.axis, (remedy.sense, ""))
        return check if sense != remedy.sense else ""

    def _wording(self, remedy: Remedy) -> Wording | None:
        return self.dictionary(remedy.field, remedy.value, self.config)

    def _change(self, worded: list[tuple[Remedy, Wording]]) -> dict[str, Any]:
        """The fields of the first remedy with a value that this configuration takes, under their names there."""
        for remedy, wording in worded:
            if not remedy.change or wording.phrase:
                continue
            try:
                from_dict(remedy.change, self.config)
            except ConfigError:
                continue
            others = {name: self.dictionary(name, value, self.config) for name, value in remedy.also.items()}
            return {wording.name: wording.value} | {other.name: other.value for other in others.values() if other}
        return {}


def _spoken(remedy: Remedy, wording: Wording) -> str:
    if wording.phrase:
        return f"use {wording.phrase}"
    return (remedy.words or f"{remedy.direction} {{name}}").format(name=wording.name)
