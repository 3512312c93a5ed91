"""Command-line options from dataclass fields: one definition of every option, its help text included.

A field's help is the string below it. Values are read by the field's type, `none` stands for None, and whatever cannot
be read is refused in one line with the nearest valid names.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import inspect
import itertools
import sys
import textwrap
from typing import Any, NoReturn

import yaml

from trimtab.config import ConfigError, choices_of

_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and exit with code 2."""

    def error(self, message: str) -> NoReturn:
        fail(message)

    def _spelled(self, argv: list[str]) -> list[str]:
        switches = {o for a in self._actions if a.metavar == "true|false" for o in a.option_strings}
        return _joined(argv, switches)

    def parse(self, argv: list[str]) -> argparse.Namespace:
        known, unknown = self.parse_known_args(self._spelled([_dashed(a) for a in argv]))
        if unknown:
            flag = next((u for u in unknown if u.startswith("-")), unknown[0])
            if flag.startswith("-"):
                options = [o for action in self._actions for o in action.option_strings if o.startswith("--")]
                close = difflib.get_close_matches(flag, options, n=3)
                fail(f"{flag}: no such option; nearest: {', '.join(close) or 'see --help'}")
            fail(f"{flag}: one value too many; see --help")
        return known


def _joined(argv: list[str], switches: set[str]) -> list[str]:
    """--quiet and --quiet true both become --quiet=true, so that a switch never swallows what follows it."""
    spelled, rest = [], list(argv)
    while rest:
        word = rest.pop(0)
        if word in switches:
            value = rest.pop(0) if rest and rest[0].lower() in _TRUTH else "true"
            word = f"{word}={value}"
        spelled.append(word)
    return spelled


def fail(message: str) -> NoReturn:
    """Say what is wrong in one line and exit with code 2."""
    print("trimtab: " + " ".join(str(message).split()), file=sys.stderr)
    raise SystemExit(2)


def _dashed(argument: str) -> str:
    """--num_envs is --num-envs."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def add_fields(parser: argparse.ArgumentParser, cls: type, defaults: Any = None) -> None:
    """An option for every field of a dataclass; options not given are absent from the namespace."""
    helps = field_help(cls)
    for item in dataclasses.fields(cls):
        type_name, flag = str(item.type), "--" + item.name.replace("_", "-")
        choices = choices_of(type_name)
        default = getattr(defaults, item.name) if defaults is not None else item.default
        text = f"{helps.get(item.name, '')} (default: {_show(default)})".replace("%", "%%")
        shared = {"dest": item.name, "default": argparse.SUPPRESS, "help": text}
        if type_name == "bool":
            parser.add_argument(flag, metavar="true|false", **shared)
        elif type_name.startswith("tuple"):
            metavar = "NAME" if "str" in type_name else "N"
            parser.add_argument(flag, nargs="*", metavar=metavar, **shared)
        else:
            metavar = "|".join(choices) if choices else type_name.split("[")[0].replace(" | None", "").upper()
            parser.add_argument(flag, metavar=metavar, **shared)


def field_help(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, by name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    helps = {}
    for declared, below in itertools.pairwise(body):
        if isinstance(declared, ast.AnnAssign) and isinstance(below, ast.Expr):
            helps[declared.target.id] = " ".join(ast.literal_eval(below.value).split())
    return helps


def values(cls: type, given: argparse.Namespace) -> dict[str, Any]:
    """What was given for the fields of a dataclass, read by type."""
    read = {}
    for item in dataclasses.fields(cls):
        if hasattr(given, item.name):
            read[item.name] = parse(item.name, str(item.type), getattr(given, item.name))
    return read


def parse(name: str, type_name: str, raw: Any) -> Any:
    """One value from text: 1e6 and 500_000 are whole numbers too, none is None."""
    if isinstance(raw, list):
        kind = type_name.removeprefix("tuple[").split(",")[0]
        return tuple(parse(name, kind, part) for word in raw for part in word.replace(",", " ").split())
    if raw is None or not isinstance(raw, str):
        return raw
    if "None" in type_name and raw.lower() in ("none", "null", "off"):
        return None
    kind = type_name.replace(" | None", "")
    try:
        if kind == "bool":
            return _TRUTH[raw.lower()]
        if kind == "int":
            number = float(raw) if any(c in raw for c in ".eE") else int(raw)
            if number != int(number):
                raise ValueError
            return int(number)
        if kind == "float":
            return float(raw)
        if kind.startswith("dict"):
            return yaml.safe_load(raw)
    except (ValueError, KeyError, OverflowError, yaml.YAMLError):
        wanted = {"bool": "true or false", "int": "a whole number", "float": "a number"}.get(kind, "a YAML mapping")
        raise ConfigError(name, raw, f"must be {wanted}") from None
    return raw


def _show(value: Any) -> str:
    if value is None or value is dataclasses.MISSING:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
