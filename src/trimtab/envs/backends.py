"""Where environments come from: one entry for each backend, with everything that other code asks about it. No JAX.

A backend is an entry of `BACKENDS` and a module with `make(request)`, which is imported when it is first used. Nothing
else compares with a backend's name. The order of the entries is the order in which `auto` tries them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from trimtab.core.errors import EnvError
from trimtab.core.wording import nearest
from trimtab.envs import known_ids

if TYPE_CHECKING:
    from trimtab.envs.base import CompiledEnv, HostEnv


class EnvRequest(NamedTuple):
    """What a backend is asked to make."""

    env_id: str
    num_envs: int = 1
    options: Mapping[str, Any] = {}
    time_limit: int | None = None
    seed: int = 0
    streamed: bool = False


def _no_refusals() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Backend:
    """One source of environments."""

    name: str
    """Its value of the option `backend`."""
    module: str
    """The module in this folder that makes its environments."""
    packages: tuple[str, ...]
    """Python packages that must be installed."""
    ids: Callable[[], Collection[str]]
    """The ids that it has, without importing what has them."""
    family: str = ""
    """Its environments' family in lists, where the table has none."""
    install: str = ""
    """What to type where a package is missing; by default `pip install` of the package."""
    distributions: tuple[str, ...] = ()
    """What its environments are computed by, as their packages are installed; `packages` if not given."""
    compiled: bool = True
    """Whether its environments are compiled with the training loop."""
    tabulated: bool = True
    """Whether `id_table.csv` has the spaces of its environments, so that looking at one needs no import."""
    options_change_spaces: bool = False
    """Whether options can change the spaces that the table has."""
    exact: bool = False
    """Whether the transition probabilities are known, so that gradients can be computed exactly."""
    drawn_by_gymnasium: bool = False
    """Whether Gymnasium draws its environments."""
    reserve: bool = False
    """Whether `auto` may choose it although a package is missing; the error then says what to install."""
    extra_ids: Callable[[str], bool] = lambda env_id: False
    """Whether it has an id that `ids` does not list."""
    unavailable: Callable[[], Mapping[str, str]] = _no_refusals
    """Ids that it has but cannot run, and why."""

    def has(self, env_id: str) -> bool:
        """Whether it knows an id, installed or not."""
        return env_id in self.ids() or self.extra_ids(env_id)

    @property
    def missing(self) -> str:
        """What to install before it can be used; empty if nothing."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return f"needs {package}: {self.install or f'pip install {package}'}"
        return ""

    def refuse_missing(self) -> None:
        """Raise where a package is missing."""
        if self.missing:
            raise EnvError(f"backend: {self.name} {self.missing}")

    @property
    def versions(self) -> dict[str, str]:
        """The installed distributions that its environments are computed by, with their versions."""
        return installed_versions(self.distributions or self.packages)

    def make(self, request: EnvRequest) -> CompiledEnv | HostEnv:
        """Make an environment; imports the backend's module."""
        environment: CompiledEnv | HostEnv = import_module(f"trimtab.envs.{self.module}").make(request)
        return environment


def _gymnasium_ids() -> list[str]:
    """Every id registered with Gymnasium; none if it is not installed."""
    if GYMNASIUM.missing:
        return []
    import gymnasium

    return list(gymnasium.registry)


def _envpool_ids() -> Collection[str]:
    from trimtab.envs import id_table  # imports NumPy

    return id_table.by_id("envpool").keys()


def _newer_envpool_has(env_id: str) -> bool:
    """EnvPool itself is asked (seconds to import) only if it is not the version of the table."""
    from trimtab.envs.id_table import ENVPOOL_VERSION

    known = any(env_id in backend.ids() for backend in BACKENDS.values() if backend.tabulated or backend.exact)
    if known or ENVPOOL.missing or ENVPOOL_VERSION in ENVPOOL.versions.values():
        return False
    from trimtab.envs.envpool_backend import pool_ids

    return env_id in pool_ids()


def has_robots() -> bool:
    """Whether the models of MuJoCo Playground's robots are where it looks for them."""
    package = importlib.util.find_spec("mujoco_playground")
    if package is None or not package.origin:
        return False
    return (Path(package.origin).parent / "external_deps" / "mujoco_menagerie").exists()


def _absent_robots() -> Mapping[str, str]:
    reason = "" if has_robots() else "needs the MuJoCo Menagerie; making one says how to get it"
    return dict.fromkeys(known_ids.PLAYGROUND_ROBOTS, reason) if reason else {}


def _extra(name: str) -> str:
    return f"pip install 'trimtab[{name}]'"


