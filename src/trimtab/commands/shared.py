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
    """The preset to start from: as asked, else the environment's own for the algorithm, if there is one."""
    if given.preset is not None:
        return None if given.preset == "none" else given.preset
    named = _file_of(given) | flags.values(Config, given)
    return presets.find(named["env_id"], named.get("algo", "ppo")) if "env_id" in named else None


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
