"""Stochastic gradient descent with momentum, on one flat vector."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.math.optimizers import OptimizerKind


class Momentum(NamedTuple):
    """The decaying sum of gradients: trace [P]."""

    trace: Any

    def direction(self, hypers, gradient):
        """s ← g + momentum · s, which is the direction."""
        trace = gradient + hypers["momentum"] * self.trace
        return trace, Momentum(trace)


def _init(params) -> Momentum:
    import jax.numpy as jnp

    return Momentum(jnp.zeros_like(params))


OPTIMIZER = OptimizerKind(
    name="sgd",
    summary="follows the gradient, with momentum",
    fields=("momentum",),
    vectors=1,
    scale_free=False,
    step_divisor="c",
    why="SGD's step is proportional to the minibatch (the paper, section 3)",
    kept=(("momentum", "left alone, as Adam's β"),),
    init=_init,
)
