"""Options of operations and jobs: frozen dataclasses that are checked when they are made, and never again.

Types, ranges, choices and needs stand on the fields; the string below a field is its help.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trimtab.core import fields

T = TypeVar("T")


class _NotGiven:
    def __repr__(self) -> str:
        return "..."


NOT_GIVEN: Final[Any] = _NotGiven()  # the default where it matters whether an option was given


@dataclass(frozen=True)
class Options:
    """Values of declared fields, as they may be: NumPy's numbers become Python's, lists become tuples."""

    def __post_init__(self) -> None:
        cls: Any = type(self)
        kinds = fields.types_of(cls)
        items = (item for item in dataclasses.fields(self) if not item.metadata.get("deferred"))
        names = [item.name for item in items if not self._has_no_value(item)]
        for name in names:
            object.__setattr__(self, name, fields.as_declared(fields.base_of(kinds[name]), getattr(self, name)))
        fields.check_types(self, names)
        fields.check_ranges(self)
        fields.check_needs(self)

    def _has_no_value(self, item: dataclasses.Field) -> bool:
        """Whether an option was not given, or was given without a value."""
        value = getattr(self, item.name)
        return value is NOT_GIVEN or (isinstance(value, str) and value == fields.declaration(item).word.const)


def part(options: Any, cls: type[T]) -> T:
    """The options of one class among those of a class derived from it.

    Args:
        options: an instance of a derived class.
        cls: the class.

    Returns:
        An instance of the class, with the same values.
    """
    return cls(**{item.name: getattr(options, item.name) for item in dataclasses.fields(cls)})  # type: ignore[arg-type]


def given(options: Any, cls: Any) -> dict[str, Any]:
    """What was given of the fields of a class.

    Args:
        options: an instance of a class derived from `if_given(cls)`.
        cls: the class.

    Returns:
        The values that were given, by name.
    """
    values = {item.name: getattr(options, item.name) for item in dataclasses.fields(cls)}
    return {name: value for name, value in values.items() if value is not NOT_GIVEN}


def if_given(cls: type[T]) -> type[T]:
    """A base class with the fields of `cls`, whose values are NOT_GIVEN unless they are given.

    For type checkers it is `cls` itself, which must be declared with `kw_only`: write

        if TYPE_CHECKING: Overrides = Settings
        else: Overrides = if_given(Settings)

    Args:
        cls: a frozen dataclass.

    Returns:
        The base class. Nothing is checked: `cls` checks the values once they are complete.
    """
    complete: Any = cls
    kinds = fields.types_of(complete)
    deferred = {"deferred": True}
    absent = lambda: dataclasses.field(default=NOT_GIVEN, kw_only=True, metadata=deferred)
    items = [(name, kind, absent()) for name, kind in kinds.items()]
    made = dataclasses.make_dataclass(f"{cls.__name__}IfGiven", items, frozen=True)
    made.__module__, made.__doc__ = cls.__module__, cls.__doc__
    setattr(made, "complete", cls)  # noqa: B010
    return made
