"""Environments: one `make` over finite MDPs, gymnax, pgx, xminigrid, Playground, EnvPool and Gymnasium.

Importing this package imports none of them, nor NumPy; each is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.envs.backends import BACKENDS, BackendName, choose
    from trimtab.envs.base import (
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
    from trimtab.envs.env_listing import CatalogueRow, list_environments
    from trimtab.envs.making import look, make
    from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv

__all__ = [
    "BACKENDS",
    "BackendName",
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
    "choose",
    "list_environments",
    "look",
    "make",
]
_HOME = {
    **dict.fromkeys(("BACKENDS", "BackendName", "choose"), "backends"),
    **dict.fromkeys(("CatalogueRow", "list_environments"), "env_listing"),
    **dict.fromkeys(("look", "make"), "making"),
    **dict.fromkeys(("FiniteMDP", "TabularEnv"), "tabular_backend"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'base')}"), name)


def __dir__() -> list[str]:
    return __all__
