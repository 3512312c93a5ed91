"""What the command line does, as functions. A source is an environment id, a preset, a path, a Config or a Run."""

from trimtab.operations.adopt_policy import adopt
from trimtab.operations.probe import probe
from trimtab.operations.python_runs import compare, diagnose, evaluate, export, repeat, resume, train, watch
from trimtab.operations.python_settings import plan, translate
from trimtab.operations.python_studies import split, study, throughput, tune
from trimtab.operations.rescale import rescale
from trimtab.operations.source import configure, run_of
from trimtab.training.run import load

__all__ = [
    "adopt",
    "compare",
    "configure",
    "diagnose",
    "evaluate",
    "export",
    "load",
    "plan",
    "probe",
    "repeat",
    "rescale",
    "resume",
    "run_of",
    "split",
    "study",
    "throughput",
    "train",
    "translate",
    "tune",
    "watch",
]
