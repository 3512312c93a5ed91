"""Kinds of jobs beyond training and probing. Importing this registers them, so workers import it."""

from trimtab.experiments.jobs.gradient_jobs import Directions, IndependentDraws, MinibatchNoise
from trimtab.experiments.jobs.policy_jobs import EpisodicVariance, Evaluation, ExactBias, GreedyValue, RepeatedRun
from trimtab.experiments.jobs.step_jobs import GradientSteps
from trimtab.studies.throughput_job import Throughput

__all__ = [
    "Directions",
    "EpisodicVariance",
    "Evaluation",
    "ExactBias",
    "GradientSteps",
    "GreedyValue",
    "IndependentDraws",
    "MinibatchNoise",
    "RepeatedRun",
    "Throughput",
]
