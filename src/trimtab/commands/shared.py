"""What commands share: their options, their parser, layers of configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trimtab import config as configuration
from trimtab import flags, presets
from trimtab.cli import HELP
from trimtab.config import Config, ConfigError
from trimtab.flags import Parser


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


def refuse_two_environments(given) -> None:
    """An id may be given by position or by --env-id, not as two different ones."""
    if getattr(given, "env_id", given.env) != given.env:
        raise ConfigError("env_id", given.env_id, f"the environment was given twice; the other is {given.env}")


def filled(cls: type, given) -> Any:
    """An options dataclass with what was given."""
    return cls(**flags.values(cls, given))


def layered_config(given, base: dict[str, Any] | None = None) -> Config:
    """Flags over file over preset."""
    chosen = flags.values(Config, given)
    file = read_yaml(given.config) if given.config else {}
    env_id = chosen.get("env_id", file.get("env_id"))
    algo = chosen.get("algo", file.get("algo", "ppo"))
    name = given.preset
    if name is None and not given.config and env_id is not None:
        name = presets.find(env_id, algo)
    layers = [presets.load(name) if name and name != "none" else {}, file, chosen]
    if env_id is None and "env_id" not in layers[0]:
        raise ConfigError("env_id", None, "name an environment, for example: trimtab train CartPole-v1")
    merged: dict[str, Any] = dict(base or {})
    for layer in layers:
        merged |= layer
        for one, other in (("minibatch_size", "num_minibatches"), ("num_minibatches", "minibatch_size")):
            if layer.get(one) is not None and other not in layer:
                merged.pop(other, None)
    return configuration.from_dict(merged)


def read_yaml(path: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError("config", path, error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError("config", path, "is not text") from None
    except yaml.YAMLError as error:
        raise ConfigError("config", path, f"is not YAML ({error})") from None
    if not isinstance(values, dict):
        raise ConfigError("config", path, "must hold fields and values, for example 'num_envs: 8'")
    return values
