"""Configurations from Python: at another size, before they run, from other libraries."""

from __future__ import annotations

from typing import Any, Unpack

from trimtab.advise import planning as planning
from trimtab.advise import rescaling as rescaling
from trimtab.config.keywords import Fields
from trimtab.libraries.common import translation as translating
from trimtab.libraries.common.library import Translated
from trimtab.operations.source import Source, configure, refuse_constructor


def plan(source: Source, *, preset: str | None = None, **fields: Unpack[Fields]) -> planning.Plan:
    """What the rules of thumb say of a configuration before it runs, most pressing first; arguments of `configure`."""
    refuse_constructor(fields)
    return planning.plan(configure(source, preset=preset, **fields))


def translate(library: str, fields: dict[str, Any], *, defaults: bool = True) -> Translated:
    """Hyperparameters of another library here; `.config(env_id)` makes a Config of them.

    `library`: sb3 (also RL Zoo's), cleanrl, rllib, rsl_rl, skrl, rl_games, brax or ppo-ewma; `fields` by its own names.
    With `defaults`, what the library does where nothing is given is carried over too.
    """
    return translating.translate(library, fields, defaults)
