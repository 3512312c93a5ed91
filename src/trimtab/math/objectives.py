"""Policy objectives, one number per sample, to maximise. Nothing here reduces over samples.

Three log-probabilities of the taken action: `logp` (current policy), `logp_prox` (proximal: the policy updates are
kept near) and `logp_behav` (behavior: the policy that acted). Hilton et al. 2021, arXiv 2110.00641, section 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = float | Float[Array, ""]
Samples = Float[Array, "*samples"]


def cap_ratio(logp: Samples, logp_behav: Samples, imp_samp_max: Scalar) -> Samples:
    """Raise the behavior log-probability so that π/π_behav stays below `imp_samp_max`."""
    return jnp.maximum(logp_behav, jax.lax.stop_gradient(logp) - jnp.log(imp_samp_max))


def policy_gradient(logp: Samples, advantage: Samples) -> Samples:
    """A log π: its gradient is the plain policy gradient."""
    return advantage * logp


def clipped(
    logp: Samples,
    logp_prox: Samples,
    logp_behav: Samples,
    advantage: Samples,
    clip_coef: Scalar,
    imp_samp_max: Scalar = 100.0,
) -> Samples:
    """(π_prox / π_behav) min( r A, clip(r, 1-ε, 1+ε) A ),  r = π / π_prox.

    With π_prox = π_behav this is PPO's clipped objective; with ε = ∞ the proximal policy drops out. Ratios are bounded
    as logarithms: r alone overflows where a sample is far from the proximal policy, though the product does not.
    """
    logp_behav = cap_ratio(logp, logp_behav, imp_samp_max)
    low, high = jnp.log(jnp.maximum(1.0 - clip_coef, 0.0)), jnp.log1p(clip_coef)
    bounded = logp_prox - logp_behav + jnp.clip(logp - logp_prox, low, high)
    return jnp.minimum(jnp.exp(logp - logp_behav) * advantage, jnp.exp(bounded) * advantage)


def kl_penalized(
    logp: Samples,
    logp_behav: Samples,
    kl_prox: Samples,
    advantage: Samples,
    kl_coef: Scalar,
    imp_samp_max: Scalar = 100.0,
) -> Samples:
    """(π / π_behav) A - β KL[π_prox(·|s), π(·|s)], the KL of the whole distribution given analytically."""
    logp_behav = cap_ratio(logp, logp_behav, imp_samp_max)
    return jnp.exp(logp - logp_behav) * advantage - kl_coef * kl_prox


def clip_binds(logp: Samples, logp_prox: Samples, advantage: Samples, clip_coef: Scalar) -> tuple[Samples, Samples]:
    """Per sample: is |r - 1| > ε, and is the gradient really zero (the clip binds on one side only)."""
    ratio = jnp.exp(logp - logp_prox)
    outside = jnp.abs(ratio - 1.0) > clip_coef
    zero = jnp.where(advantage >= 0, ratio > 1.0 + clip_coef, ratio < 1.0 - clip_coef)
    return outside.astype(logp.dtype), zero.astype(logp.dtype)


def value_loss(
    value: Samples,
    target: Samples,
    value_behav: Samples | None = None,
    clip_vloss: Scalar | None = None,
    clipped_only: bool = False,
) -> Samples:
    """(V - target)², or the larger of it and the same with V's change clipped to ± `clip_vloss`.

    With `clipped_only` the clipped prediction alone makes the loss: where the clip binds, its gradient is 0.
    """
    squared = (value - target) ** 2
    if clip_vloss is None or value_behav is None:
        return squared
    near = value_behav + jnp.clip(value - value_behav, -clip_vloss, clip_vloss)
    clipped = (near - target) ** 2
    return clipped if clipped_only else jnp.maximum(squared, clipped)
