"""Surrogate objectives, one file each: how an update is kept near the proximal policy.

A file in this folder defines one `SURROGATE`; the registry finds it. Everything that other code asks about a surrogate
is a field of `Surrogate`, so nothing outside this folder compares with its name: the choices of the option and its
help, the objective that training and probes differentiate, what is logged, the field that the batch-size rules keep.

The gradient of every surrogate at the behavior policy, with the proximal policy equal to it, must be A ∇ log π: a probe
measures that. `tests/test_surrogates.py` holds each registered surrogate to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from trimtab.math.objectives import Samples, Scalar

    SurrogateName = str


class Terms(NamedTuple):
    """What an objective may use of each sample."""

    logp: Any  # log π(a|s) of the current policy
    logp_prox: Any  # of the proximal policy
    logp_behav: Any  # of the behavior policy
    advantage: Any
    imp_samp_max: Any  # cap on π / π_behav
    kl_prox: Callable[[], Any]  # KL[π_prox(·|s), π(·|s)], computed where it is used


@dataclass(frozen=True)
class Surrogate:
    """One way of keeping updates near the proximal policy."""

    name: str
    """Its value of the option `surrogate`."""
    summary: str
    """What it does, as half a sentence, for help texts."""
    coefficient: str
    """The field of `Config` that says how strongly; the batch-size rules keep it."""
    off: float
    """The value of the coefficient with which the proximal policy has no influence."""
    objective: Callable[[Terms, Scalar], Samples]
    """Per sample, to maximise, given the terms and the coefficient."""
    limits: Callable[[Terms, Scalar], tuple[Samples, Samples]]
    """Per sample: is it beyond the limit (`train/clip_fraction`), and is its gradient zero because of that."""
    clips: bool
    """Whether the gradient vanishes beyond the limit, as the doctor's rule about the clip fraction assumes."""


def _found() -> dict[str, Surrogate]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {module.SURROGATE.name: module.SURROGATE for module in modules}


SURROGATES = _found()
if not TYPE_CHECKING:
    SurrogateName = Literal[tuple(SURROGATES)]
