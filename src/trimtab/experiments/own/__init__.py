"""Studies of this library itself: whether presets train, also on two devices, split holds still, the doctor helps."""

from trimtab.experiments.own.devices_learning import Devices
from trimtab.experiments.own.doctor_advice import Advice
from trimtab.experiments.own.doctor_validation import Validation
from trimtab.experiments.own.preset_learning import Learning
from trimtab.experiments.own.split_reliability import Reliability

OWN = (Learning, Reliability, Advice, Validation, Devices)
