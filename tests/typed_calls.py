"""What type checkers know of the Python functions: `make check` fails where a mistake below is not found.

Every `type: ignore` stands for a mistake that mypy finds; one that it does not find is an unused comment, and an error.
"""

from __future__ import annotations

import trimtab
from trimtab import Config, Rescaled, Run


def right(config: Config, run: Run) -> None:
    """Calls as they may be."""
    made: Run = trimtab.train("CartPole-v1", "out", seed=3, learning_rate=3e-4, devices="all", checkpoints=2)
    moved: Rescaled = trimtab.rescale(config, num_envs=4, skip={"gamma"})
    trimtab.probe(run, "last", [0.9, 0.95], replicates=8, start="reset")
    trimtab.split(made, 64, splits="4x16", quick=True, gamma=0.9, on="inline")
    trimtab.tune(moved.config, sweep={"gamma": [0.9]}, store="jobs")
    trimtab.compare(run, "other")
    trimtab.export(run, "numpy", at=3)
    trimtab.configure("CartPole-v1", hidden_sizes=(8, 8))


def wrong(run: Run) -> None:
    """A name that is no option, values of other types, and arguments that are missing."""
    trimtab.train("CartPole-v1", learning_rat=3e-4)  # type: ignore[call-arg]
    trimtab.train("CartPole-v1", num_envs="many")  # type: ignore[arg-type]
    trimtab.train()  # type: ignore[call-arg]
    trimtab.probe(run, start="somewhere")  # type: ignore[arg-type]
    trimtab.rescale(run, num_environments=4)  # type: ignore[call-arg]
    trimtab.export(run)  # type: ignore[call-arg]
    trimtab.split(run, 64, seeds="3")  # type: ignore[arg-type]
    trimtab.evaluate(run, episodes="ten")  # type: ignore[arg-type]
