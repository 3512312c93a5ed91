"""A penalty on the KL divergence from the proximal policy (Hilton et al. 2021, arXiv 2110.00641)."""

from __future__ import annotations

from trimtab.math.surrogates import Surrogate, Terms


def _objective(terms: Terms, kl_coef):
    from trimtab.math import objectives

    kl = terms.kl_prox()
    return objectives.kl_penalized(terms.logp, terms.logp_behav, kl, terms.advantage, kl_coef, terms.imp_samp_max)


def _limits(terms: Terms, kl_coef):
    from trimtab.math import objectives

    return objectives.clip_binds(terms.logp, terms.logp_prox, terms.advantage, float("inf"))  # a penalty has no limit


SURROGATE = Surrogate(
    name="kl",
    summary="adds a penalty on the KL from the proximal policy",
    coefficient="kl_coef",
    off=0.0,
    objective=_objective,
    limits=_limits,
    clips=False,
)
