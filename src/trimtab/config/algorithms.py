"""What each algorithm is, said once: everything that differs between them is asked of this table, never of a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Name = Literal["reinforce", "ppo", "ppo-ewma", "ppg", "ppg-ewma"]


@dataclass(frozen=True)
class Traits:
    """One algorithm."""

    title: str
    """Its name in sentences."""
    surrogate: bool
    """Samples are weighed by a ratio of policies and updates kept near a proximal one (clip or KL)."""
    gae: bool
    """Advantages are generalized advantage estimates; otherwise λ is 1."""
    minibatches: int
    """Minibatches per epoch by default, if they divide the batch."""
    ewma: bool = False
    """The proximal policy is an EWMA of the weights."""
    phasic: bool = False
    """Policy phases are followed by auxiliary phases."""
    may_lack_critic: bool = False
    """It can go without a value function, on whole episodes."""
    may_be_stale: bool = False
    """Batches may wait before they are used."""
    with_ewma: Name | None = None
    """The same algorithm with an EWMA, if there is one."""
    kin: Name | None = None
    """The algorithm whose presets serve where it has none of its own."""


ALGORITHMS: dict[str, Traits] = {
    "reinforce": Traits("REINFORCE", surrogate=False, gae=False, minibatches=1, may_lack_critic=True),
    "ppo": Traits("PPO", surrogate=True, gae=True, minibatches=4, may_be_stale=True, with_ewma="ppo-ewma"),
    "ppo-ewma": Traits("PPO-EWMA", surrogate=True, gae=True, minibatches=4, ewma=True, may_be_stale=True, kin="ppo"),
    "ppg": Traits("PPG", surrogate=True, gae=True, minibatches=4, phasic=True, with_ewma="ppg-ewma", kin="ppo"),
    "ppg-ewma": Traits("PPG-EWMA", surrogate=True, gae=True, minibatches=4, phasic=True, ewma=True, kin="ppg"),
}


def kindred(algo: str) -> Iterator[str]:
    """An algorithm and those whose presets serve in place of its own, nearest first."""
    name: str | None = algo
    while name in ALGORITHMS:
        yield name
        name = ALGORITHMS[name].kin


def those(test: Callable[[Traits], bool]) -> str:
    """The names that pass a test: ppg or ppg-ewma."""
    return " or ".join(name for name, traits in ALGORITHMS.items() if test(traits))
