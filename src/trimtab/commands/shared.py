"""What commands share: their options, their parser, layers of configuration."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trimtab import config as configuration
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


def config_from(given) -> Config:
    """The configuration asked for by position, preset, file and flags."""
    if given.env is not None:
        refuse_two_environments(given)
        given.env_id = given.env
    return layered_config(given)


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
    """Flags over file over preset."""
    chosen, file, name = flags.values(Config, given), _file_of(given), preset_of(given)
    layers = [presets.load(name) if name else {}, file, chosen]
    if not any("env_id" in layer for layer in layers):
        flags.fail("name an environment, for example: trimtab train CartPole-v1")
    merged: dict[str, Any] = dict(base or {})
    for layer in layers:
        merged |= layer
        for one, other in (("minibatch_size", "num_minibatches"), ("num_minibatches", "minibatch_size")):
            if layer.get(one) is not None and other not in layer:
                merged.pop(other, None)
    return configuration.from_dict(merged)


def preset_of(given) -> str | None:
    """The preset to start from: as asked, else the one for the environment and algorithm.

    A file with a configuration of its own (as a run writes it) says everything already.
    """
    if given.preset is not None:
        return None if given.preset == "none" else presets.full_name(given.preset)
    file = _file_of(given)
    named = file | flags.values(Config, given)
    if "env_id" not in named or {f.name for f in dataclasses.fields(Config)} <= file.keys():
        return None
    env_id, algo = named["env_id"], named.get("algo", "ppo")
    options = {name: named[name] for name in ("backend", "env_kwargs") if name in named}
    return presets.find(env_id, algo) or presets.quick_start(env_id, algo, **options)


def _file_of(given) -> dict[str, Any]:
    return read_yaml(given.config) if given.config else {}


class _Strict(yaml.SafeLoader):
    """A field given twice is a mistake, not a choice of the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice} is given twice")
        return super().construct_mapping(node, deep)


def parsed(text: str) -> Any:
    """A value as YAML reads it, and 3e-4 as the number it is."""
    try:
        return float(text) if re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", text, re.IGNORECASE) else yaml.load(text, _Strict)
    except (ValueError, yaml.YAMLError):
        return text


def read_yaml(path: str) -> dict[str, Any]:
    try:
        values = yaml.load(Path(path).read_text(), _Strict)
    except OSError as error:
        raise ConfigError("config", path, error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError("config", path, "is not text") from None
    except yaml.YAMLError as error:
        raise ConfigError("config", path, f"is not YAML ({error})") from None
    if not isinstance(values, dict):
        raise ConfigError("config", path, "must hold fields and values, for example 'num_envs: 8'")
    return values
