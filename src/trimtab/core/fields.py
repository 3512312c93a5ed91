"""What a field of a configuration may hold, declared on the field and checked here.

`static`, `traced` and `around` declare a field with its range and what it needs; `check_types`, `check_ranges` and
`check_needs` hold an instance to its declarations. Every refusal is one line that names the field, the value and the
nearest valid ones. Types are read with `typing`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, Union

from trimtab.core.errors import UserError
from trimtab.core.wording import nearest, plain

WIDEST = 65_536  # of a layer
Part = Literal["static", "traced", "around"]
Place = str | PathLike[str]  # a directory or a file


class ConfigError(UserError, ValueError):
    """A configuration no run can have; the message is one line and names the field and nearby valid values."""

    def __init__(self, name: str, value: Any, problem: str):
        self.field = name
        super().__init__(f"{name}={_shortened(value)}: {problem}")


def _shortened(value: Any) -> str:
    """A value as Python writes it, cut where a message would become longer than a line."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


# Declaring -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """When an option has any effect, and what to say where it has none."""

    holds: Callable[[Any], bool]
    otherwise: str


@dataclass(frozen=True)
class Word:
    """How an option is written on the command line, where the type of its field does not say it."""

    shown: bool = True
    """False: only in Python."""
    position: bool | None = None
    """Whether it stands by position; a field without a default does if this is None."""
    flag: str | None = None
    """Its name there, for example --from; of a switch that starts with --no-, the opposite."""
    metavar: str | None = None
    nargs: str | None = None
    const: str | None = None
    """The value of an option without a value (nargs "?")."""
    read: Callable[[Any], Any] | None = None
    """Makes a value of the words."""
    pairs: bool = False
    """Takes the words NAME=VALUE from anywhere on the line."""


@dataclass(frozen=True)
class FieldSpec:
    """What stands on a field: its part in a program, its range (inclusive), whether 0 is left out, what it needs."""

    part: Part = "static"
    low: float = -math.inf
    high: float = math.inf
    positive: bool = False
    needs: tuple[Need, ...] = ()
    explained: Mapping[str, str] = field(default_factory=dict)  # what each choice does, where choices are registered
    group: str = ""  # the heading of `--help` that begins with this field
    word: Word = Word()


def static(
    default: Any,
    *needs: Need,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    explained: Mapping[str, str] | None = None,
    group: str = "",
) -> Any:
    """A field that sets a shape or selects code."""
    declared = FieldSpec("static", low, high, positive, needs, explained or {}, group)
    return dataclasses.field(default=default, metadata={"declared": declared})


def traced(
    default: Any,
    *needs: Need,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    group: str = "",
) -> Any:
    """A field that is only numbers inside the compiled program."""
    declared = FieldSpec("traced", low, high, positive, needs, group=group)
    return dataclasses.field(default=default, metadata={"declared": declared})


def around(default: Any, *needs: Need, low: float = -math.inf, high: float = math.inf, group: str = "") -> Any:
    """A field that no compiled program reads, only what is around it: when to evaluate, where to start."""
    declared = FieldSpec("around", low, high, False, needs, group=group)
    return dataclasses.field(default=default, metadata={"declared": declared})


def option(
    default: Any,
    *needs: Need,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    **word: Any,
) -> Any:
    """An option of an operation, with its range, what it needs, and how it is written on the command line.

    Args:
        default: its value where it is not given.
        needs: when it has an effect.
        low: the smallest number allowed.
        high: the largest number allowed.
        positive: whether 0 is left out.
        word: fields of `Word`.

    Returns:
        The field.
    """
    metadata = {"declared": FieldSpec(low=low, high=high, positive=positive, needs=needs, word=Word(**word))}
    return dataclasses.field(default=default, metadata=metadata)


def written(explained: Mapping[str, str] | None = None, **word: Any) -> dict[str, FieldSpec]:
    """The metadata of an option that has to be given: `field(metadata=written(flag="--to"))`.

    Args:
        explained: what its words mean, where they are registered elsewhere.
        word: fields of `Word`.

    Returns:
        The metadata.
    """
    return {"declared": FieldSpec(explained=explained or {}, word=Word(**word))}


def part_of(item: dataclasses.Field) -> Part:
    """Static, traced or around: the part of a field in a compiled program."""
    return item.metadata["declared"].part


def declaration(item: dataclasses.Field) -> FieldSpec:
    """What stands on a field."""
    return item.metadata.get("declared", _PLAIN)


_PLAIN = FieldSpec()


def declared_of(cls: Any, name: str) -> FieldSpec:
    """What stands on a field."""
    return declaration(next(item for item in dataclasses.fields(cls) if item.name == name))


# Reading types ---------------------------------------------------------------------------------------------


@functools.cache
def types_of(cls: Any) -> dict[str, Any]:
    """The type of every field of a dataclass, by name."""
    hints = typing.get_type_hints(cls)
    return {item.name: hints[item.name] for item in dataclasses.fields(cls)}


def optional(kind: Any) -> tuple[Any, bool]:
    """(the type without None, whether None was allowed)."""
    if typing.get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    others = [part for part in typing.get_args(kind) if part is not types.NoneType]
    return functools.reduce(lambda a, b: a | b, others), len(others) < len(typing.get_args(kind))


def base_of(kind: Any) -> type:
    """The class behind a type: int for int | None and int | Literal["all"], tuple for tuple[int, ...]."""
    kind, _ = optional(kind)
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        others = [each for each in typing.get_args(kind) if typing.get_origin(each) is not Literal]
        return base_of(others[0]) if len(others) == 1 else origin
    return origin or kind


