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
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import yaml

from trimtab.config.settings import Settings
from trimtab.core import reading, trust
from trimtab.core.fields import (
    ConfigError,
    Place,
    base_of,
    choices_of,
    declaration,
    element_of,
    optional,
    types_of,
    words_of,
)
from trimtab.core.options import NOT_GIVEN
from trimtab.core.wording import nearest, plain

_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line and exit with code 2."""

    before_help: Callable[[Parser, list[str]], None] | None = None  # may add what is known from the other words

    def error(self, message: str) -> NoReturn:
        fail(message)

    def _spelled(self, argv: list[str]) -> list[str]:
        switches = {o for a in self._actions if a.metavar == "true|false" for o in a.option_strings}
        return _joined(argv, switches)

    def parse(self, argv: list[str]) -> argparse.Namespace:
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


def add_options(parser: Parser, cls: type) -> None:
    """The options that a dataclass declares, in a group for each class of its hierarchy, and by position.

    Options that are not given are absent from the namespace.
    """
    items = {item.name: item for item in dataclasses.fields(cls)}
    for declaring, names in declared_by_class(cls).items():
        group = parser.add_argument_group(_title(declaring))
        for item in map(items.__getitem__, names):
            (parser if _is_position(item) else group).add_argument(*_names(item), **_argument(cls, item))


def add_settings(parser: Parser, cls: type) -> None:
    """The fields of a run that a dataclass takes, in groups."""
    group = parser.add_argument_group("run")
    again = {item.name: item for item in dataclasses.fields(cls) if not item.metadata.get("deferred")}
    for item in dataclasses.fields(Settings):
        if heading := declaration(item).group:
            group = parser.add_argument_group(heading)
        owner = (cls, again[item.name]) if item.name in again else (Settings, item)
        group.add_argument(*_names(item), **_argument(*owner))


def declared_by_class(cls: type, hidden: bool = False) -> dict[type, list[str]]:
    """The options of a dataclass by the class that declares them: first its own, then those of its bases.

    Fields of `if_given(base)` belong to that base; the fields of a run have groups of their own.
    """
    shown = {item.name for item in dataclasses.fields(cls) if hidden or declaration(item).word.shown}
    shown -= {item.name for item in dataclasses.fields(Settings)} if has_settings(cls) else set()
    found: dict[type, list[str]] = {}
    for base in cls.__mro__:
        complete = vars(base).get("complete", base)
        if complete is Settings or not dataclasses.is_dataclass(base):
            continue
        own = [name for name in inspect.get_annotations(base) if name in shown]
        shown -= {*own}
        if own:
            found[complete] = own
    return found


def has_settings(cls: type) -> bool:
    """Whether the options make a configuration."""
    return any(vars(base).get("complete") is Settings for base in cls.__mro__)


def _title(cls: type) -> str:
    """The first line of a class's docstring, as the heading of its options."""
    first = (cls.__doc__ or cls.__name__).splitlines()[0].rstrip(".")
    return first[0].lower() + first[1:]


def _is_position(item: dataclasses.Field) -> bool:
    word = declaration(item).word
    if word.position is not None or word.flag:
        return bool(word.position)
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _names(item: dataclasses.Field) -> list[str]:
    """What an option is called on the command line."""
    return [item.name if _is_position(item) else declaration(item).word.flag or "--" + item.name.replace("_", "-")]


def _argument(cls: type, item: dataclasses.Field) -> dict[str, Any]:
    """How argparse reads an option."""
    declared, kind = declaration(item), types_of(cls)[item.name]
    word, choices, base = declared.word, choices_of(kind), base_of(kind)
    position, text = _is_position(item), re.sub(r"; in Python.*", ".", help_of(cls, item))
    text = text if position else _with_default(text, _default_of(cls, item))
    made: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text.replace("%", "%%")}
    if not position:
        made["dest"] = item.name
        made |= {"required": True} if item.default is item.default_factory is dataclasses.MISSING else {}
    if position:
        if word.metavar:
            made["metavar"] = word.metavar
    elif base is bool:
        made["metavar"] = "true|false"
    elif base is tuple:
        made |= {"nargs": "*", "metavar": "N" if element_of(kind) is int else "NAME"}
    else:
        words = choices or ["PATH" if optional(kind)[0] == Place else base.__name__.upper(), *words_of(kind)]
        made["metavar"] = word.metavar or "|".join(words)
    nargs = word.nargs or ("*" if word.pairs else None)
    return made | {name: value for name, value in (("nargs", nargs), ("const", word.const)) if value is not None}


def help_of(cls: type, item: dataclasses.Field) -> str:
    """The help of an option: the string below its field, and what its choices mean where they are registered."""
    explained = declaration(item).explained.items()
    return " ".join([field_help(cls).get(item.name, ""), *(f"{name}: {what}." for name, what in explained)])


def _default_of(cls: type, item: dataclasses.Field) -> Any:
    """The default of an option; of one for which it matters whether it is given, that of its complete class."""
    if item.default is not NOT_GIVEN:
        return item.default
    complete = [vars(base)["complete"] for base in cls.__mro__ if "complete" in vars(base)]
    return next(own.default for one in complete for own in dataclasses.fields(one) if own.name == item.name)


def _with_default(text: str, default: Any) -> str:
    """A field's help and its default, unless it says itself what happens where nothing is given."""
    if default == () or (default in (None, dataclasses.MISSING) and ("default" in text or "if not given" in text)):
        return text
    return f"{text} (default: {shown(default)})"


@functools.cache
def field_help(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, by name; of one that is declared again, that of its base."""
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        base = vars(base).get("complete", base)
        helps |= _strings(base.__module__).get(base.__name__, {}) if dataclasses.is_dataclass(base) else {}
    return helps


@functools.cache
def _strings(module: str) -> dict[str, dict[str, str]]:
    """The string below each field of the classes of a module."""
    found: dict[str, dict[str, str]] = {}
    for declared in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(declared, ast.ClassDef):
            helps = found.setdefault(declared.name, {})
            for field, below in itertools.pairwise(declared.body):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(below, ast.Expr)
                ):
                    helps[field.target.id] = " ".join(ast.literal_eval(below.value).split())
    return found


def values(cls: type, arguments: argparse.Namespace) -> dict[str, Any]:
    """What was given for the options of a dataclass, read by type."""
    return {
        item.name: _value(cls, item, arguments) for item in dataclasses.fields(cls) if hasattr(arguments, item.name)
    }


def _value(cls: type, item: dataclasses.Field, arguments: argparse.Namespace) -> Any:
    raw, word = getattr(arguments, item.name), declaration(item).word
    if word.read is not None:
        return word.read(raw)
    value = parse(item.name, types_of(cls)[item.name], raw)
    return not value if (word.flag or "").startswith("--no-") else value


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
    if raw in words_of(kind):
        return raw
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
