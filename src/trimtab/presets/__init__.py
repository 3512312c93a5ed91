"""Configurations that train an environment well: `ALGO/ENV.yaml`, found by environment and algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trimtab.config import ConfigError
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
