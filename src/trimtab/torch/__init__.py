"""A gradient meter for PyTorch training loops. Needs PyTorch (extra `torch`); never imports JAX.

| your loop | use |
|---|---|
| Stable-Baselines3, sb3-contrib | `model.learn(1_000_000, callback=SB3Callback(every=10))` |
| rsl_rl | `RslRlMeter(runner, every=10)` before `runner.learn(...)` |
| skrl | `SkrlMeter(agent, every=10)` before training |
| CleanRL, your own | `Meter(agent, rows=num_envs)`, then `meter.add(logprob, advantages)` before the update |
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trimtab.core.errors import MissingPackage

if TYPE_CHECKING:
    from trimtab.gradient.meter_report import MeterReport
    from trimtab.torch.meter import Meter
    from trimtab.torch.meter_errors import MeterError
    from trimtab.torch.rsl_rl_meter import RslRlMeter
    from trimtab.torch.sb3_callback import SB3Callback
    from trimtab.torch.skrl_meter import SkrlMeter

try:
    importlib.import_module("torch")
except ImportError as error:
    raise MissingPackage("torch is not installed: pip install 'trimtab[torch]'") from error

_PUBLIC = {
    "Meter": "trimtab.torch.meter",
    "MeterError": "trimtab.torch.meter_errors",
    "MeterReport": "trimtab.gradient.meter_report",
    "RslRlMeter": "trimtab.torch.rsl_rl_meter",
    "SB3Callback": "trimtab.torch.sb3_callback",
    "SkrlMeter": "trimtab.torch.skrl_meter",
}

__all__ = ["Meter", "MeterError", "MeterReport", "RslRlMeter", "SB3Callback", "SkrlMeter"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'trimtab.torch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