def element_of(kind: Any) -> type:
    """int for tuple[int, ...]."""
    return typing.get_args(optional(kind)[0])[0]


def choices_of(kind: Any) -> list[str] | None:
    """The words a Literal type allows; None for other types."""
    kind, _ = optional(kind)
    return list(typing.get_args(kind)) if typing.get_origin(kind) is Literal else None


def words_of(kind: Any) -> list[str]:
    """The words that a type allows, also beside other values."""
    each = [kind, *typing.get_args(kind)]
    return [word for one in each if typing.get_origin(one) is Literal for word in typing.get_args(one)]


# Checking --------------------------------------------------------------------------------------------------


def as_written(name: str, value: Any) -> Any:
    """Options as a file can hold them: tuples become lists, anything else is refused."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: as_written(f"{name}.{key}", inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_written(name, inner) for inner in value]
    raise ConfigError(name, value, "cannot be written to a file; numbers, words, lists and dictionaries of them can")


def check_types(instance: Any, names: Iterable[str] | None = None) -> None:
    """Every field of a dataclass, or each of some, holds a value of its type."""
    kinds = types_of(instance.__class__)
    for name in kinds if names is None else names:
        _check_type(name, kinds[name], getattr(instance, name))


def _check_type(name: str, kind: Any, value: Any) -> None:
    """Types by hand: values come from YAML and from code, and a wrong one must be named, not crash later."""
    if kind is Any:
        return
    _, may_be_none = optional(kind)
    choices, base = choices_of(kind), base_of(kind)
    if (value is None and may_be_none) or (choices is None and isinstance(value, str) and value in words_of(kind)):
        return
    if optional(kind)[0] == Place:
        if not isinstance(value, str | PathLike):
            raise ConfigError(name, value, "must be a directory or a file, by its path")
        return
    if choices is not None:
        if value not in choices:
            close = nearest(value, choices, count=1, cutoff=0.3)
            hint = f"; nearest: {close[0]}" if close else ""
            raise ConfigError(name, value, f"must be one of {', '.join(choices)}{hint}")
        return
    if value is None:
        raise ConfigError(name, value, "a value is needed")
    rule = (tuple, element_of(kind)) if base is tuple else base
    if rule in _VALID and not _VALID[rule](value):
        raise ConfigError(name, value, f"must be {_WANTED[rule]}")


_VALID: dict[Any, Callable[[Any], bool]] = {
    (tuple, int): lambda v: isinstance(v, tuple) and all(isinstance(n, int) and 1 <= n <= WIDEST for n in v),
    (tuple, str): lambda v: isinstance(v, tuple) and all(isinstance(word, str) and word for word in v),
    bool: lambda v: isinstance(v, bool),
    int: lambda v: isinstance(v, int) and not isinstance(v, bool),
    float: lambda v: isinstance(v, int | float) and not isinstance(v, bool) and not math.isnan(v),
    str: lambda v: isinstance(v, str) and v != "",
    dict: lambda v: isinstance(v, dict),
}
_WANTED: dict[Any, str] = {
    (tuple, str): "a list of names",
    (tuple, int): f"a list of widths from 1 to {WIDEST}, for example 64 64",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a name",
    dict: "a mapping, for example {is_slippery: false}",
}


def _bound(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e12 else f"{value:.9g}"


def check_ranges(instance: Any) -> None:
    """Every number lies in the range declared on its field."""
    kinds = types_of(instance.__class__)
    for item in dataclasses.fields(instance):
        value, declared = getattr(instance, item.name), declaration(item)
        if value is None or not isinstance(value, int | float):
            continue
        low, high = declared.low, declared.high
        if not low <= value <= high:
            near = _bound(min(max(value, low), high)).replace(",", "")
            allowed = (
                f"must be from {_bound(low)} to {_bound(high)}" if math.isfinite(high) else f"must be at least {near}"
            )
            raise ConfigError(item.name, value, f"{allowed}; nearest: {near}")
        if declared.positive and value == 0:
            off = "; none switches it off" if optional(kinds[item.name])[1] else ""
            raise ConfigError(item.name, 0, f"must be above 0{off}")


def check_needs(instance: Any) -> None:
    """An option that would be ignored is refused, so that nothing is parsed and forgotten."""
    for item in dataclasses.fields(instance):
        value = getattr(instance, item.name)
        for need in declaration(item).needs:
            if value != item.default and not need.holds(instance):
                raise ConfigError(item.name, value, f"{need.otherwise}; nearest: {plain(item.default)}")


def as_declared(kind: type, value: Any) -> Any:
    """YAML has no tuples, and YAML 1.1 reads 3e-4 as text; NumPy's numbers are numbers, and 1e6 is a whole one."""
    if kind is tuple and isinstance(value, list):
        return tuple(value)
    if type(value).__module__ == "numpy" and value.shape == ():
        value = value.item()
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is float and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def divisors(total: int) -> list[int]:
    """All of them, in order."""
    return sorted({d for k in range(1, math.isqrt(total) + 1) if total % k == 0 for d in (k, total // k)})


def neighbours(valid: Iterable[int], number: int) -> list[int]:
    """The valid numbers on either side of `number`."""
    below, above = [n for n in valid if n <= number], [n for n in valid if n >= number]
    return sorted({*([max(below)] if below else []), *([min(above)] if above else [])})


def nearest_divisors(total: int, number: int) -> list[int]:
    """The divisors of `total` on either side of `number`."""
    return neighbours(divisors(total), number)
