"""Kinds of jobs beyond training and probing. Importing this makes them known, so workers import it."""

from trimtab.experiments.jobs.directions import Directions
from trimtab.experiments.jobs.episode_variance import EpisodicVariance
from trimtab.experiments.jobs.exact_bias import ExactBias
from trimtab.experiments.jobs.independent_draws import Draws
from trimtab.experiments.jobs.minibatch_noise import Minibatches
from trimtab.experiments.jobs.policy_value import Evaluation, GreedyValue
from trimtab.experiments.jobs.repeated_run import Repeated
from trimtab.studies.throughput_job import Throughput

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
