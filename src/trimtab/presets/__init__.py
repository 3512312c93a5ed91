"""Configurations that train an environment well: `ALGO/ENV.yaml`, found by environment and algorithm.

Suites have one for all their environments (`ppo/atari`); for what is in none, `quick_start` goes by the spaces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab import envs
from trimtab.config import Config, ConfigError, from_dict
from trimtab.config.algorithms import kindred
from trimtab.core import reading, trust
from trimtab.core.wording import nearest
from trimtab.envs.id_table import by_id
from trimtab.envs.known_ids import PLAYGROUND_ROBOTS, PROCGEN_ALIASES, canonical
from trimtab.envs.own_environments import Constructor

_ROOT = Path(__file__).parent
QUICK_STARTS = ("discrete", "continuous", "images")
# Families of EnvPool and of MuJoCo Playground that share a preset.
_SUITES = {
    "atari": "atari",
    "dm_control_suite": "dm_control",
    "minigrid": "minigrid",
    "mujoco.dmc": "dm_control",
    "mujoco.gym": "mujoco",
    "mujoco.playground": "playground",
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
    if env_id in PLAYGROUND_ROBOTS:
        return "playground"
    row = by_id("envpool").get(canonical(env_id)) or by_id("playground").get(env_id)
    return _SUITES.get(row.family) if row else None


def quick_start(
    env_id: str,
    algos: Iterable[str],
    backend: str = "auto",
    env_kwargs: dict[str, Any] | None = None,
    env: Constructor | None = None,
) -> str | None:
    """Where nothing fits: the start for images, continuous or discrete actions, if one of the algorithms has one."""
    from trimtab.nets.families import FAMILIES, choose_network

    if not isinstance(env_kwargs, dict | None):
        raise ConfigError("env_kwargs", env_kwargs, "must be a mapping, for example {is_slippery: false}")
    spec = envs.look(env_id, backend, env_kwargs, constructor=env)
    images = FAMILIES[choose_network("auto", spec.obs_shape)].sees_images
    kind = "images" if images else "continuous" if isinstance(spec.action, envs.Continuous) else "discrete"
    return next((name for algo in algos if (name := f"{algo}/{kind}") in names()), None)


def full_name(name: str) -> str:
    """`discrete` is ppo/discrete."""
    return f"ppo/{name}" if f"ppo/{name}" in names() else name


def described(name: str | None, config: Config) -> str:
    """Which preset was taken, and why, in words."""
    if name is None:
        return "none: the library's defaults"
    algo, _, last = name.partition("/")
    kin = "" if algo == config.algo else f"; {config.algo} has none of its own"
    if last in QUICK_STARTS:
        return f"{name}: no preset is for {config.env_id}, so a quick start was taken by its spaces{kin}"
    return f"{name}{kin}" if last == config.env_id else f"{name}: the one that covers {config.env_id}{kin}"


def load(name: str) -> dict[str, Any]:
    """The fields a preset sets."""
    return reading.parse_yaml(text(name)) or {}


def origin(name: str) -> str:
    """Where a preset comes from: the comment its file begins with."""
    lines = text(name).splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


def text(name: str) -> str:
    """A preset's file."""
    if name not in names():
        close = nearest(name, names(), cutoff=0.3)
        near = f"nearest: {', '.join(close)}" if close else "`trimtab presets` lists them"
        raise ConfigError("preset", name, f"no such preset; {near}")
    return (_ROOT / f"{name}.yaml").read_text()


def layered(
    *layers: dict[str, Any],
    preset: str | None = None,
    base: dict[str, Any] | None = None,
    env: Constructor | None = None,
) -> Config:
    """A configuration from layers of fields, later over earlier, over a preset, over `base`.

    The preset is the environment's own for the algorithm, or for one akin to it, unless one is named; "none" is none.
    """
    name = chosen(*layers, preset=preset, env=env)
    merged: dict[str, Any] = dict(base or {})
    for layer in (_fields(name, layers, env) if name else {}, *layers):
        merged |= layer
        for one, other in (("minibatch_size", "num_minibatches"), ("num_minibatches", "minibatch_size")):
            if layer.get(one) is not None and other not in layer:  # one way of giving it replaces the other
                merged.pop(other, None)
    return from_dict(merged)


def _fields(name: str, layers: tuple[dict[str, Any], ...], env: Constructor | None) -> dict[str, Any]:
    """The fields a preset sets; a quick start normalizes no bytes, which networks scale by themselves."""
    fields, named = load(name), {k: v for layer in layers for k, v in layer.items()}
    if name.rpartition("/")[2] not in QUICK_STARTS or not fields.get("norm_obs") or "env_id" not in named:
        return fields
    spec = envs.look(named["env_id"], named.get("backend", "auto"), named.get("env_kwargs"), constructor=env)
    return fields | {"norm_obs": False} if spec.obs_dtype == "uint8" else fields


def chosen(*layers: dict[str, Any], preset: str | None = None, env: Constructor | None = None) -> str | None:
    """The preset that goes under these layers: as asked, else the one for the environment and algorithm.

    A layer that has every field (a run's own file, say) says everything already. An environment that `env` makes is
    another one than its name may say.
    """
    if preset is not None:
        return None if preset == "none" else full_name(preset)
    named: dict[str, Any] = {}
    for layer in layers:
        named |= layer
    if "env_id" not in named or any(map(_says_everything, layers)):
        return None
    if not all(isinstance(named.get(name, ""), str) for name in ("env_id", "algo", "backend")):
        return None  # refused when the configuration is made
    env_id, algos = named["env_id"], list(kindred(named.get("algo", "ppo")))
    own = (preset_name for algo in algos if env is None and (preset_name := find(env_id, algo)))
    return next(own, None) or quick_start(env_id, algos, named.get("backend", "auto"), named.get("env_kwargs"), env)


def _says_everything(layer: dict[str, Any]) -> bool:
    """Whether a layer has every field but the environment; of the two ways to give the minibatch one is enough."""
    missing = {item.name for item in dataclasses.fields(Config)} - layer.keys() - {"env_id"}
    return not missing or missing in ({"minibatch_size"}, {"num_minibatches"})


def read_file(path: str | PathLike[str]) -> dict[str, Any]:
    """The fields of a YAML file that the user gave, who thereby names its environment."""
    fields = reading.read_yaml_mapping(Path(path))
    trust.trust_named(fields.get("env_id"))
    return fields
