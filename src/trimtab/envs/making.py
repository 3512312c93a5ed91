"""Making an environment, and looking at one without making it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from trimtab.envs import id_table, known_ids
from trimtab.envs.backends import BACKENDS, GYMNASIUM, EnvRequest, choose
from trimtab.envs.base import CompiledEnv, EnvError, HostEnv, Spec

if TYPE_CHECKING:
    from trimtab.envs.own_environments import Constructor


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
    """Make an environment: compiled if it can be, else `num_envs` host environments.

    Args:
        env_id: an id; `module:Env-v0` and `module:ClassOrFunction` are imported.
        num_envs: N, for host environments.
        backend: one of `BACKENDS`; `auto` takes the first that has the id and is installed.
        env_kwargs: options of the environment's own constructor or parameters; for Gymnasium also `vectorization`
            ("sync", "async" or "vector_entry_point").
        time_limit: overrides the environment's own limit; None keeps it.
        seed: of the first reset of host environments; compiled environments take keys instead.
        streamed: ask for host environments that a compiled program can step, where there are such.
        constructor: a function or class that returns a gymnasium.Env, used instead of the id.

    Returns:
        The environment.
    """
    if backend not in ("auto", *BACKENDS):
        raise EnvError(f"backend: {backend!r} is none of auto, {', '.join(BACKENDS)}")
    if num_envs < 1:
        raise EnvError(f"num_envs: {num_envs} is too few; the least is 1")
    request = EnvRequest(env_id, num_envs, dict(env_kwargs or {}), time_limit, seed, streamed)
    if constructor is not None:
        return _make_by_constructor(request, backend, constructor)
    chosen = BACKENDS[choose(env_id, backend)]
    chosen.refuse_missing()
    return chosen.make(request)


def _make_by_constructor(request: EnvRequest, backend: str, constructor: Constructor) -> HostEnv:
    if backend not in ("auto", GYMNASIUM.name):
        problem = f"{backend} cannot run an environment given as a function; nearest: {GYMNASIUM.name}"
        raise EnvError(f"backend: {problem}")
    from trimtab.envs.gymnasium_backend import make_gym

    return make_gym(request, constructor)


def look(
    env_id: str,
    backend: str = "auto",
    env_kwargs: dict[str, Any] | None = None,
    time_limit: int | None = None,
    constructor: Constructor | None = None,
) -> Spec:
    """What an environment observes and takes, without JAX: from the table of known ones, else by making one.

    The arguments are those of `make`.

    Returns:
        Its spec. Options that change the spaces or the limit of a known one are followed where its backend has such.
    """
    chosen = GYMNASIUM if constructor is not None else BACKENDS[choose(env_id, backend)]
    if not chosen.tabulated:
        return _spec_by_gymnasium(chosen.name, EnvRequest(env_id, 1, dict(env_kwargs or {}), time_limit), constructor)
    row = id_table.by_id(chosen.name).get(known_ids.canonical(env_id))
    if row is None or (chosen.options_change_spaces and env_kwargs and not chosen.missing):
        return make(env_id, num_envs=1, backend=chosen.name, env_kwargs=env_kwargs, time_limit=time_limit).spec
    spec = row.spec(chosen.compiled)
    if spec is None:
        raise EnvError(f"env_id: {env_id} {row.reason}")
    return spec if time_limit is None else dataclasses.replace(spec, time_limit=time_limit)


def _spec_by_gymnasium(backend: str, request: EnvRequest, constructor: Constructor | None) -> Spec:
    """The spec of an environment that Gymnasium can make, for whatever backend runs it."""
    from trimtab.envs.gymnasium_backend import make_gym

    env = make_gym(request, constructor)
    env.close()
    return dataclasses.replace(env.spec, backend=backend)
