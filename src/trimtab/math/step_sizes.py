"""Schedules of step sizes and coefficients, gradient clipping, and the parameter update. Every number may be traced."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from trimtab.math.optimizers import ADAPTIVE_RATES

LOWEST_RATE, HIGHEST_RATE = ADAPTIVE_RATES


def schedule(kind: str, progress: Float[Array, ""]) -> Float[Array, ""]:
    """Share of the step size left after a fraction `progress` of training."""
    if kind == "linear":
        return 1.0 - progress
    if kind == "cosine":
        return 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
    return jnp.ones(())


def adapt_to_kl(rate: Float[Array, ""], kl: Float[Array, ""], desired_kl: Float[Array, ""]) -> Float[Array, ""]:
    """A step size that steers the KL: ÷ 1.5 above twice the desired one, × 1.5 below half of it, within bounds.

    The rule of rsl_rl (Rudin et al. 2022, arXiv 2109.11978), where a KL of 0 says nothing. One that is so small that
    rounding takes it below 0 is small.
    """
    slower, faster = jnp.maximum(LOWEST_RATE, rate / 1.5), jnp.minimum(HIGHEST_RATE, rate * 1.5)
    small = (kl < desired_kl / 2.0) & (kl != 0.0)
    return jnp.where(kl > 2.0 * desired_kl, slower, jnp.where(small, faster, rate))


def warmup(env_steps: Float[Array, ""], warmup_steps: Float[Array, ""], batch: int) -> Float[Array, ""]:
    """Linear rise over the first `warmup_steps` environment steps (whole iterations), then 1."""
    return jnp.minimum(1.0, (env_steps + batch) / jnp.maximum(warmup_steps, float(batch)))


def anneal(progress: Float[Array, ""], fraction: Float[Array, ""]) -> Float[Array, ""]:
    """1, falling linearly to 0 over the last `fraction` of training."""
    return jnp.clip((1.0 - progress) / jnp.maximum(fraction, 1e-8), 0.0, 1.0)


def global_norm(*gradients: Float[Array, " P"]) -> Float[Array, ""]:
    return jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients))


def clip_factor(norm: Float[Array, ""], max_norm: Float[Array, ""]) -> Float[Array, ""]:
    """What gradients are multiplied by so that their global norm is at most `max_norm`."""
    return jnp.where(norm > max_norm, max_norm / jnp.maximum(norm, 1e-12), 1.0)


def descend(hypers, params, gradient, opt_state, learning_rate):
    """θ ← θ - α (direction(g) + weight_decay · θ), the direction that of the optimizer whose state this is."""
    towards, opt_state = opt_state.direction(hypers, gradient)
    return params - learning_rate * (towards + hypers["weight_decay"] * params), opt_state
