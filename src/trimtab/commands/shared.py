"""What commands share: their options, their parser, layers of configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trimtab import presets
from trimtab.commands import HELP, flags
from trimtab.commands.flags import Parser
from trimtab.config import Config, ConfigError


@dataclass
class Output:
    """How a command shows itself."""

    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """End with one JSON object on standard output."""


def parser(name: str, *classes: type, positional: str | None = None, help: str = "") -> Parser:
    about = HELP[name][0].upper() + HELP[name][1:]
    about += "" if about.endswith("?") else "."
    made = Parser(prog=f"trimtab {name}", description=about, allow_abbrev=False)
    if positional:
        made.add_argument(positional, help=help)
    for cls in classes:
        flags.add_fields(made.add_argument_group(cls.__name__), cls)
    return made


def add_source(made: Parser) -> None:
    """Where a configuration comes from: an environment by position, a preset, a file."""
    made.add_argument("env", nargs="?", default=None, help="environment id, the same as --env-id")
    made.add_argument(
        "--preset", metavar="NAME", help="preset to start from; the environment's own by default, or none"
    )
    made.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset, under the flags")


def config_from(given, base: dict[str, Any] | None = None) -> Config:
    """The configuration asked for by position, preset, file and flags, over the fields of `base`."""
    if given.env is not None:
        refuse_two_environments(given)
        given.env_id = given.env
    return layered_config(given, base)


def numbered(name: str) -> Path:
    """runs/NAME-K with the first free K."""
    return next(p for k in range(1, 100_000) if not (p := Path("runs") / f"{name}-{k}").exists())


def refuse_two_environments(given) -> None:
    """An id may be given by position or by --env-id, not as two different ones."""
    if getattr(given, "env_id", given.env) != given.env:
        raise ConfigError("env_id", given.env_id, f"the environment was given twice; the other is {given.env}")


def filled(cls: type, given) -> Any:
    """An options dataclass with what was given."""
    return cls(**flags.values(cls, given))


def layered_config(given, base: dict[str, Any] | None = None) -> Config:
    """Flags over file over preset over `base`."""
    layers, preset = (_file_of(given), flags.values(Config, given)), preset_of(given)
    under = [presets.load(preset) if preset else {}, base or {}]
    if not any("env_id" in layer for layer in (*layers, *under)):
        flags.fail("name an environment, for example: trimtab train CartPole-v1")
    return presets.layered(*layers, preset=preset or "none", base=base)


def preset_of(given) -> str | None:
    """The preset to start from: as asked, else the environment's own for the algorithm, if there is one."""
    return presets.chosen(_file_of(given), flags.values(Config, given), preset=given.preset)


def _file_of(given) -> dict[str, Any]:
    return presets.read_file(given.config) if given.config else {}


def parsed(text: str) -> Any:
    """A value as YAML reads it, and 3e-4 as the number it is."""
    try:
        return (
            float(text)
            if re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", text, re.IGNORECASE)
            else yaml.load(text, presets.Strict)
        )
    except (ValueError, yaml.YAMLError):
        return text
