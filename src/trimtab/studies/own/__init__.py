"""Studies of this library itself: whether presets train, also on two devices, split holds still, the doctor helps."""

from trimtab.studies.own.advice import Advice
from trimtab.studies.own.devices import Devices
from trimtab.studies.own.learning import Learning
from trimtab.studies.own.reliability import Reliability

OWN = (Learning, Reliability, Advice, Devices)
