"""Simple policy optimization (Xie et al. 2024, arXiv 2401.16025): a quadratic penalty in place of the clip.

    (π_prox / π_behav) ( r A - |A| / (2 ε) (r - 1)² ),  r = π / π_prox

The maximum over r lies at 1 ± ε, where PPO's clip begins; beyond it the gradient points back instead of vanishing.
"""

from __future__ import annotations

from trimtab.math.surrogates import Surrogate, Terms

STEEPEST = 20.0  # log r beyond which r² would leave float32
SMALLEST = 1e-6  # of ε, which may anneal to 0


def _objective(terms: Terms, clip_coef):
    import jax.numpy as jnp

    from trimtab.math.objectives import cap_ratio

    behavior = cap_ratio(terms.logp, terms.logp_behav, terms.imp_samp_max)
    ratio = jnp.exp(jnp.minimum(terms.logp - terms.logp_prox, STEEPEST))
    penalty = jnp.abs(terms.advantage) / (2.0 * jnp.maximum(clip_coef, SMALLEST)) * (ratio - 1.0) ** 2
    gain = jnp.exp(terms.logp - behavior) * terms.advantage
    return gain - jnp.exp(jnp.minimum(terms.logp_prox - behavior, STEEPEST)) * penalty


def _limits(terms: Terms, clip_coef):
    import jax.numpy as jnp

    outside = jnp.abs(jnp.exp(terms.logp - terms.logp_prox) - 1.0) > clip_coef
    return outside.astype(terms.logp.dtype), jnp.zeros_like(terms.logp)  # its gradient never vanishes beyond the limit


SURROGATE = Surrogate(
    name="spo",
    summary="penalizes (ratio - 1)² so that the best ratio is 1 ± clip_coef",
    coefficient="clip_coef",
    off=float("inf"),
    objective=_objective,
    limits=_limits,
    clips=False,
)
