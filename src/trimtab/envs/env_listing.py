"""What there is to run, which backend has it, and why something does not run here. Imports no JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

from trimtab.envs import id_table
from trimtab.envs.backends import BACKENDS, GYMNASIUM, Backend, EnvRequest
from trimtab.envs.base import EnvError
from trimtab.envs.id_table import action_in_words, observation_in_words

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

    `observation`, `action` and `limit` are in words, and empty where only making the environment would show them.
    """

    env_id: str
    backend: str
    available: bool
    reason: str
    family: str = ""
    observation: str = ""
    action: str = ""
    limit: str = ""


def list_environments() -> list[CatalogueRow]:
    """Every known environment.

    Returns:
        Rows, backend by backend in the order `make` tries them.
    """
    return [row for backend in BACKENDS.values() for row in _rows_of(backend)]


def _rows_of(backend: Backend) -> Iterator[CatalogueRow]:
    if backend is GYMNASIUM:
        yield from _gymnasium_rows()
        return
    missing, unavailable = backend.missing, backend.unavailable()
    table = id_table.by_id(backend.name) if backend.tabulated else {}
    for row in table.values():
        reason = missing or row.reason
        observation = " ".join(row.observation.split(" ")[:2])
        yield CatalogueRow(row.env_id, backend.name, not reason, reason, row.family, observation, row.action, row.limit)
    for env_id in sorted({*backend.ids(), *unavailable} - table.keys(), key=[*backend.ids(), *unavailable].index):
        reason = missing or unavailable.get(env_id, "")
        yield CatalogueRow(env_id, backend.name, not reason, reason, backend.family)


def detailed(row: CatalogueRow) -> CatalogueRow:
    """The same row with its spaces, where making the environment shows them and loads no JAX."""
    if row.observation or not row.available or not BACKENDS[row.backend].drawn_by_gymnasium:
        return row
    import gymnasium

    from trimtab.envs.gymnasium_backend import make_gym

    if str(gymnasium.spec(row.env_id).entry_point).startswith(_LOADS_JAX):
        return row
    try:
        env = make_gym(EnvRequest(row.env_id))
    except EnvError as error:
        return row._replace(available=False, reason=str(error).removeprefix("env_id: "))
    env.close()
    limit = "" if env.spec.time_limit is None else str(env.spec.time_limit)
    return row._replace(
        observation=observation_in_words(env.spec), action=action_in_words(env.spec.action), limit=limit
    )


def _gymnasium_rows() -> Iterator[CatalogueRow]:
    if GYMNASIUM.missing:
        return
    import gymnasium

    for env_id, spec in gymnasium.registry.items():
        name = _entry_name(spec.entry_point)
        reason = _gymnasium_reason(name)
        family = name.split(":")[0].removeprefix("gymnasium.envs.").split(".")[0]
        family = "moved away" if "another package" in reason else family
        yield CatalogueRow(env_id, GYMNASIUM.name, not reason, reason, family)


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