_ALL = (
    Backend(
        "tabular",
        "tabular_backend",
        ("gymnasium",),
        lambda: known_ids.TABULAR_IDS,
        "toy_text",
        tabulated=False,
        exact=True,
        drawn_by_gymnasium=True,
    ),
    Backend(  # gymnax imports six without declaring it
        "native",
        "gymnax_backend",
        ("gymnax", "six"),
        lambda: known_ids.NATIVE_IDS,
        "gymnax",
        distributions=("gymnax",),
        reserve=True,
        unavailable=lambda: known_ids.NATIVE_LEFT_OUT,
    ),
    Backend(
        "lqr",
        "lqr_backend",
        (),
        lambda: ("LQR-v0", "LQR-scalar-v0"),
        "linear-quadratic",
        options_change_spaces=True,
    ),
    Backend("pgx", "pgx_backend", ("pgx",), lambda: known_ids.PGX_IDS, "pgx", _extra("pgx")),
    Backend(
        "xminigrid",
        "xminigrid_backend",
        ("xminigrid",),
        lambda: known_ids.XMINIGRID_IDS,
        "xminigrid",
        _extra("xminigrid"),
    ),
    Backend(
        "playground",
        "playground_backend",
        ("mujoco_playground",),
        lambda: (*known_ids.PLAYGROUND_IDS, *known_ids.PLAYGROUND_ROBOTS),
        "robots",
        _extra("playground"),
        distributions=("playground", "mujoco", "mujoco-mjx"),
        options_change_spaces=True,
        unavailable=_absent_robots,
    ),
    Backend(
        "envpool",
        "envpool_backend",
        ("envpool",),
        _envpool_ids,
        "envpool",
        _extra("envpool"),
        compiled=False,
        options_change_spaces=True,
        extra_ids=_newer_envpool_has,
    ),
    Backend(
        "gymnasium",
        "gymnasium_backend",
        ("gymnasium",),
        _gymnasium_ids,
        "gymnasium",
        compiled=False,
        tabulated=False,
        drawn_by_gymnasium=True,
        extra_ids=lambda env_id: ":" in env_id,  # `module:MyEnv-v0`
    ),
)
BACKENDS = {backend.name: backend for backend in _ALL}
ENVPOOL = BACKENDS["envpool"]
GYMNASIUM = BACKENDS["gymnasium"]  # which makes what users bring
if TYPE_CHECKING:
    BackendName = str
else:
    BackendName = Literal[("auto", *BACKENDS)]


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """The versions of distributions, without those that are not installed."""
    versions = {}
    for name in distributions:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def choose(env_id: str, backend: str = "auto") -> str:
    """The backend that runs an environment.

    Args:
        env_id: the id.
        backend: the requested backend, or auto.

    Returns:
        Its name. Raises EnvError with what would have worked.
    """
    having = _backends_with(env_id)
    if backend == "auto":
        usable = [each for each in having if each.reserve or not each.missing]
        if usable:
            return usable[0].name
        if having:
            raise EnvError(f"env_id: {env_id} runs on {having[0].name}, which {having[0].missing}")
        raise EnvError(f"env_id: no environment is called {env_id!r}{_suggestion(env_id)}")
    asked = BACKENDS[backend]
    if asked in having:
        asked.refuse_missing()
        return backend
    if env_id in (reasons := asked.unavailable()):
        raise EnvError(f"env_id: {env_id} does not run on backend {backend}: {reasons[env_id]}")
    if having:
        raise EnvError(f"backend: {backend} does not have {env_id}; {', '.join(b.name for b in having)} has it")
    raise EnvError(f"env_id: no environment is called {env_id!r}{_suggestion(env_id)}")


def _backends_with(env_id: str) -> list[Backend]:
    """The backends that have an id, in the order they are tried, installed or not."""
    if ":" in env_id:
        return [GYMNASIUM]
    having = [backend for backend in BACKENDS.values() if backend.has(known_ids.canonical(env_id))]
    return having[::-1] if env_id in known_ids.GYMNASIUM_FIRST else having


def _suggestion(env_id: str) -> str:
    """The nearest ids that exist, or why a known one was left out, or how to name an environment of a local module."""
    if Path(f"{env_id.removesuffix('.py')}.py").is_file():
        module = env_id.removesuffix(".py").replace("/", ".").lstrip(".")
        return f"; {module}.py is a module: name the environment in it too, for example {module}:MyEnv"
    if env_id in known_ids.NATIVE_LEFT_OUT:
        return f": {known_ids.NATIVE_LEFT_OUT[env_id]}"
    close = nearest(env_id, (*known_ids.PROCGEN_ALIASES, *_every_id()))
    return f"; nearest: {', '.join(close)}" if close else "; `trimtab envs` lists them"


def _every_id() -> Iterable[str]:
    return (env_id for backend in BACKENDS.values() for env_id in backend.ids())
