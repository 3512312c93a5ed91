"""What a run was made with: versions, machine, seed, and how repeatable it is."""

from __future__ import annotations

import math
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import trimtab
from trimtab.config import Config
from trimtab.envs.base import Continuous, MultiDiscrete, Spec, kind_of, outputs_of
from trimtab.nets.families import choose_network
from trimtab.training import device
from trimtab.training.engine import Engine


def manifest(config: Config, engine: Engine) -> dict[str, Any]:
    """Versions, machine, seed and how repeatable the run is."""
    spec = engine.algorithm.env.spec
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnax", "gymnasium", "envpool")
    return {
        "trimtab": trimtab.__version__,
        "python": platform.python_version(),
        "packages": {p: v for p in packages if (v := _version(p))},
        "machine": {
            "platform": platform.platform(),
            "processor": device.processor(),
            "device": str(jax.devices()[0]),
            "devices": config.devices,
            "processes": jax.process_count(),
        },
        "threads": os.environ.get("NPROC", "all"),
        "seed": config.seed,
        "environment": environment(config, spec),
        "determinism": ("a resumed run continues bit for bit" + (" on as many devices" if config.devices > 1 else ""))
        if engine.exact
        else "environment states cannot be saved: a resumed run starts new episodes",
        "command": " ".join(Path(a).name if i == 0 else a for i, a in enumerate(sys.argv)),
    }


def environment(config: Config, spec: Spec) -> dict[str, Any]:
    """What a policy must know of its environment to be used without it."""
    about = {
        "id": spec.env_id,
        "backend": spec.backend,
        "time_limit": spec.time_limit,
        "action": {"kind": kind_of(spec.action), "size": outputs_of(spec.action)} | _choices(spec.action),
        "observation": {"shape": list(spec.obs_shape), "dtype": spec.obs_dtype} | _parts(config, spec),
        "network": choose_network(config.network, spec.obs_shape),
    }
    return about | _bounds(spec.action)


def _bounds(action: Any) -> dict[str, Any]:
    """The box of continuous actions; JSON has no infinity, so an open side is null."""
    if not isinstance(action, Continuous):
        return {}
    side = lambda values: [value if math.isfinite(value) else None for value in values]
    return {"bounds": {"low": side(action.low), "high": side(action.high)}}


def _parts(config: Config, spec: Spec) -> dict[str, Any]:
    """Where the parts of a Dict or Tuple lie in the vector, and which of it the policy sees."""
    if not spec.parts:
        return {}
    slices = spec.slices("actor_obs", config.actor_obs)
    return {"parts": [list(part) for part in spec.parts], "seen": [list(ends) for ends in slices]}


def _choices(action: Any) -> dict[str, Any]:
    return {"choices": list(action.sizes)} if isinstance(action, MultiDiscrete) else {}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
