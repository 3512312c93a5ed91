"""What a study answers: a frozen dataclass of plain values and estimates, which JSON keeps field by field."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from trimtab.core import markup
from trimtab.core.json_values import fields_from_json, fields_to_json


@dataclass(frozen=True)
class StudyTime:
    """What a study took, in seconds, interrupted attempts too."""

    work: float = 0.0
    """Of all its jobs, also those that other studies had done."""
    clock: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyResult:
    """The answer of a finished study, short in a prompt and a table in a notebook."""

    sentence: str = ""
    """The answer in a sentence or two."""
    command: str = ""
    """The command or the call that made it."""
    run: str = ""
    """The directory of the study."""
    page: str = ""
    """Its page."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: an entry for each field, and its place once it has one."""
        return {name: value for name, value in fields_to_json(self).items() if value or name not in ("run", "page")}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """From what `as_dict` made, also of other versions."""
        return fields_from_json(cls, entry)

    @property
    def lines(self) -> Iterator[tuple[object, ...]]:
        """What a notebook shows below the sentence: rows of up to three cells."""
        return iter(())

    def __getitem__(self, name: str) -> Any:
        """An entry of the JSON form, as when results were dictionaries (0.1.0)."""
        warnings.warn(f'result["{name}"] is deprecated; use result.{name}', DeprecationWarning, stacklevel=2)
        return self.as_dict()[name]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run}: {self.sentence or f'{len(fields(self))} entries'})"

    def _repr_html_(self) -> str:
        return markup.table(self.sentence or self.run, [*self.lines, ("page", self.page, "")])
