"""Hyperparameters of another library as its users write them: YAML, a command, a call in Python."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any

import yaml

from trimtab.config import Config
from trimtab.libraries.common.foreign_options import Option, Values

Writer = Callable[[Values, Config], str]


class _Dumper(yaml.SafeDumper):
    """Lists of plain values on one line, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: _Dumper, data: list[Any]) -> yaml.SequenceNode:
    plain = not any(isinstance(each, dict | list) for each in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=plain)


_Dumper.add_representer(list, _represent_list)


def dump(values: Any) -> str:
    """Plain values as YAML, in their order."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def in_tables(options: dict[str, Option], frame: Callable[[Values, Config], Values], outside: frozenset[str]) -> Writer:
    """YAML in which every option stands in its table.

    Args:
        options: of the library.
        frame: the rest of the file: tables with constants.
        outside: options that are given elsewhere.

    Returns:
        What writes values.
    """

    def write(values: Values, config: Config) -> str:
        inside = {name: value for name, value in values.items() if name not in outside}
        top = {name: value for name, value in inside.items() if not options[name].at}
        tree = top | frame(values, config)
        for name, value in inside.items():
            table: Any = tree
            for part in filter(None, options[name].at.split(".")):
                table = table[int(part)] if part.isdigit() else table.setdefault(part, {})
            table[name] = value
        return dump(tree)

    return write


def as_flags(program: str) -> Writer:
    """A command: --name value, and --name or --no-name for switches."""

    def write(values: Values, config: Config) -> str:
        words = [program]
        for name, value in values.items():
            flag = name.replace("_", "-")
            words.append(
                f"--{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f"--{flag} {quote(str(value))}"
            )
        return " \\\n  ".join(words) + "\n"

    return write


def as_call(function: str, first: str = "") -> Writer:
    """A call with keyword arguments."""

    def write(values: Values, config: Config) -> str:
        lines = [f"    {name}={value!r},\n" for name, value in values.items()]
        return f"{function}(\n{first and f'    {first},' + chr(10)}{''.join(lines)})\n"

    return write
