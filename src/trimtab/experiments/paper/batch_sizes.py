"""One configuration at smaller and smaller batches, with all of the paper's adjustments or without one of them.

The runs that `paper/invariance`, `paper/table5`, `paper/linear` and `paper/betas` share: the same configuration on the
same seed is the same job.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import polars as pl

from trimtab.advise.rescaling import rescale
from trimtab.config import Config
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.trained import DIFFERENT, SCORE, SETTINGS, Cell, Groups, Trained, Weighted, minus
from trimtab.experiments.source_study import Size, Tables
from trimtab.experiments.trained_runs import BROKEN

T = TypeVar("T", bound=Tables)
ADJUSTED = "all adjustments"
NO_STEP_SIZE = "(a) no Adam step size adjustment"
NO_NORMALIZATION = "(b) no advantage normalization adjustment"
NO_EWMA_ADJUSTMENT = "(c) no EWMA adjustment"
NO_EWMA = "(d) no EWMA at all"
ABLATIONS = (NO_STEP_SIZE, NO_NORMALIZATION, NO_EWMA_ADJUSTMENT, NO_EWMA)
LINEAR = "linear step size"
ONLY_BETA2 = "β₂ adjusted"
BOTH_BETAS = "β₁ and β₂ adjusted"
WEAK = "PPG, KL coefficient 1/256"
SKIPPED = {NO_STEP_SIZE: "learning_rate", NO_NORMALIZATION: "norm_adv", NO_EWMA_ADJUSTMENT: "prox_com"}


def _smaller(base: Config, num_envs: int, size: Size, **options: Any) -> Config:
    """The configuration at fewer environments; at full size the auxiliary phase as in the paper (workers go first)."""
    if size == "full":
        options |= {"auxiliary": "paper", "workers_before": 4, "workers": max(1, num_envs // 64)}
    return rescale(base, num_envs=num_envs, **options).config


def _plain(base: Config, num_envs: int, size: Size) -> Config:
    return _smaller(base, num_envs, size)


def _without(adjustment: str) -> Callable[[Config, int, Size], Config]:
    return lambda base, num_envs, size: _smaller(base, num_envs, size, skip=(adjustment,))


def _only_beta2(base: Config, num_envs: int, size: Size) -> Config:
    return _smaller(base, num_envs, size, adam_betas=True).replace(adam_beta1=base.adam_beta1)


MADE: dict[str, Callable[[Config, int, Size], Config]] = {
    ADJUSTED: _plain,
    **{variant: _without(name) for variant, name in SKIPPED.items()},
    NO_EWMA: _plain,
    LINEAR: lambda base, num_envs, size: _smaller(base, num_envs, size, rule="linear"),
    ONLY_BETA2: _only_beta2,
    BOTH_BETAS: lambda base, num_envs, size: _smaller(base, num_envs, size, adam_betas=True),
}


def at(variant: str, environment: str, num_envs: int, size: Size) -> Config:
    """A variant at a batch size; at the largest nothing is adjusted, so most variants are the same there."""
    base = suite.phasic(environment, size, ewma=variant != NO_EWMA)
    return base if num_envs == base.num_envs else MADE[variant](base, num_envs, size)


def weak(environment: str, size: Size) -> Config:
    """PPG at the largest batch whose penalty is too weak: the paper's approximate lower bound."""
    return suite.phasic(environment, size, ewma=False).replace(kl_coef=1 / 256)


class Batches(Trained[T]):
    """Variants over batch sizes: labels are variant and num_envs."""

    @abstractmethod
    def variants(self) -> tuple[str, ...]:
        """What is compared, the unablated one first."""

    @property
    def batches(self) -> tuple[int, ...]:
        return suite.BATCHES[self.size]

    @property
    def environments(self) -> tuple[str, ...]:
        return suite.environments(self.size)

    def cells(self) -> list[Cell]:
        return [
            Cell(e, {"variant": variant, "num_envs": n}, at(variant, e, n, self.size))
            for e in self.environments
            for variant in self.variants()
            for n in self.batches
        ]

    def notes(self) -> list[str]:
        remarks = [
            "The policy objective is the KL-penalized one with coefficient 1: the paper's figures name its coefficient "
            "for PPG but its tables, as far as they are legible here, do not; the value is inferred.",
            "An ablation leaves out one adjustment, as the figures' captions say; N_π and the auxiliary phase are "
            "always adjusted.",
        ]
        if self.size == "full":
            return remarks
        return [
            *remarks,
            f"{DIFFERENT} Here the largest batch has {suite.BATCHES[self.size][0]} environments of "
            f"{suite.COMMON['num_steps']} steps.",
            SETTINGS,
            SCORE,
            BROKEN,
            "Ranges of normalization go from a random policy to what the base configuration reaches at default size.",
        ]


def loss(variant: str, largest: int, num_envs: int) -> Weighted:
    """Largest − smaller batch, under a variant."""
    return minus((variant, largest), (variant, num_envs))


def effect(variant: str, largest: int, num_envs: int, against: str = ADJUSTED) -> Weighted:
    """Table 5's effect size: how much more a variant loses by the smaller batch. Where both share the runs of the
    largest batch these cancel, and so does their noise."""
    if variant == NO_EWMA:
        return [*loss(variant, largest, num_envs), *((-w, labels) for w, labels in loss(against, largest, num_envs))]
    return minus((against, num_envs), (variant, num_envs))


def grouped(finals: pl.DataFrame) -> Groups:
    return Groups(finals, "variant", "num_envs")
