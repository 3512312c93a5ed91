"""What commands share: their options, their parser, layers of configuration."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trimtab import presets
from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.writing import numbered_path
from trimtab.operations import HELP, flags
from trimtab.operations.flags import Parser
from trimtab.operations.option_groups import GROUPS


@dataclass
class Output:
    """Progress and output."""

    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """End with one JSON value on standard output: an object, or a list where there are several."""


def as_typed(name: str, argv: list[str]) -> str:
    """A command as it was typed, and can be again: what a shell would take apart is quoted."""
    return f"trimtab {name} {shlex.join(argv)}"


def parser(name: str, *classes: type, positional: str | None = None, help: str = "") -> Parser:
    """The options of a command, or of one verb of it ("study run")."""
    summary = HELP[name.split()[0]]
    about = summary[0].upper() + summary[1:]
    about += "" if about.endswith("?") else "."
    command_parser = Parser(prog=f"trimtab {name}", description=about, allow_abbrev=False)
    if positional:
        command_parser.add_argument(positional, help=help)
    command_parser.add_argument(
        "--trust",
        action="append",
        metavar="MODULE",
        help="allow this module to be imported, where a run or study of somebody else names it as its environment",
    )
    for cls in (cls for cls in classes if cls is not Config):
        flags.add_fields(command_parser.add_argument_group(_title(cls)), cls)
    if Config in classes:
        for title, names in GROUPS.items():
            flags.add_fields(command_parser.add_argument_group(title), Config, names)
        command_parser.before_help = _tell_preset
    return command_parser


def _title(cls: type) -> str:
    """The first line of a class's docstring, as the heading of its options."""
    first = (cls.__doc__ or cls.__name__).splitlines()[0].rstrip(".")
    return first[0].lower() + first[1:]


def _tell_preset(command_parser: Parser, words: list[str]) -> None:
    """Where the words name an environment, its help shows the values its preset gives."""
    arguments = command_parser.loosely(words)
    for name in ("env", "preset", "config"):
        if arguments is not None and not hasattr(arguments, name):
            setattr(arguments, name, None)
    if arguments is None or (arguments.env is None and not hasattr(arguments, "env_id")):
        command_parser.epilog = "Name an environment to see the values its preset gives."
        return
    arguments.env_id = getattr(arguments, "env_id", arguments.env)
    preset = preset_of(arguments)
    if preset is None:
        command_parser.epilog = (
            f"{arguments.env_id}: no preset for this algorithm, or none asked for; the defaults are used."
        )
        return
    command_parser.epilog = f"The preset is {preset}; --preset none leaves it out."
    values = presets.load(preset)
    for action in command_parser._actions:
        if action.dest in values and action.dest not in ("env_id", "algo"):  # which chose the preset
            text, _, default = (action.help or "").rpartition(" (default: ")
            value, default = flags.shown(values[action.dest]), default.removesuffix(")")
            otherwise = f"; otherwise {default}" if text and default != value else ""
            action.help = f"{text or action.help} (preset: {value}{otherwise})"


def add_source(command_parser: Parser) -> None:
    """Where a configuration comes from: an environment by position, a preset, a file."""
    command_parser.add_argument("env", nargs="?", default=None, help="environment id, the same as --env-id")
    command_parser.add_argument(
        "--preset", metavar="NAME", help="preset to start from; the environment's own by default, or none"
    )
    command_parser.add_argument(
        "--config", metavar="FILE", help="YAML file of fields, over the preset, under the flags"
    )


def add_page(command_parser: Parser, default: str) -> None:
    """--page [FILE]: also as a page; an empty name means the default place."""
    text = f"also write a page, with its figures beside it (default: {default})"
    command_parser.add_argument("--page", nargs="?", const="", default=None, metavar="FILE", help=text)


def config_from(arguments, base: dict[str, Any] | None = None) -> Config:
    """The configuration asked for by position, preset, file and flags, over the fields of `base`."""
    if arguments.env is not None:
        refuse_two_environments(arguments)
        arguments.env_id = arguments.env
    return layered_config(arguments, base)


def numbered(name: str) -> Path:
    """runs/NAME-K with the first free K."""
    return numbered_path(Path("runs"), name)


def refuse_two_environments(arguments) -> None:
    """An id may be given by position or by --env-id, not as two different ones."""
    if getattr(arguments, "env_id", arguments.env) != arguments.env:
        raise ConfigError("env_id", arguments.env_id, f"the environment was given twice; the other is {arguments.env}")


def filled(cls: type, arguments) -> Any:
    """An options dataclass with what was given."""
    return cls(**flags.values(cls, arguments))


def layered_config(arguments, base: dict[str, Any] | None = None) -> Config:
    """Flags over file over preset over `base`."""
    layers, preset = (_file_of(arguments), flags.values(Config, arguments)), preset_of(arguments)
    under = [presets.load(preset) if preset else {}, base or {}]
    if not any("env_id" in layer for layer in (*layers, *under)):
        flags.fail("name an environment, for example: trimtab train CartPole-v1")
    return presets.layered(*layers, preset=preset or "none", base=base)


def own_sizes(arguments) -> tuple[int, int]:
    """N and T that the configuration has by itself: the preset's or file's, else the defaults."""
    name = preset_of(arguments)
    fields = (presets.load(name) if name else {}) | _file_of(arguments)
    return fields.get("num_envs", Config.num_envs), fields.get("num_steps", Config.num_steps)


def preset_of(arguments) -> str | None:
    """The preset to start from: as asked, else the environment's own for the algorithm, if there is one."""
    return presets.chosen(_file_of(arguments), flags.values(Config, arguments), preset=arguments.preset)


def _file_of(arguments) -> dict[str, Any]:
    return presets.read_file(arguments.config) if arguments.config else {}


def pairs(words: list[str]) -> dict[str, Any]:
    """NAME=VALUE, each, as another library's user writes hyperparameters."""
    for word in words:
        if "=" not in word:
            raise ConfigError("fields", word, "must look like n_steps=2048")
    return {name: parsed(value) for name, _, value in (word.partition("=") for word in words)}


def parsed(text: str) -> Any:
    """A value as YAML reads it, and 3e-4 as the number it is."""
    try:
        return float(text) if re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", text, re.IGNORECASE) else reading.parse_yaml(text)
    except (ValueError, yaml.YAMLError):
        return text
