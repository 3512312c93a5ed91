"""Optimizers, one file each: how a gradient becomes a direction, and what the batch-size rules say of it.

A file in this folder defines one `OPTIMIZER`; the registry finds it. Nothing outside compares with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    OptimizerName = str


ADAPTIVE_RATES = (1e-5, 1e-2)  # bounds of a step size that follows the KL, as in rsl_rl


@dataclass(frozen=True)
class OptimizerKind:
    """One optimizer."""

    name: str
    """Its value of the option `optimizer`."""
    summary: str
    """What it does, as half a sentence, for help texts."""
    fields: tuple[str, ...]
    """The fields of `Config` that only it uses."""
    vectors: int
    """Vectors of the parameters' size in its state."""
    scale_free: bool
    """Whether its step does not grow with the gradient, so that usual learning rates are those of all tasks."""
    step_divisor: Literal["√c", "c"]
    """What the batch-size rules divide the step size by, c the old minibatch over the new one."""
    why: str
    """The reason for that, with its source."""
    kept: tuple[tuple[str, str], ...]
    """Fields that a rescaling shows as kept where they are not 0, each with the reason."""
    init: Callable[[Any], Any]
    """Its state before the first step, from the parameters; the state has `direction(hypers, gradient)`."""


def _found() -> dict[str, OptimizerKind]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {module.OPTIMIZER.name: module.OPTIMIZER for module in modules}


OPTIMIZERS = _found()
if not TYPE_CHECKING:
    OptimizerName = Literal[tuple(OPTIMIZERS)]
