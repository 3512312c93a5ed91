"""Configurations that train an environment well: `ALGO/ENV.yaml`, found by environment and algorithm.

Suites have one for all their environments (`ppo/atari`); for what is in none, `quick_start` goes by the spaces.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trimtab import envs
from trimtab.config import ConfigError
from trimtab.envs.names import PROCGEN_ALIASES, canonical
from trimtab.envs.table import by_id

_ROOT = Path(__file__).parent
QUICK_STARTS = ("discrete", "continuous", "images")
# Families of EnvPool that share a preset.
_SUITES = {
    "atari": "atari",
    "minigrid": "minigrid",
    "mujoco.dmc": "dm_control",
    "mujoco.gym": "mujoco",
    "procgen": "procgen",
}


@cache
def names() -> list[str]:
    """Every preset, as --preset takes it."""
    return sorted(str(p.relative_to(_ROOT).with_suffix("")) for p in _ROOT.rglob("*.yaml"))


def find(env_id: str, algo: str) -> str | None:
    """The preset for an environment and algorithm: its own, its other version's, or its suite's."""
    versions = {name.rpartition("-v")[0]: name for name in names() if "-v" in name}
    bare = f"{algo}/{env_id.rpartition('-v')[0]}"
    for name in (f"{algo}/{env_id}", versions.get(bare), f"{algo}/{_suite(env_id)}"):
        if name in names():
            return name
    return None


def _suite(env_id: str) -> str | None:
    # An unknown game is refused by its environment.
    if env_id.lower().startswith("procgen/") or env_id in PROCGEN_ALIASES.values():
        return "procgen"
    row = by_id("envpool").get(canonical(env_id))
    return _SUITES.get(row.family) if row else None


def quick_start(env_id: str, algo: str, backend: str = "auto", env_kwargs: dict[str, Any] | None = None) -> str | None:
    """Where nothing fits: the start for images, continuous or discrete actions, if the algorithm has one."""
    from trimtab.nets.choice import choose_network

    spec = envs.look(env_id, backend, env_kwargs)
    images = choose_network("auto", spec.obs_shape) == "nature"
    kind = "images" if images else "continuous" if isinstance(spec.action, envs.Continuous) else "discrete"
    name = f"{algo}/{kind}"
    return name if name in names() else None


def full_name(name: str) -> str:
    """`discrete` is ppo/discrete."""
    return f"ppo/{name}" if f"ppo/{name}" in names() else name


def described(name: str | None, env_id: str) -> str:
    """Which preset was taken, and why, in words."""
    if name is None:
        return "none: the library's defaults"
    last = name.rpartition("/")[2]
    if last in QUICK_STARTS:
        return f"{name}: no preset is for {env_id}, so a quick start was taken by its spaces"
    return name if last == env_id else f"{name}: the one that covers {env_id}"


def load(name: str) -> dict[str, Any]:
    """The fields a preset sets."""
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=3, cutoff=0.3)
        near = f"nearest: {', '.join(close)}" if close else "`trimtab presets` lists them"
        raise ConfigError("preset", name, f"no such preset; {near}")
    return yaml.safe_load((_ROOT / f"{name}.yaml").read_text()) or {}
