"""`paper/proximal-age`: does a stronger penalty make up for a younger proximal policy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge
from trimtab.experiments.figures import Figure
from trimtab.experiments.measures import number
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.batch_sizes import ADJUSTED, at
from trimtab.experiments.paper.trained import DIFFERENT, SCORE, SETTINGS, Cell, Groups, Trained
from trimtab.experiments.source_study import Size, Tables
from trimtab.experiments.trained_runs import BROKEN
from trimtab.math import stats
from trimtab.studies.study_engine import Outcomes

FACTOR = 4.0  # from one row or column of the grid to the next
SIDE: dict[Size, int] = {"quick": 4, "default": 5, "full": 8}
GAMES: dict[Size, tuple[str, ...]] = {
    "quick": ("CartPole-v1",),
    "default": ("CartPole-v1", "Catch-bsuite", "Acrobot-v1"),
    "full": (suite.procgen("starpilot"),),
}


def _banding(grid: Sequence[np.ndarray], side: int) -> float:
    """Mean squared step across the diagonals − mean squared step along them, of a grid given row by row.

    Along: centre of mass divided and KL coefficient multiplied by the same factor. Noise adds the same to both.
    """
    means = np.array([np.mean(cell) for cell in grid]).reshape(side, side)
    along = means[1:, 1:] - means[:-1, :-1]
    across = means[1:, :-1] - means[:-1, 1:]
    return float(np.mean(across**2) - np.mean(along**2))


@dataclass(frozen=True)
class _Tables(Tables):
    """A row for every run, with its place in the grid."""

    finals: pl.DataFrame


class ProximalAge(Trained[_Tables]):
    """A grid over the centre of mass of the proximal EWMA and the KL coefficient, at the smallest batch."""

    kind = "paper/proximal-age"
    summary = "Penalty or age of the proximal policy?"
    source = "Fig. 18, Appendix H"
    claims = (
        Claim(
            "H14",
            "halving the centre of mass is undone by doubling the KL coefficient, locally",
            "Fig. 18: diagonal bands",
            "squared differences of score between neighbours are larger across the diagonals of "
            "equal product than along them, beyond the bootstrap interval over seeds",
        ),
    )
    full_seeds = 2  # the paper's

    @property
    def factor(self) -> float:
        """The paper halves and doubles; with fewer cells the steps are larger."""
        return 2.0 if self.size == "full" else FACTOR

    def cells(self) -> list[Cell]:
        """Row by row: the coefficient grows with i, the centre of mass falls with j."""
        side, cells = SIDE[self.size], []
        for environment in GAMES[self.size]:
            base = at(ADJUSTED, environment, suite.BATCHES[self.size][-1], self.size)
            base = base.replace(total_timesteps=20_000_000) if self.size == "full" else base
            for i in range(side):
                for j in range(side):
                    com, kl_coef = base.proximal_com / self.factor**j, base.kl_coef * self.factor**i
                    labels = {"row": i, "column": j, "com": com, "kl_coef": kl_coef}
                    cells.append(Cell(environment, labels, base.replace(prox_com=com, kl_coef=kl_coef)))
        return cells

    def measure(self, outcomes: Outcomes) -> _Tables:
        return _Tables(self.scores(outcomes).finals)

    def judge(self, tables: _Tables) -> list[Verdict]:
        side = int(number(tables.finals["row"].max()) or 0) + 1
        groups = Groups(tables.finals, "row", "column")
        evidence, words = [], []
        for environment in groups.environments:
            grid = [groups(environment, i, j) for i in range(side) for j in range(side)]
            if not all(grid):
                continue
            bands = stats.stratified_bootstrap(grid, lambda cells: _banding(cells, side))
            evidence.append(EffectEstimate(environment, bands, min(map(len, grid))))
            spread = np.ptp([np.mean(cell) for cell in grid])
            words.append(f"{environment}: {bands}, in a grid that spans {spread:.2f}")
        sentence = f"Squared steps across − along diagonals: {'; '.join(words)}."
        measured = "mean squared difference across − along diagonals, normalized return²"
        return [judge(self.claims[0], measured, evidence, sentence)]

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        return f"A stronger penalty makes up for a younger proximal policy: {verdicts[0].word}. {verdicts[0].sentence}"

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        keys = ["environment", "com", "kl_coef"]
        means = tables.finals.group_by(keys, maintain_order=True).agg(pl.col("score").mean().alias("value"))
        seeds = tables.finals["seed"].n_unique()
        return {
            "grid": Figure(
                paper_figures.grid(means.rename({"environment": "panel"}), f"Score, mean over {seeds} seeds."),
                "The default is the corner at the bottom right. Cells on a line from bottom right to top left have the "
                "same product of the two; bands along such lines mean that one makes up for the other.",
            )
        }

    def notes(self) -> list[str]:
        remarks = [
            "One environment with all adjustments, as in the paper, which used StarPilot and 20 million steps.",
        ]
        coarse = (
            f"Rows and columns are a factor of {FACTOR:g} apart, so that a small grid spans as much; the paper's, 2."
        )
        return remarks if self.size == "full" else [*remarks, coarse, BROKEN, SCORE, DIFFERENT, SETTINGS]
