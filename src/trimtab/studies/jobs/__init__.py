"""Kinds of jobs beyond training and probing. Importing this makes them known, so workers import it."""

from trimtab.studies.jobs.directions import Directions

__all__ = ["Directions"]
