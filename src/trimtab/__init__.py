"""trimtab trains policy-gradient agents and measures how to spend the batch.

run = trimtab.train("CartPole-v1", total_timesteps=50_000)
trimtab.diagnose(run)
act = run.policy()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trimtab.core import moved_modules

# ruff: noqa: F401
if TYPE_CHECKING:  # what editors complete
    from trimtab.advise.comparison import Comparison
    from trimtab.advise.diagnosis import Diagnosis
    from trimtab.advise.rescaling import Rescaled
    from trimtab.api import (
        adopt,
        compare,
        configure,
        diagnose,
        evaluate,
        export,
        load,
        plan,
        probe,
        repeat,
        rescale,
        resume,
        split,
        study,
        throughput,
        train,
        translate,
        tune,
        watch,
    )
    from trimtab.config import Config, ConfigError
    from trimtab.core.trust import trust
    from trimtab.training.numpy_policy import Policy
    from trimtab.training.run import Run

__version__ = "0.2.0.dev0"

# Public names and where they live; imported on first use, so that light commands stay light.
_PUBLIC = {
    "Comparison": "trimtab.advise.comparison",
    "Config": "trimtab.config",
    "ConfigError": "trimtab.config",
    "Diagnosis": "trimtab.advise.diagnosis",
    "Policy": "trimtab.training.numpy_policy",
    "Rescaled": "trimtab.advise.rescaling",
    "Run": "trimtab.training.run",
    "adopt": "trimtab.operations.adopt",
    "compare": "trimtab.operations.compare",
    "configure": "trimtab.operations.sources",
    "diagnose": "trimtab.operations.doctor",
    "evaluate": "trimtab.operations.eval",
    "export": "trimtab.operations.export",
    "load": "trimtab.training.run",
    "plan": "trimtab.operations.plan",
    "probe": "trimtab.operations.probe",
    "repeat": "trimtab.operations.repeat",
    "rescale": "trimtab.operations.rescale",
    "resume": "trimtab.operations.resume",
    "split": "trimtab.operations.split",
    "study": "trimtab.operations.study",
    "throughput": "trimtab.operations.throughput",
    "train": "trimtab.operations.train",
    "translate": "trimtab.operations.translate",
    "trust": "trimtab.core.trust",
    "tune": "trimtab.operations.tune",
    "watch": "trimtab.operations.watch",
}
_MODULES = ("anatomy", "envs", "ewma", "objectives", "presets", "returns", "stats")
_EXTRAS = ("torch",)  # modules that need packages of an extra

moved_modules.install()

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _MODULES + _EXTRAS:
        return importlib.import_module(f"trimtab.{name}")
    raise AttributeError(f"module 'trimtab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
