"""trimtab trains policy-gradient agents and measures how to spend the batch."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Public names and where they live; imported on first use, so that light commands stay light.
_PUBLIC = {
    "Config": "trimtab.config",
    "ConfigError": "trimtab.config",
    "Diagnosis": "trimtab.playbook.doctor",
    "Rescaled": "trimtab.playbook.rescale",
    "Run": "trimtab.runs.run",
    "diagnose": "trimtab.playbook.doctor",
    "load": "trimtab.runs.run",
    "rescale": "trimtab.playbook.rescale",
    "probe": "trimtab.anatomy.probe",
    "train": "trimtab.runs.loop",
    "resume": "trimtab.runs.loop",
}
_MODULES = ("anatomy", "envs", "ewma", "objectives", "returns", "stats")

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"trimtab.{name}")
    raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
