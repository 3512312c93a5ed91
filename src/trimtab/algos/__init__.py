"""Algorithms: `init(key, hypers) -> State`, `step(state, hypers) -> (State, Info)`, for one environment and Config."""

from trimtab.algos.algorithm import Algorithm

__all__ = ["Algorithm"]
