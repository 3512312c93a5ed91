"""Change single values of a YAML file and leave every other byte as it is.

PyYAML's nodes say where in the text each value stands, so a value is replaced in place: comments, order, quotes and
line ends stay without a second YAML library. After every change the file is read again. What changed elsewhere,
through an anchor or a merge key, gets its old value back under its own key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import yaml

from trimtab.config import ConfigError
from trimtab.core import reading
from trimtab.libraries.common.foreign_options import tidy

Path = tuple[str | int, ...]
_PREFIX = re.compile(r"(?:&\S+\s+)?(?:!\S+\s+)?")  # an anchor and a tag before a value
_ALIAS = re.compile(r"\*[^\s,\]}]+")
_ABSENT: Any = object()


@dataclass(frozen=True)
class YamlFile:
    """The text of a YAML file."""

    text: str

    @property
    def values(self) -> Any:
        """What the file holds."""
        return reading.parse_yaml(self.text, python_tags=True)

    def set(self, path: Path, value: Any, default: Any = None) -> YamlFile:
        """Change one value, or add it to its table.

        Args:
            path: keys from the top, and numbers for entries of a list.
            value: a plain value.
            default: what another table gets that would inherit an added value.

        Returns:
            The file with this change and no other.
        """
        before, changed = self.values, self._written(path, value)
        settled = {path[: k + 1] for k in range(len(path))}  # with the tables that were added for it
        while inherited := [each for each in _differences(before, changed.values) if each[0] not in settled]:
            place, old = inherited[0]
            changed = changed._written(place, default if old is _ABSENT else old)
            settled.add(place)
        return changed

    def _written(self, path: Path, value: Any) -> YamlFile:
        """The file with one value replaced or added, whatever else that changes."""
        table, name = self._table(path[:-1]), str(path[-1])
        if table is None:
            return self._written(path[:-1], {name: value})
        for key, node in table.value:
            if key.value == name:
                return self._replaced(key, node, value)
        return self._added(table, f"{name}: {_in_yaml(value)}")

    def _table(self, path: Path) -> yaml.MappingNode | None:
        """The node of a table; None where there is none of its own."""
        node = yaml.compose(self.text, yaml.SafeLoader)
        for part in path:
            if isinstance(node, yaml.SequenceNode):
                node = node.value[int(part)]
            else:
                node = next((value for key, value in node.value if key.value == part), None)
            if node is None:
                return None
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(".".join(map(str, path)), None, "is not a table of this file")
        return node

    def _replaced(self, key: yaml.Node, node: yaml.Node, value: Any) -> YamlFile:
        begin, end = node.start_mark.index, node.end_mark.index
        if begin < key.end_mark.index:  # an alias: its node is where the anchor stands
            alias = _ALIAS.search(self.text, key.end_mark.index)
            assert alias is not None
            return self._with(alias.start(), alias.end(), _in_yaml(value))
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            raise ConfigError(key.value, value, "spans several lines of this file; change it by hand")
        kept = _PREFIX.match(self.text, begin, end)
        prefix = kept.group() if kept else ""
        prefix = re.sub(r"!\S+\s+", "", prefix) if not isinstance(value, int | float) else prefix
        return self._with(begin, end, prefix + _in_yaml(value))

    def _added(self, table: yaml.MappingNode, entry: str) -> YamlFile:
        """The file with one more entry in a table, after its last value on one line."""
        if table.flow_style:
            end = table.end_mark.index - 1
            filled = self.text[table.start_mark.index + 1 : end].rstrip()
            at = end - (len(self.text[:end]) - len(self.text[:end].rstrip()))
            comma = "" if not filled else " " if filled.endswith(",") else ", "
            return self._with(at, at, comma + entry)
        indent = " " * table.value[0][0].start_mark.column
        for key, node in reversed(table.value):
            is_alias = node.start_mark.index < key.end_mark.index
            if is_alias or isinstance(node, yaml.ScalarNode) or node.flow_style:
                last = key.end_mark.index if is_alias else node.end_mark.index
                end = self.text.find("\n", last)
                end = len(self.text) if end < 0 else end
                line_end = "\r\n" if self.text[:end].endswith("\r") else "\n"
                at = end - len(line_end) + 1
                return self._with(at, at, f"{line_end}{indent}{entry}")
        first = table.value[0][0].start_mark.index
        return self._with(first, first, f"{entry}\n{indent}")

    def _with(self, begin: int, end: int, text: str) -> YamlFile:
        return replace(self, text=self.text[:begin] + text + self.text[end:])


def _differences(before: Any, after: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Places whose value is another one, each with the old value; _ABSENT where there was none."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        pairs = [(key, before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(k, old, new) for k, (old, new) in enumerate(zip(before, after))]
    else:
        return [] if before == after or before is after or (before != before and after != after) else [(path, before)]
    return [found for key, old, new in pairs for found in _differences(old, new, (*path, key))]


def number_text(value: float) -> str:
    """The shortest text that YAML 1.1 reads as this number."""
    mantissa, e, exponent = repr(tidy(value)).partition("e")
    return mantissa + ("" if "." in mantissa or not (e or mantissa.lstrip("-").isdigit()) else ".0") + e + exponent


def _in_yaml(value: Any) -> str:
    """A plain value on one line."""
    if isinstance(value, float) and not isinstance(value, bool):
        return number_text(value)
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("\n...\n").strip()
