"""Typed values as JSON and back, by the types of their fields. The only place where results become dictionaries.

`to_json` turns dataclasses, estimates, tuples, paths and NumPy numbers into what `json` can write. `from_json` makes a
value of a type from that again: unknown keys are ignored (a newer version wrote them), missing ones take their default.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")


class JsonMapping(Mapping[str, Any]):
    """A dataclass that also reads as the mapping that `--json` prints: `result["returns"]`."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        items = dataclasses.fields(self)  # type: ignore[arg-type]
        return {item.name: to_json(getattr(self, item.name)) for item in items}

    def __getitem__(self, name: str) -> Any:
        return self.as_dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def __len__(self) -> int:
        return len(self.as_dict())


def to_json(value: Any) -> Any:
    """A value as JSON can hold it.

    Args:
        value: a dataclass, or anything with `as_dict`; containers of them; plain values; NumPy numbers; paths.

    Returns:
        Dictionaries, lists, text, numbers, booleans and None.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_to_json(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [to_json(inner) for inner in value]
    if isinstance(value, PurePath):
        return str(value)
    if type(value).__module__ == "numpy":
        return to_json(value.tolist())
    if isinstance(value, int | float | str):  # subclasses: enumerations, np.float64
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fields_to_json(value: Any) -> dict[str, Any]:
    """A dataclass as JSON can hold it, an entry for each field; for the `as_dict` of a class."""
    return {item.name: to_json(getattr(value, item.name)) for item in dataclasses.fields(value)}


def from_json(kind: type[T], value: Any) -> T:
    """A value of a type from its JSON form.

    Args:
        kind: the type: a dataclass, a class with `from_dict`, or tuples, lists, mappings and optionals of them.
        value: what `to_json` made of such a value.

    Returns:
        The value. Raises ValueError where the JSON has another shape.
    """
    return _read(kind, value)


def fields_from_json(kind: type[T], value: Any) -> T:
    """A dataclass from a JSON object with an entry for each field; for the `from_dict` of a class."""
    _need(isinstance(value, Mapping), kind, value)
    hints, fields = _hints(typing.cast(Any, kind)), dataclasses.fields(typing.cast(Any, kind))
    known = {item.name for item in fields if item.init}
    return kind(**{name: _read(hints[name], inner) for name, inner in value.items() if name in known})


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or origin is Literal:
        return value
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value)
    if origin is tuple:
        _need(isinstance(value, list | tuple), kind, value)
        if arguments[1:] == (...,):
            return tuple(_read(arguments[0], inner) for inner in value)
        return tuple(_read(each, inner) for each, inner in zip(arguments, value, strict=True))
    if origin is list:
        _need(isinstance(value, list | tuple), kind, value)
        return [_read(arguments[0], inner) for inner in value]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _need(isinstance(value, Mapping), kind, value)
        return {_read_key(arguments[0], key): _read(arguments[1], inner) for key, inner in value.items()}
    if hasattr(kind, "from_dict"):
        return kind.from_dict(value)
    if dataclasses.is_dataclass(kind):
        return fields_from_json(typing.cast(Any, kind), value)
    if kind is float:
        _need(isinstance(value, int | float), kind, value)
        return float(value)
    if kind in (bool, int, str):
        _need(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)), kind, value)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(value)
    return value


def _read_key(kind: Any, key: str) -> Any:
    """A key of a JSON object, which is always text."""
    return kind(key) if kind in (int, float) else _read(kind, key)


def _read_union(kinds: tuple[Any, ...], value: Any) -> Any:
    """The first type of a union whose JSON form this is."""
    if value is None and types.NoneType in kinds:
        return None
    for kind in kinds:
        if isinstance(kind, type) and isinstance(value, kind):
            return value
    for kind in (each for each in kinds if each is not types.NoneType):
        try:
            return _read(kind, value)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    raise ValueError(f"{value!r} is none of {kinds}")


def _need(holds: bool, kind: Any, value: Any) -> None:
    if not holds:
        raise ValueError(f"{value!r} is no {kind}")
