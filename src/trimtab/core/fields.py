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
from typing import Any, Literal, Union

from trimtab.core.errors import UserError
from trimtab.core.wording import nearest, plain

WIDEST = 65_536  # of a layer
Part = Literal["static", "traced", "around"]


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
class FieldSpec:
    """What stands on a field: its part in a program, its range (inclusive), whether 0 is left out, what it needs."""

    part: Part = "static"
    low: float = -math.inf
    high: float = math.inf
    positive: bool = False
    needs: tuple[Need, ...] = ()
    explained: Mapping[str, str] = field(default_factory=dict)  # what each choice does, where choices are registered


def static(
    default: Any,
    *needs: Need,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    explained: Mapping[str, str] | None = None,
) -> Any:
    """A field that sets a shape or selects code."""
    declared = FieldSpec("static", low, high, positive, needs, explained or {})
    return dataclasses.field(default=default, metadata={"declared": declared})


def traced(default: Any, *needs: Need, low: float = -math.inf, high: float = math.inf, positive: bool = False) -> Any:
    """A field that is only numbers inside the compiled program."""
    return dataclasses.field(default=default, metadata={"declared": FieldSpec("traced", low, high, positive, needs)})


def around(default: Any, *needs: Need, low: float = -math.inf, high: float = math.inf) -> Any:
    """A field that no compiled program reads, only what is around it: when to evaluate, where to start."""
    return dataclasses.field(default=default, metadata={"declared": FieldSpec("around", low, high, False, needs)})


def part_of(item: dataclasses.Field) -> Part:
    """Static, traced or around: the part of a field in a compiled program."""
    return item.metadata["declared"].part


def declared_of(cls: Any, name: str) -> FieldSpec:
    """What stands on a field."""
    return next(item for item in dataclasses.fields(cls) if item.name == name).metadata["declared"]


# Reading types ---------------------------------------------------------------------------------------------


@functools.cache
def types_of(cls: type) -> dict[str, Any]:
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
    """The class behind a type: int for int | None, tuple for tuple[int, ...]."""
    kind, _ = optional(kind)
    return typing.get_origin(kind) or kind


def element_of(kind: Any) -> type:
    """int for tuple[int, ...]."""
    return typing.get_args(optional(kind)[0])[0]


def choices_of(kind: Any) -> list[str] | None:
    """The words a Literal type allows; None for other types."""
    kind, _ = optional(kind)
    return list(typing.get_args(kind)) if typing.get_origin(kind) is Literal else None


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


def check_types(instance: Any) -> None:
    """Every field of a dataclass holds a value of its type."""
    for name, kind in types_of(instance.__class__).items():
        _check_type(name, kind, getattr(instance, name))


def _check_type(name: str, kind: Any, value: Any) -> None:
    """Types by hand: values come from YAML and from code, and a wrong one must be named, not crash later."""
    _, may_be_none = optional(kind)
    choices, base = choices_of(kind), base_of(kind)
    if value is None and may_be_none:
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
    if not _VALID[rule](value):
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
        value, declared = getattr(instance, item.name), item.metadata["declared"]
        if value is None or not isinstance(value, int | float):
            continue
        low, high = declared.low, declared.high
        if not low <= value <= high:
            near = _bound(min(max(value, low), high)).replace(",", "")
            raise ConfigError(item.name, value, f"must be from {_bound(low)} to {_bound(high)}; nearest: {near}")
        if declared.positive and value == 0:
            off = "; none switches it off" if optional(kinds[item.name])[1] else ""
            raise ConfigError(item.name, 0, f"must be above 0{off}")


def check_needs(instance: Any) -> None:
    """An option that would be ignored is refused, so that nothing is parsed and forgotten."""
    for item in dataclasses.fields(instance):
        value = getattr(instance, item.name)
        for need in item.metadata["declared"].needs:
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
