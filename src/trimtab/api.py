"""What the command line does, as functions. A source is an environment id, a preset, a path, a Config or a Run."""

from trimtab.operations.adopt import adopt
from trimtab.operations.compare import compare
from trimtab.operations.doctor import diagnose
from trimtab.operations.eval import evaluate
from trimtab.operations.export import export
from trimtab.operations.plan import plan
from trimtab.operations.probe import probe
from trimtab.operations.repeat import repeat
from trimtab.operations.rescale import rescale
from trimtab.operations.resume import resume
from trimtab.operations.sources import configure, run_of
from trimtab.operations.split import split
from trimtab.operations.study import study
from trimtab.operations.throughput import throughput
from trimtab.operations.train import train
from trimtab.operations.translate import translate
from trimtab.operations.tune import tune
from trimtab.operations.watch import watch
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
