"""Environments: one `make` over finite MDPs, gymnax, pgx, xminigrid, Playground, EnvPool and Gymnasium.

Importing this package imports none of them; each is loaded when it is first used.
"""

from __future__ import annotations

import dataclasses
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from trimtab.core.wording import nearest
from trimtab.envs.availability import CatalogueRow, catalogue, gymnasium_ids, missing_package
from trimtab.envs.base import (
    Backend,
    CompiledEnv,
    Continuous,
    Discrete,
    EnvError,
    HostEnv,
    HostStep,
    MultiBinary,
    MultiDiscrete,
    Spec,
    Step,
)
from trimtab.envs.known_ids import (
    GYMNASIUM_FIRST,
    NATIVE_IDS,
    NATIVE_LEFT_OUT,
    PGX_IDS,
    PLAYGROUND_IDS,
    PLAYGROUND_ROBOTS,
    PROCGEN_ALIASES,
    TABULAR_IDS,
    XMINIGRID_IDS,
    canonical,
)

if TYPE_CHECKING:
    from trimtab.envs.own_environments import Constructor
    from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv

__all__ = [
    "Backend",
    "CatalogueRow",
    "CompiledEnv",
    "Continuous",
    "Discrete",
    "EnvError",
    "FiniteMDP",
    "HostEnv",
    "HostStep",
    "MultiBinary",
    "MultiDiscrete",
    "Spec",
    "Step",
    "TabularEnv",
    "catalogue",
    "choose",
    "look",
    "make",
]

BACKENDS: tuple[str, ...] = get_args(Backend)


def make(
    env_id: str,
    *,
    num_envs: int,
    backend: str = "auto",
    env_kwargs: dict[str, Any] | None = None,
    time_limit: int | None = None,
    seed: int = 0,
    streamed: bool = False,
    constructor: Constructor | None = None,
) -> CompiledEnv | HostEnv:
    """The environment of an id: compiled if it can be, else `num_envs` host environments.

    `auto` tries finite MDPs, gymnax, pgx, xminigrid, MuJoCo Playground, EnvPool, Gymnasium, in this order. `env_kwargs`
    go to the environment's own constructor or parameters (for Gymnasium, `vectorization` "sync", "async" or
    "vector_entry_point" may stand among them). `module:Env-v0` and `module:ClassOrFunction` are imported; a
    `constructor` (which returns a gymnasium.Env) is used instead of the id.
    `time_limit` overrides the environment's own limit; None keeps it. `seed` is the one a host environment is
    reset with unless `reset` is given another; compiled environments take keys instead. `streamed` asks for host
    environments that a compiled program can step, where there are such.
    """
    if backend not in ("auto", *BACKENDS):
        raise EnvError(f"backend: {backend!r} is none of auto, {', '.join(BACKENDS)}")
    if num_envs < 1:
        raise EnvError(f"num_envs: {num_envs} is too few; the least is 1")
    options = dict(env_kwargs or {})
    if constructor is not None:
        if backend not in ("auto", "gymnasium"):
            raise EnvError(f"backend: {backend} cannot run an environment given as a function; nearest: gymnasium")
        from trimtab.envs.gymnasium_backend import make_gym

        return make_gym(env_id, num_envs, options, time_limit, seed, constructor)
    chosen = choose(env_id, backend)
    if chosen == "tabular":
        from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv

        return TabularEnv(FiniteMDP.from_gymnasium(env_id, **options), time_limit)
    if chosen == "native":
        _refuse_missing(chosen)
        from trimtab.envs.gymnax_backend import make_native

        return make_native(env_id, options, time_limit)
    if chosen == "pgx":
        from trimtab.envs.pgx_backend import make_pgx

        return make_pgx(env_id, options, time_limit)
    if chosen == "xminigrid":
        from trimtab.envs.xminigrid_backend import make_xminigrid

        return make_xminigrid(env_id, options, time_limit)
    if chosen == "playground":
        from trimtab.envs.playground_backend import make_playground

        return make_playground(env_id, options, time_limit)
    if chosen == "envpool":
        from trimtab.envs.envpool_backend import PoolEnv

        return PoolEnv(env_id, num_envs, options, time_limit, seed, streamed)
    from trimtab.envs.gymnasium_backend import make_gym

    return make_gym(env_id, num_envs, options, time_limit, seed)


