"""Algorithms: each is `init(key) -> State` and `step(state) -> (State, Info)`, built for one environment and Config."""

from trimtab.algos.algorithm import Algorithm

__all__ = ["Algorithm"]
