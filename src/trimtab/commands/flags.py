"""Command-line options from dataclass fields: one definition of every option, its help text included.

A field's help is the string below it. Values are read by the field's type, `none` stands for None, and whatever cannot
be read is refused in one line with the nearest valid names.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import itertools
import sys
import textwrap
from typing import Any, NoReturn

import yaml

from trimtab.fields import ConfigError, base_of, choices_of, element_of, optional, types_of
from trimtab.wording import nearest, plain

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
                close = nearest(flag, options)
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
    helps, kinds = field_help(cls), types_of(cls)
    for item in dataclasses.fields(cls):
        kind, flag = base_of(kinds[item.name]), "--" + item.name.replace("_", "-")
        choices = choices_of(kinds[item.name])
        default = getattr(defaults, item.name) if defaults is not None else item.default
        shown = "none" if default is dataclasses.MISSING else plain(default)
        text = f"{helps.get(item.name, '')} (default: {shown})".replace("%", "%%")
        shared = {"dest": item.name, "default": argparse.SUPPRESS, "help": text}
        if kind is bool:
            parser.add_argument(flag, metavar="true|false", **shared)
        elif kind is tuple:
            metavar = "N" if element_of(kinds[item.name]) is int else "NAME"
            parser.add_argument(flag, nargs="*", metavar=metavar, **shared)
        else:
            parser.add_argument(flag, metavar="|".join(choices) if choices else kind.__name__.upper(), **shared)


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
    kinds = types_of(cls)
    return {name: parse(name, kind, getattr(given, name)) for name, kind in kinds.items() if hasattr(given, name)}


_WANTED = {bool: "true or false", int: "a whole number", float: "a number", dict: "a YAML mapping"}


def parse(name: str, kind: Any, raw: Any) -> Any:
    """One value from text: 1e6 and 500_000 are whole numbers too, none is None."""
    if isinstance(raw, list):
        words = [part for word in raw for part in word.replace(",", " ").split()]
        if optional(kind)[1] and words == ["none"]:
            return None
        return tuple(parse(name, element_of(kind), word) for word in words)
    if raw is None or not isinstance(raw, str):
        return raw
    if optional(kind)[1] and raw.lower() in ("none", "null", "off"):
        return None
    base = base_of(kind)
    try:
        if base is bool:
            return _TRUTH[raw.lower()]
        if base is int:
            number = float(raw) if any(c in raw for c in ".eE") else int(raw)
            if number != int(number):
                raise ValueError
            return int(number)
        if base is float:
            return float(raw)
        if base is dict:
            return yaml.safe_load(raw)
    except (ValueError, KeyError, OverflowError, yaml.YAMLError):
        raise ConfigError(name, raw, f"must be {_WANTED[base]}") from None
    return raw
