"""One configuration at smaller and smaller batches, with all of the paper's adjustments or without one of them.

The runs that `paper/invariance`, `paper/table5`, `paper/linear` and `paper/betas` share: the same configuration on the
same seed is the same job.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import polars as pl

from trimtab.advise.rescaling import rescale
from trimtab.config import Config
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.trained import Cell, Groups, Trained, Weighted, combination
from trimtab.experiments.source_study import Size

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


class Batches(Trained):
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


def loss(variant: str, largest: int, num_envs: int) -> Weighted:
    """Largest − smaller batch, under a variant."""
    return [(1.0, (variant, largest)), (-1.0, (variant, num_envs))]


def effect(variant: str, largest: int, num_envs: int, against: str = ADJUSTED) -> Weighted:
    """Table 5's effect size: how much more a variant loses by the smaller batch. Where both share the runs of the
    largest batch these cancel, and so does their noise."""
    if variant == NO_EWMA:
        return [*loss(variant, largest, num_envs), *((-w, labels) for w, labels in loss(against, largest, num_envs))]
    return [(1.0, (against, num_envs)), (-1.0, (variant, num_envs))]


def grouped(finals: pl.DataFrame) -> Groups:
    return Groups(finals, "variant", "num_envs")


def summary_by_batch(finals: pl.DataFrame, panel: str | None = None) -> pl.DataFrame:
    """Mean score with its interval by variant and batch, over all environments or in each."""
    groups, rows = grouped(finals), []
    pairs = finals.select("variant", "num_envs").unique(maintain_order=True).rows()
    for variant, num_envs in pairs:
        for name in groups.environments if panel else [""]:
            environments = [name] if panel else groups.with_all((variant, num_envs))
            if not all(groups(e, variant, num_envs) for e in environments):
                continue
            mean = combination(groups, environments, [(1.0, (variant, num_envs))])
            row = {"series": variant, "num_envs": num_envs, "value": mean.value, "lo": mean.lo, "hi": mean.hi}
            rows.append(row | ({"panel": name} if panel else {}))
    return pl.DataFrame(rows)
