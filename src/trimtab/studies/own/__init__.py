"""Studies of this library itself: whether its presets train, its split holds still, its doctor helps."""

from trimtab.studies.own.advice import Advice
from trimtab.studies.own.learning import Learning
from trimtab.studies.own.reliability import Reliability

OWN = (Learning, Reliability, Advice)
