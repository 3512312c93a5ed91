"""Hyperparameters of other libraries: the meaning of each here, and the conversion of its values in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trimtab.config import Config, from_dict
from trimtab.core.fields import base_of, choices_of, types_of
from trimtab.nets.families import FAMILIES

Values = dict[str, Any]  # hyperparameters by name, as files and command lines give them
NOT_SET: Any = object()
WIDTHS = (64, 64)  # of dense networks, where a configuration does not say


@dataclass
class Translated:
    """Fields here, notes on differences, and options without a counterpart."""

    fields: Values = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def config(self, env_id: str | None) -> Config:
        """The configuration of these fields."""
        return from_dict(({"env_id": env_id} if env_id else {}) | self.fields)


class NoCounterpart(Exception):
    """Why a hyperparameter is left out."""


@dataclass(frozen=True)
class Option:
    """One hyperparameter of a library: its field here, or why it has none, and the conversion in both directions."""

    field: str = ""
    """The field that means the same."""
    absent: str = ""
    """Why it has no counterpart, and what happens instead."""
    read: Callable[[Any, Translated], None] | None = None
    """Sets the fields, where that takes more than a conversion."""
    write: Callable[[Config], Any] | None = None
    """The way back: its value for a configuration; NOT_SET leaves it out."""
    factor: float = 1.0
    """Value here over value there."""
    why: str = ""
    """Why the units differ, or a remark on every value."""
    values: Mapping[Any, Any] | None = None
    """Values here by values there, for switches and choices."""
    default: Any = NOT_SET
    """What the library does where its user gives no value, if trimtab does something else."""
    at: str = ""
    """The table of its files that holds it, with dots: params.config."""

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
            self._choose(self.values, value, to)
        elif self.factor == 1.0:
            to.fields[self.field] = _typed(self.field, value)
        elif value is not None:
            here = to.fields[self.field] = float(value) * self.factor
            to.notes.append(f"{self.field}: {float(value):g} becomes {here:g}, {self.why}")

    def _choose(self, values: Mapping[Any, Any], value: Any, to: Translated) -> None:
        key = value.lower() if isinstance(value, str) else value
        if key not in values:
            raise NoCounterpart(f"{value!r} is none of {', '.join(map(str, values))}")
        to.fields[self.field] = values[key]
        if self.why and value:
            to.notes.append(f"{self.field}: {self.why}")

    def there(self, value: Any) -> Any:
        """The value there of a value here; NOT_SET where there is none."""
        if value is None or not self.field:
            return value if self.field else NOT_SET
        if self.values is not None:
            return next((theirs for theirs, ours in self.values.items() if ours == value), NOT_SET)
        if isinstance(value, tuple):
            return list(value)
        return value / self.factor if self.factor != 1.0 else value

    def of(self, config: Config) -> Any:
        """The value there of a configuration; NOT_SET where there is none."""
        if self.write is not None:
            return self.write(config)
        return self.there(effective(config, self.field)) if self.field else NOT_SET


def tidy(value: float) -> float:
    """A number without the error of rounding that a way there and back leaves in its last digit."""
    short = float(f"{value:.12g}")
    return short if abs(short - value) <= 4e-16 * abs(value) else value


def effective(config: Config, name: str) -> Any:
    """The value of a field, also where it follows from others because it is not given."""
    if name in ("num_minibatches", "minibatch_size"):
        return config.minibatches if name == "num_minibatches" else config.minibatch
    if name == "value_epochs":
        return config.epochs_of_value
    value = getattr(config, name)
    family = FAMILIES.get(config.network)  # None: chosen by the observation
    dense = family is None or not family.sees_images
    return WIDTHS if name == "hidden_sizes" and value is None and dense else value


def _typed(name: str, value: Any) -> Any:
    """A number as its field wants it: 3e-4 may be text, and 1e6 a whole number."""
    kind = base_of(types_of(Config)[name])
    if kind in (int, float) and isinstance(value, str):
        value = float(value)
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


# Options of several libraries -------------------------------------------------------------------------------


def same(*names: str) -> dict[str, Option]:
    """Options that have the same name here and there."""
    return {name: Option(name) for name in names}


def inside(table: str, options: Mapping[str, Option]) -> dict[str, Option]:
    """Options of one table of a library's files."""
    return {name: replace(option, at=table) for name, option in options.items()}


def read_length(name: str, sizes: tuple[str, ...], values: Values, to: Translated) -> None:
    """Read and remove the length of a run that is counted in iterations or calls, each of a product of sizes."""
    count = values.pop(name, None)
    if not isinstance(count, int) or count < 1:
        return
    for size in sizes:
        if values.get(size) is None:
            to.left_out[name] = f"give {' and '.join(sizes)}: their product is its unit"
            return
        count *= int(values[size])
    to.fields["total_timesteps"] = count


def switch(field: str, on: Any, off: Any, why: str = "") -> Option:
    """An option that is true or false there."""
    return Option(field, values={True: on, False: off, None: off}, why=why)


def positive(option: Option) -> Option:
    """An option for which 0 means off, none here."""

    def read(value: Any, to: Translated) -> None:
        if value > 0:
            option.carry_over(value, to)
        elif getattr(Config, option.field) is not None:
            to.fields[option.field] = None

    return replace(option, read=read, write=lambda config: option.of(config) or 0.0)


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


NEVER = 1e9  # a norm that nothing reaches, where a library has no way to switch clipping off


def _gradient_norm(value: Any, to: Translated) -> None:
    to.fields["max_grad_norm"] = None if value is None or float(value) >= NEVER else float(value)


GRADIENT_NORM = Option("max_grad_norm", read=_gradient_norm, write=lambda config: config.max_grad_norm or NEVER)
GROUPED = Option(absent="it means something only together with others")  # `Library.prepare` reads and removes it
HALF_SQUARED = Option("vf_coef", factor=0.5, why="because its value loss is half of the squared error")
STOPS_AT_TARGET = Option("target_kl", factor=1 / 1.5, why="because trimtab stops updates at 1.5 times it")
PER_MINIBATCH = switch(
    "norm_adv", "minibatch", "none", "normalized per minibatch, as in the library; trimtab's default is over the batch"
)


def _clip_alone(value: Any, to: Translated) -> None:
    """A range; one that falls keeps its first value."""
    to.fields["clip_vloss"] = None if value is None else float(str(value).removeprefix("lin_"))
    if value is not None:
        to.fields["clip_vloss_form"] = "clipped"


CLIPS_VALUE_ALONE = Option("clip_vloss", read=_clip_alone)  # the clipped prediction alone makes the loss
CLIPS_VALUE = Option(read=_value_clip, write=lambda config: config.clip_vloss is not None)  # the range is clip_coef
ACTIVATION = Option("activation", read=_activation)
