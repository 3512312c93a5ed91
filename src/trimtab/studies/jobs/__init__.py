"""Kinds of jobs beyond training and probing. Importing this makes them known, so workers import it."""

from trimtab.studies.jobs.directions import Directions
from trimtab.studies.jobs.draws import Draws
from trimtab.studies.jobs.episodic import EpisodicVariance
from trimtab.studies.jobs.evaluation import Evaluation, GreedyValue
from trimtab.studies.jobs.exact import ExactBias
from trimtab.studies.jobs.minibatches import Minibatches
from trimtab.studies.jobs.repeated import Repeated
from trimtab.studies.jobs.throughput import Throughput

__all__ = [
    "Directions",
    "Draws",
    "EpisodicVariance",
    "Evaluation",
    "ExactBias",
    "GreedyValue",
    "Minibatches",
    "Repeated",
    "Throughput",
]
