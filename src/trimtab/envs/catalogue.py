"""What there is to run, which backend has it, and why something does not run here. Imports no JAX."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

from .names import ENVPOOL_IDS, NATIVE_IDS, NATIVE_LEFT_OUT, TABULAR_IDS

# gymnax imports six without declaring it, so six is part of what must be there.
_PACKAGES = {
    "tabular": ("gymnasium",),
    "native": ("gymnax", "six"),
    "envpool": ("envpool",),
    "gymnasium": ("gymnasium",),
}
_INSTALL = {"envpool": "pip install 'trimtab[envpool]'"}
# What Gymnasium's own environments need beyond Gymnasium, by the module they live in.
_GYMNASIUM_NEEDS = {
    "gymnasium.envs.mujoco": ("mujoco", "pip install 'gymnasium[mujoco]'"),
    "gymnasium.envs.box2d": ("Box2D", "pip install 'gymnasium[box2d]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}


class CatalogueRow(NamedTuple):
    """One environment on one backend; `reason` says why it is not available, and is empty if it is."""

    env_id: str
    backend: str
    available: bool
    reason: str


def catalogue() -> list[CatalogueRow]:
    """Every known environment, backend by backend in the order `make` tries them."""
    rows = []
    for backend, env_ids in (("tabular", TABULAR_IDS), ("native", NATIVE_IDS), ("envpool", ENVPOOL_IDS)):
        reason = missing_package(backend)
        rows += [CatalogueRow(env_id, backend, not reason, reason) for env_id in env_ids]
        if backend == "native":
            rows += [CatalogueRow(env_id, "native", False, why) for env_id, why in NATIVE_LEFT_OUT.items()]
    return rows + _gymnasium_rows()


def missing_package(backend: str) -> str:
    """What to install before a backend can be used; empty if nothing."""
    for package in _PACKAGES[backend]:
        if importlib.util.find_spec(package) is None:
            return f"needs {package}: {_INSTALL.get(backend, f'pip install {package}')}"
    return ""


def gymnasium_ids() -> list[str]:
    """Every id registered with Gymnasium; none if it is not installed."""
    if missing_package("gymnasium"):
        return []
    import gymnasium

    return list(gymnasium.registry)


def _gymnasium_rows() -> list[CatalogueRow]:
    if missing_package("gymnasium"):
        return []
    import gymnasium

    reasons = {env_id: _gymnasium_reason(spec.entry_point) for env_id, spec in gymnasium.registry.items()}
    return [CatalogueRow(env_id, "gymnasium", not reason, reason) for env_id, reason in reasons.items()]


def _gymnasium_reason(entry_point: Any) -> str:
    """Why Gymnasium cannot make an environment, judged by where its code lives."""
    name = entry_point if isinstance(entry_point, str) else getattr(entry_point, "__name__", "")
    if name in ("_raise_mujoco_py_error", "_raise_shimmy_error"):
        return "Gymnasium keeps only the name; the environment moved to another package"
    for prefix, (package, install) in _GYMNASIUM_NEEDS.items():
        if name.startswith(prefix) and importlib.util.find_spec(package) is None:
            return f"needs {package}: {install}"
    return ""
