"""Algorithms: each is `init(key) -> State` and `step(state) -> (State, Info)`, built for one environment and Config."""

from trimtab.algos.core import Algorithm

__all__ = ["Algorithm"]
