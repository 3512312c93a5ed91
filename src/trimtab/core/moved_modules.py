"""Module paths of earlier versions, which still import: the public ones silently, the others with a warning."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

PUBLIC = {  # part of the public API under these names
    "ewma": "math.ewma",
    "objectives": "math.objectives",
    "returns": "math.returns",
    "stats": "math.stats",
}
RENAMED = {  # paths of 0.1.0
    "across": "math.across_devices",
    "algos": "training",
    "algos.algorithm": "training.algorithm",
    "algos.core": "training.algorithm",
    "algos.optim": "math.step_sizes",
    "algos.ppg": "training.auxiliary_phase",
    "algos.ppo": "training.update",
    "anatomy.gradients": "training.sample_gradients",
    "anatomy.light": "training.light_probe",
    "anatomy.probe": "gradient.probing",
    "anatomy.split": "studies.split_study",
    "anatomy.variance": "gradient.variance",
    "engine": "training.engine",
    "errors": "core.errors",
    "estimate": "core.estimate",
    "evaluate": "training.evaluation",
    "fields": "core.fields",
    "flags": "operations.flags",
    "memory": "training.resource_estimates",
    "minibatch": "math.minibatch",
    "normalize": "math.normalize",
    "playbook": "advise",
    "playbook.doctor": "advise.diagnosis",
    "playbook.plan": "advise.planning",
    "playbook.tune": "studies.tune_study",
    "prng": "math.prng",
    "procgen": "envs.procgen",
    "quantities": "core.quantities",
    "records": "training.records",
    "report": "show",
    "rescaling": "advise.rescaling",
    "rollout": "training.rollout",
    "run": "training.run",
    "seeds": "studies.seeds_study",
    "snapshot": "training.snapshot",
}
PREFIX = "trimtab."


class _Alias(importlib.abc.Loader):
    """Gives the module under its new path when an old path is imported."""

    def __init__(self, target: str):
        self.target = target

    def exec_module(self, module: ModuleType) -> None:
        """The import system returns what `sys.modules` holds afterwards."""
        sys.modules[module.__name__] = importlib.import_module(self.target)


class _MovedModules(importlib.abc.MetaPathFinder):
    """Finds modules by the paths of earlier versions; the last finder, so that it only sees what no file has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        old = fullname.removeprefix(PREFIX)
        if old == fullname or old not in PUBLIC | RENAMED:
            return None
        new = PREFIX + (PUBLIC | RENAMED)[old]
        if old in RENAMED:
            warnings.warn(f"{fullname} is deprecated; use {new}", DeprecationWarning, stacklevel=2)
        return importlib.machinery.ModuleSpec(fullname, _Alias(new))


def install() -> None:
    """Make the old paths importable."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
