"""Adam (Kingma & Ba 2015, arXiv 1412.6980), on one flat vector. The tests hold it against optax."""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.math.optimizers import OptimizerKind


class Adam(NamedTuple):
    """Moments of the gradients so far, and of how many: count [], mu [P], nu [P]."""

    count: Any
    mu: Any
    nu: Any

    def direction(self, hypers, gradient):
        """m ← β₁ m + (1−β₁) g,  v ← β₂ v + (1−β₂) g²;  the direction is m/(1−β₁ᵏ) / (√(v/(1−β₂ᵏ)) + ε)."""
        import jax.numpy as jnp

        beta1, beta2 = hypers["adam_beta1"], hypers["adam_beta2"]
        count = self.count + 1
        mu = (1 - beta1) * gradient + beta1 * self.mu
        nu = (1 - beta2) * gradient**2 + beta2 * self.nu
        unbiased = mu / (1 - beta1**count), nu / (1 - beta2**count)
        return unbiased[0] / (jnp.sqrt(unbiased[1]) + hypers["adam_eps"]), Adam(count, mu, nu)


def _init(params) -> Adam:
    import jax.numpy as jnp

    zeros = jnp.zeros_like(params)
    return Adam(jnp.zeros((), jnp.int32), zeros, zeros)


OPTIMIZER = OptimizerKind(
    name="adam",
    summary="divides by the root of the gradient's second moment",
    fields=("adam_beta1", "adam_beta2", "adam_eps"),
    vectors=2,
    scale_free=True,
    step_divisor="√c",
    why="Adam's own denominator takes the other √c (the paper, section 4, Appendix D)",
    kept=(),
    init=_init,
)
