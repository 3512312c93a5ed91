"""Command-line options from dataclass fields: one definition of every option, its help text included.

A field's help is the string below it. Values are read by the field's type, `none` stands for None, and whatever cannot
be read is refused in one line with the nearest valid names.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import os
import sys
import textwrap
from collections.abc import Callable, Collection
from typing import Any, NoReturn

import yaml

from trimtab.core import reading, trust
from trimtab.core.fields import ConfigError, base_of, choices_of, element_of, optional, types_of
from trimtab.core.wording import nearest, plain

_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Described(Exception):
    """Raised instead of parsing, by a parser that was only asked to be shown; it carries the parser."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and exit with code 2."""

    describing = False  # only show the parser of a command: completion and the documentation read it
    before_help: Callable[[Parser, list[str]], None] | None = None  # may add what is known from the other words

    def error(self, message: str) -> NoReturn:
        fail(message)

    def _spelled(self, argv: list[str]) -> list[str]:
        switches = {o for a in self._actions if a.metavar == "true|false" for o in a.option_strings}
        return _joined(argv, switches)

    def parse(self, argv: list[str]) -> argparse.Namespace:
        if Parser.describing:
            raise Described(self)
        trust.trust_named(*(word for word in argv if not os.path.lexists(word)))  # what the user names here
        words = self._spelled([_dashed(a) for a in argv])
        if self.before_help and {"-h", "--help"} & set(words):
            self.before_help(self, [word for word in words if word not in ("-h", "--help")])
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            flag = next((u for u in unknown if u.startswith("-")), unknown[0])
            self._refuse(flag) if flag.startswith("-") else fail(f"{flag}: {_too_many(flag, words)}")
        trust.trust(*(getattr(arguments, "trust", None) or ()))
        return arguments

    def parse_with_words(self, argv: list[str], foreign: bool = False) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and set aside the hyperparameters of another library, which may stand anywhere.

        Args:
            argv: the words of the command.
            foreign: also set aside options that the command does not have, with the word that follows each.

        Returns:
            The options of the command, and the words that were set aside, in order.
        """
        own: list[str] = []
        words: list[str] = []
        rest = list(argv)
        while rest:
            word = rest.pop(0)
            name = word.partition("=")[0]
            action = self._option_string_actions.get(_dashed(name))
            if action is not None:
                own += [word, *(_values_of(action, rest) if "=" not in word else [])]
            elif foreign and word.startswith("--"):
                has_value = rest and "=" not in word and "=" not in rest[0] and not rest[0].startswith("--")
                words += [word, *([rest.pop(0)] if has_value else [])]
            elif "=" in word and not word.startswith("-") and name.replace("-", "_").replace(".", "_").isidentifier():
                words.append(word)
            else:
                own.append(word)
        return self.parse(own), words

    def format_help(self) -> str:
        """Sixty options are listed below, not in the usage line too."""
        needed = [a for a in self._actions if a.required and a.option_strings]
        words = [f"{a.option_strings[0]} {a.metavar}" for a in needed]
        words += [_placeholder(a) for a in self._actions if not a.option_strings]
        self.usage = " ".join(["%(prog)s", *words, "[options]"])
        return super().format_help()

    def _refuse(self, flag: str) -> NoReturn:
        options = [o for action in self._actions for o in action.option_strings if o.startswith("--")]
        from trimtab.libraries.common.translation import option_here  # late: no other start of a command needs it

        if (name := option_here(flag, options)) is not None:
            fail(f"{flag}: no such option; here: {name}")
        close = nearest(flag, options)
        fail(f"{flag}: no such option; nearest: {', '.join(close) or 'see --help'}")

    def loosely(self, words: list[str]) -> argparse.Namespace | None:
        """What was given so far, also where something required is still missing; None if it cannot be read."""
        required = [action for action in self._actions if action.required and action.option_strings]
        stopped, self.error = self.error, _unreadable  # type: ignore[method-assign]
        try:
            for action in required:
                action.required = False
            return self.parse_known_args(words)[0]
        except ValueError:
            return None
        finally:
            self.error = stopped  # type: ignore[method-assign]
            for action in required:
                action.required = True


def _values_of(action: argparse.Action, rest: list[str]) -> list[str]:
    """The words that belong to an option, taken off the front of `rest`."""
    if action.metavar == "true|false":
        most = 1 if rest and rest[0].lower() in _TRUTH else 0
    else:
        most = {None: 1, 0: 0, "?": 1}.get(action.nargs, len(rest))  # type: ignore[call-overload]
    taken: list[str] = []
    while rest and len(taken) < most:
        if action.nargs is not None and (rest[0].startswith("-") or "=" in rest[0]):
            break
        taken.append(rest.pop(0))
    return taken


def _placeholder(action: argparse.Action) -> str:
    """A positional argument in the usage line."""
    name = str(action.metavar or action.dest).upper()
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs or ""), name)


def _unreadable(message: str) -> NoReturn:
    raise ValueError(message)


def _too_many(word: str, words: list[str]) -> str:
    """What is wrong with a word that nothing takes; after a switch it was meant for that."""
    before = words[words.index(word) - 1]
    if before.endswith("=true"):
        return f"{before.removesuffix('=true')} takes true or false"
    return "one value too many; see --help"


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


def fail(message: str | Exception) -> NoReturn:
    """Say what is wrong in one line and exit with code 2."""
    print("trimtab: " + " ".join(str(message).split()), file=sys.stderr)
    raise SystemExit(2)


def _dashed(argument: str) -> str:
    """--num_envs is --num-envs."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def add_fields(group: argparse._ArgumentGroup, cls: type, only: Collection[str] | None = None) -> None:
    """An option for every field of a dataclass, or only some; options not given are absent from the namespace."""
    helps, kinds = field_help(cls), types_of(cls)
    for item in dataclasses.fields(cls):
        if only is not None and item.name not in only:
            continue
        kind, flag = base_of(kinds[item.name]), "--" + item.name.replace("_", "-")
        choices = choices_of(kinds[item.name])
        explained = item.metadata["declared"].explained if "declared" in item.metadata else {}
        text = " ".join([helps.get(item.name, ""), *(f"{name}: {what}." for name, what in explained.items())])
        text = _with_default(text, item.default).replace("%", "%%")
        shared: dict[str, Any] = {"dest": item.name, "default": argparse.SUPPRESS, "help": text}
        if kind is bool:
            group.add_argument(flag, metavar="true|false", **shared)
        elif kind is tuple:
            metavar = "N" if element_of(kinds[item.name]) is int else "NAME"
            group.add_argument(flag, nargs="*", metavar=metavar, **shared)
        else:
            group.add_argument(flag, metavar="|".join(choices) if choices else kind.__name__.upper(), **shared)


def _with_default(text: str, default: Any) -> str:
    """A field's help and its default, unless it says itself what happens where nothing is given."""
    if default == () or (default in (None, dataclasses.MISSING) and ("default" in text or "if not given" in text)):
        return text
    return f"{text} (default: {shown(default)})"


@functools.cache
def field_help(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, by name; kept, since every group of options asks for it."""
    (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(declaration, ast.ClassDef)
    helps = {}
    for field, below in itertools.pairwise(declaration.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            helps[field.target.id] = " ".join(ast.literal_eval(below.value).split())
    return helps


def values(cls: type, arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given for the fields of a dataclass, read by type."""
    kinds = types_of(cls)
    return {
        name: parse(name, kind, getattr(arguments, name)) for name, kind in kinds.items() if hasattr(arguments, name)
    }


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
            return reading.parse_yaml(raw)
    except (ValueError, KeyError, OverflowError, yaml.YAMLError):
        raise ConfigError(name, raw, f"must be {_WANTED[base]}") from None
    return raw


def shown(value: Any) -> str:
    """A value as one would type it."""
    return "none" if value is dataclasses.MISSING else plain(value)
