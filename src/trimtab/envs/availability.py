"""What there is to run, which backend has it, and why something does not run here. Imports no JAX."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.envs.base import EnvError
from trimtab.envs.id_table import action_in_words, observation_in_words, rows
from trimtab.envs.known_ids import NATIVE_LEFT_OUT, PLAYGROUND_ROBOTS, TABULAR_IDS

# gymnax imports six without declaring it, so six is part of what must be there.
_PACKAGES = {
    "tabular": ("gymnasium",),
    "native": ("gymnax", "six"),
    "pgx": ("pgx",),
    "xminigrid": ("xminigrid",),
    "playground": ("mujoco_playground",),
    "envpool": ("envpool",),
    "gymnasium": ("gymnasium",),
}
_INSTALL = {name: f"pip install 'trimtab[{name}]'" for name in ("envpool", "pgx", "playground", "xminigrid")}
# What Gymnasium's own environments need beyond Gymnasium, by the module they live in.
_GYMNASIUM_NEEDS = {
    "gymnasium.envs.mujoco": ("mujoco", "pip install 'gymnasium[mujoco]'"),
    "gymnasium.envs.box2d": ("Box2D", "pip install 'gymnasium[box2d]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}
_LOADS_JAX = ("gymnasium.envs.phys2d", "gymnasium.envs.tabular")


class CatalogueRow(NamedTuple):
    """One environment on one backend; `reason` says why it is not available, and is empty if it is.

    `observation`, `action` and `limit` are in words, and empty where only making the environment would tell.
    """

    env_id: str
    backend: str
    available: bool
    reason: str
    family: str = ""
    observation: str = ""
    action: str = ""
    limit: str = ""


def catalogue() -> list[CatalogueRow]:
    """Every known environment, backend by backend in the order `make` tries them."""
    listed: dict[str, list[CatalogueRow]] = {backend: [] for backend in _PACKAGES}
    absent = {backend: missing_package(backend) for backend in _PACKAGES}
    for env_id in TABULAR_IDS:
        listed["tabular"].append(CatalogueRow(env_id, "tabular", not absent["tabular"], absent["tabular"], "toy_text"))
    for row in rows():
        reason = absent[row.backend] or row.reason
        observation = " ".join(row.observation.split(" ")[:2])
        listed[row.backend].append(
            CatalogueRow(row.env_id, row.backend, not reason, reason, row.family, observation, row.action, row.limit)
        )
    listed["native"] += [CatalogueRow(i, "native", False, why, "gymnax") for i, why in NATIVE_LEFT_OUT.items()]
    lacking = absent["playground"] or (
        "" if has_robots() else "needs the MuJoCo Menagerie; making one says how to get it"
    )
    listed["playground"] += [CatalogueRow(i, "playground", not lacking, lacking, "robots") for i in PLAYGROUND_ROBOTS]
    listed["gymnasium"] += _gymnasium_rows()
    return [row for backend_rows in listed.values() for row in backend_rows]


def detailed(row: CatalogueRow) -> CatalogueRow:
    """The same row with its spaces, where making the environment is what tells them and loads no JAX."""
    if row.observation or not row.available or row.backend not in ("tabular", "gymnasium"):
        return row
    import gymnasium

    from trimtab.envs.gymnasium_backend import make_gym

    if str(gymnasium.spec(row.env_id).entry_point).startswith(_LOADS_JAX):
        return row
    try:
        env = make_gym(row.env_id, 1)
    except EnvError as error:
        return row._replace(available=False, reason=str(error).removeprefix("env_id: "))
    env.close()
    limit = "" if env.spec.time_limit is None else str(env.spec.time_limit)
    return row._replace(
        observation=observation_in_words(env.spec), action=action_in_words(env.spec.action), limit=limit
    )


def missing_package(backend: str) -> str:
    """What to install before a backend can be used; empty if nothing."""
    for package in _PACKAGES[backend]:
        if importlib.util.find_spec(package) is None:
            return f"needs {package}: {_INSTALL.get(backend, f'pip install {package}')}"
    return ""


def has_robots() -> bool:
    """Whether the models of MuJoCo Playground's robots are where it looks for them."""
    package = importlib.util.find_spec("mujoco_playground")
    if package is None or not package.origin:
        return False
    return (Path(package.origin).parent / "external_deps" / "mujoco_menagerie").exists()


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

    catalogue_rows = []
    for env_id, spec in gymnasium.registry.items():
        name = _entry_name(spec.entry_point)
        reason = _gymnasium_reason(name)
        family = name.split(":")[0].removeprefix("gymnasium.envs.").split(".")[0]
        family = "moved away" if "another package" in reason else family
        catalogue_rows.append(CatalogueRow(env_id, "gymnasium", not reason, reason, family))
    return catalogue_rows


def _entry_name(entry_point: Any) -> str:
    if entry_point is None:
        return "vector"
    return entry_point if isinstance(entry_point, str) else getattr(entry_point, "__name__", "")


def _gymnasium_reason(name: str) -> str:
    """Why Gymnasium cannot make an environment, judged by where its code lives."""
    if name in ("_raise_mujoco_py_error", "_raise_shimmy_error"):
        return "Gymnasium keeps only the name; the environment moved to another package"
    for prefix, (package, install) in _GYMNASIUM_NEEDS.items():
        if name.startswith(prefix) and importlib.util.find_spec(package) is None:
            return f"needs {package}: {install}"
    if name.startswith("gymnasium.envs.mujoco.pusher_v4") and int(version("mujoco").split(".")[0]) >= 3:
        return "needs mujoco below 3; nearest: Pusher-v5"
    return ""
