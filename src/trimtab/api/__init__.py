"""What the command line does, as functions. A source is an environment id, a preset, a path, a Config or a Run."""

from trimtab.api.policies import adopt
from trimtab.api.runs import compare, diagnose, evaluate, export, probe, repeat, resume, train, watch
from trimtab.api.settings import plan, rescale, translate
from trimtab.api.source import configure, run_of
from trimtab.api.studies import split, study, throughput, tune
from trimtab.runs.run import load

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
