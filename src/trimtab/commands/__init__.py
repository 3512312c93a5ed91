"""What each command does, one module per family; a command loads only its own."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "train": "training",
    "resume": "training",
    "rescale": "rescaling",
    "probe": "measuring",
    "split": "measuring",
    "plan": "advising",
    "doctor": "advising",
    "tune": "advising",
    "translate": "advising",
    "eval": "looking",
    "show": "looking",
    "repeat": "looking",
    "envs": "looking",
    "presets": "looking",
}


def run(name: str, argv: list[str]) -> int | None:
    return getattr(import_module(f"trimtab.commands.{_HOME[name]}"), name)(argv)
