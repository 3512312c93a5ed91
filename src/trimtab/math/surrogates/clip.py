"""PPO's clipped objective (Schulman et al. 2017, arXiv 1707.06347), decoupled (Hilton et al. 2021, 2110.00641)."""

from __future__ import annotations

from trimtab.math.surrogates import Surrogate, Terms


def _objective(terms: Terms, clip_coef):
    from trimtab.math import objectives

    logps = terms.logp, terms.logp_prox, terms.logp_behav
    return objectives.clipped(*logps, terms.advantage, clip_coef, terms.imp_samp_max)


def _limits(terms: Terms, clip_coef):
    from trimtab.math import objectives

    return objectives.clip_binds(terms.logp, terms.logp_prox, terms.advantage, clip_coef)


SURROGATE = Surrogate(
    name="clip",
    summary="clips the ratio to the proximal policy",
    coefficient="clip_coef",
    off=float("inf"),
    objective=_objective,
    limits=_limits,
    clips=True,
)