def look(
    env_id: str,
    backend: str = "auto",
    env_kwargs: dict[str, Any] | None = None,
    time_limit: int | None = None,
    constructor: Constructor | None = None,
) -> Spec:
    """What an environment observes and takes, without JAX: from the table of known ones, else by making one.

    Options that change the spaces or the limit of a known one are followed in EnvPool and Playground.
    """
    chosen = "gymnasium" if constructor is not None else choose(env_id, backend)
    if chosen not in ("gymnasium", "tabular"):
        from trimtab.envs.id_table import by_id

        if chosen in ("envpool", "playground") and env_kwargs and not missing_package(chosen):
            return make(env_id, num_envs=1, backend=chosen, env_kwargs=env_kwargs, time_limit=time_limit).spec
        row = by_id(chosen).get(canonical(env_id))
        if row is not None:
            if row.spec is None:
                raise EnvError(f"env_id: {env_id} {row.reason}")
            return row.spec if time_limit is None else dataclasses.replace(row.spec, time_limit=time_limit)
        return make(env_id, num_envs=1, backend=backend, env_kwargs=env_kwargs, time_limit=time_limit).spec
    from trimtab.envs.gymnasium_backend import make_gym

    env = make_gym(env_id, 1, env_kwargs, time_limit, constructor=constructor)
    env.close()
    return dataclasses.replace(env.spec, backend=chosen)


def choose(env_id: str, backend: str) -> str:
    """The backend to use; raises with what would have worked."""
    having = _backends_with(env_id)
    if backend == "auto":
        usable = [name for name in having if name == "native" or not missing_package(name)]
        if usable:
            return usable[0]
        if having:
            raise EnvError(f"env_id: {env_id} runs on {having[0]}, which {missing_package(having[0])}")
        raise EnvError(f"env_id: no environment is called {env_id!r}{_suggestion(env_id)}")
    if backend in having:
        _refuse_missing(backend)
        return backend
    if backend == "native" and env_id in NATIVE_LEFT_OUT:
        raise EnvError(f"env_id: {env_id} does not run on backend native: {NATIVE_LEFT_OUT[env_id]}")
    if having:
        raise EnvError(f"backend: {backend} does not have {env_id}; {', '.join(having)} has it")
    raise EnvError(f"env_id: no environment is called {env_id!r}{_suggestion(env_id)}")


def _backends_with(env_id: str) -> list[str]:
    """The backends that have an id, in the order they are tried, installed or not."""
    if ":" in env_id:
        return ["gymnasium"]
    listed = {
        "tabular": env_id in TABULAR_IDS,
        "native": env_id in NATIVE_IDS,
        "pgx": env_id in PGX_IDS,
        "xminigrid": env_id in XMINIGRID_IDS,
        "playground": env_id in (*PLAYGROUND_IDS, *PLAYGROUND_ROBOTS),
        "envpool": _known_to_envpool(canonical(env_id)),
        "gymnasium": env_id in gymnasium_ids(),
    }
    having = [backend for backend, has in listed.items() if has]
    return having[::-1] if env_id in GYMNASIUM_FIRST else having


def _known_to_envpool(env_id: str) -> bool:
    """Ask the table, and EnvPool itself (seconds to import) only if it is not the version of the table."""
    from trimtab.envs.id_table import ENVPOOL_VERSION, by_id

    if env_id in by_id("envpool"):
        return True
    elsewhere = (*TABULAR_IDS, *NATIVE_IDS, *PGX_IDS, *XMINIGRID_IDS, *PLAYGROUND_IDS, *PLAYGROUND_ROBOTS)
    if env_id in elsewhere or missing_package("envpool") or metadata.version("envpool") == ENVPOOL_VERSION:
        return False
    from trimtab.envs.envpool_backend import pool_ids

    return env_id in pool_ids()


def _refuse_missing(backend: str) -> None:
    reason = missing_package(backend)
    if reason:
        raise EnvError(f"backend: {backend} {reason}")


def _suggestion(env_id: str) -> str:
    """The nearest ids that exist, or why a known one was left out, or how to name what is in a module here."""
    if Path(f"{env_id.removesuffix('.py')}.py").is_file():
        module = env_id.removesuffix(".py").replace("/", ".").lstrip(".")
        return f"; of the module that is here, name the environment too: {module}:MyEnv"
    if env_id in NATIVE_LEFT_OUT:
        return f": {NATIVE_LEFT_OUT[env_id]}"
    from trimtab.envs.id_table import rows

    env_ids = (*TABULAR_IDS, *NATIVE_IDS, *PROCGEN_ALIASES, *(row.env_id for row in rows()), *gymnasium_ids())
    close = nearest(env_id, env_ids)
    return f"; nearest: {', '.join(close)}" if close else "; `trimtab envs` lists them"


def __getattr__(name: str) -> Any:
    """`FiniteMDP` and `TabularEnv` are public names here, but loading them loads JAX."""
    if name in ("FiniteMDP", "TabularEnv"):
        from trimtab.envs import tabular_backend

        return getattr(tabular_backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
