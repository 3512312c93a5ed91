"""Configurations that train an environment well: `ALGO/ENV.yaml`, found by environment and algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trimtab.config import Config, ConfigError, from_dict
from trimtab.envs.names import PROCGEN_ALIASES
from trimtab.wording import nearest

_ROOT = Path(__file__).parent


def names() -> list[str]:
    """Every preset, as --preset takes it."""
    return sorted(str(p.relative_to(_ROOT).with_suffix("")) for p in _ROOT.rglob("*.yaml"))


def find(env_id: str, algo: str) -> str | None:
    """The preset for an environment and algorithm, if there is one."""
    # One preset for all Procgen games, under either of their ids; an unknown game is refused by its environment.
    procgen = env_id.lower().startswith("procgen/") or env_id in PROCGEN_ALIASES.values()
    family = "procgen" if procgen else env_id
    name = f"{algo}/{family}"
    return name if name in names() else None


def load(name: str) -> dict[str, Any]:
    """The fields a preset sets."""
    if name not in names():
        close = nearest(name, names(), cutoff=0.3)
        near = f"nearest: {', '.join(close)}" if close else "`trimtab presets` lists them"
        raise ConfigError("preset", name, f"no such preset; {near}")
    return yaml.safe_load((_ROOT / f"{name}.yaml").read_text()) or {}


def layered(*layers: dict[str, Any], preset: str | None = None, base: dict[str, Any] | None = None) -> Config:
    """A configuration from layers of fields, later over earlier, over a preset, over `base`.

    The preset is the environment's own for the algorithm unless one is named; "none" is none at all.
    """
    name = chosen(*layers, preset=preset)
    merged: dict[str, Any] = dict(base or {})
    for layer in (load(name) if name else {}, *layers):
        merged |= layer
        for one, other in (("minibatch_size", "num_minibatches"), ("num_minibatches", "minibatch_size")):
            if layer.get(one) is not None and other not in layer:  # one way of giving it replaces the other
                merged.pop(other, None)
    return from_dict(merged)


def chosen(*layers: dict[str, Any], preset: str | None = None) -> str | None:
    """The preset that goes under these layers: as asked, else the environment's own for the algorithm."""
    if preset is not None:
        return None if preset == "none" else preset
    named: dict[str, Any] = {}
    for layer in layers:
        named |= layer
    return find(named["env_id"], named.get("algo", "ppo")) if "env_id" in named else None


class Strict(yaml.SafeLoader):
    """A field given twice is a mistake, not a choice of the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice} is given twice")
        return super().construct_mapping(node, deep)


def read_file(path: str | Path) -> dict[str, Any]:
    """The fields of a YAML file."""
    try:
        values = yaml.load(Path(path).read_text(), Strict)
    except OSError as error:
        raise ConfigError("config", str(path), error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError("config", str(path), "is not text") from None
    except yaml.YAMLError as error:
        raise ConfigError("config", str(path), f"is not YAML ({error})") from None
    if not isinstance(values, dict):
        raise ConfigError("config", str(path), "must hold fields and values, for example 'num_envs: 8'")
    return values
