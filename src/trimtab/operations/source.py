"""What a function is given: an environment id, a preset, a path, a Config or a Run.

The one place that turns a source into what is needed: `configure` gives a Config, `run_of` a Run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, cast

from trimtab import config as configuration
from trimtab import presets
from trimtab.config import Config, ConfigError
from trimtab.config.keywords import Fields
from trimtab.core import trust
from trimtab.core.errors import RunError
from trimtab.envs.own_environments import Constructor
from trimtab.libraries.common.translation import field_here
from trimtab.training.progress import interactive
from trimtab.training.run import Run, load
from trimtab.training.run_dir import RunDir

Place = str | PathLike[str]  # a directory or a file
Source = Config | Run | Place


def configure(
    source: Source, *, preset: str | None = None, env: Constructor | None = None, **fields: Unpack[Fields]
) -> Config:
    """The configuration of a source, with some fields changed.

    An environment id and a YAML file of fields lie over the environment's own preset, as on the command line; `preset`
    names another, "none" is none. A Config, a Run and its directory are taken as they are. Where `env` makes the
    environment the source's id is only a name, and the quick start for its spaces is taken. `fields` are those of
    `Config`; an unknown one is refused with the nearest.
    """
    if env is not None and not callable(env):
        raise ConfigError("env", env, "must be a class or function that makes the environment")
    base, changes = _complete(source), cast(dict[str, Any], fields)
    trust.trust_named(source, source.env_id if isinstance(source, Config) else None, changes.get("env_id"))
    for name in changes.keys() - {field.name for field in dataclasses.fields(Config)}:
        if own_name := field_here(name):
            raise ConfigError(name, changes[name], f"no such field; here it is {own_name}")
    if isinstance(source, Config | Run) or base is not None:
        if preset not in (None, "none"):
            raise ConfigError("preset", preset, "a run or Config is complete; give an environment id, or leave it out")
        return configuration.from_dict(changes, base)
    if str(source) in presets.names():
        if preset is not None:
            raise ConfigError("preset", preset, f"{source} is one already; leave it out")
        return presets.layered(changes, preset=str(source))
    layer = presets.read_file(source) if Path(source).is_file() else {"env_id": str(source)}
    return presets.layered(layer, changes, preset=preset, env=env)


def refuse_constructor(fields: Mapping[str, Any]) -> None:
    """Other processes know an environment by a name that they can import; only `train` is in this one."""
    if "env" in fields:
        name = getattr(fields["env"], "__name__", "MyEnv")
        problem = f"only `trimtab.train` takes it; give it by name, for example 'mymodule:{name}'"
        raise ConfigError("env", fields["env"], problem)


def _complete(source: Source) -> Config | None:
    """The Config of a source that has all of one."""
    if isinstance(source, Config):
        return source
    if isinstance(source, Run):
        return source.config
    if not isinstance(source, str | PathLike):
        raise ConfigError("source", source, "must be an environment id, a preset, a path, a Config or a Run")
    return load(source).config if RunDir.began(source) else None


def run_of(source: Run | Place) -> Run:
    """The run of a source: itself, or the directory it is in."""
    if isinstance(source, Run):
        return source
    if isinstance(source, Config):
        raise RunError("a Config is not a run; `trimtab.train` makes one of it")
    if not isinstance(source, str | PathLike):
        raise RunError(f"{type(source).__name__} {source!r:.40} is not a run; give a Run or its directory")
    if not Path(source).exists():
        raise RunError(f"{source} is not a run directory; `trimtab.train` makes one")
    return load(source)


def is_quiet(quiet: bool | None) -> bool:
    """Whether to show no progress: what was asked for, or no one is there to see it."""
    return not interactive() if quiet is None else quiet
