"""The bias of correlated rows beside that of independent draws of single samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trimtab.experiments.jobs.probing import Lens, lens_at
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies.job import JobContext, OfRun, register

if TYPE_CHECKING:
    import numpy as np


@register
@dataclass(frozen=True)
class Draws(OfRun):
    """bias² from whole rows, from one sample of every row, and the squared distance between the two biases."""

    kind: ClassVar[str] = "draws"
    at: tuple[int, ...]
    num_envs: int
    num_steps: int
    replicates: int

    @property
    def steps(self) -> int:
        return 3 * len(self.at) * self.replicates * self.num_envs * self.num_steps

    @property
    def label(self) -> str:
        return f"{self.config.env_id} {self.num_envs}x{self.num_steps} seed {self.config.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        options = ProbeOptions(
            num_envs=self.num_envs, num_steps=self.num_steps, replicates=self.replicates, correlations=False
        )
        rows = []
        for k, step in enumerate(self.at):
            lens = lens_at(context.inputs[self.run.identity], step, options, context.engines)
            measured = lens.prober.measured(None)
            if measured.differences is None:
                raise RuntimeError(f"{self.config.env_id} cannot be continued past its cuts, so its bias is not known")
            single = self._single(lens)
            rows.append({"step": step} | distances(measured.differences, single))
            context.tick(self.steps * (k + 1) // len(self.at))
        return {"found": rows}

    def _single(self, lens: Lens) -> np.ndarray:
        """(A − A_ref) ∇ log π of one sample at a random position of each row of other replicates, [rows, P]."""
        import numpy as np

        rng, singles = np.random.default_rng(0), []
        for replicate in range(self.replicates, 2 * self.replicates):
            rows = lens.prober.rows(replicate, None)
            gap = rows.samples._replace(advantage=rows.samples.advantage - rows.reference)
            vectors = lens.vectors(rows._replace(samples=gap)).reshape(self.num_envs, self.num_steps, -1)
            singles.append(vectors[np.arange(self.num_envs), rng.integers(0, self.num_steps, self.num_envs)])
        return np.concatenate(singles)


def distances(rows: np.ndarray, single: np.ndarray) -> dict[str, float]:
    """|E rows|², |E single|² and |E rows − E single|², each without the bias of squaring noise, and a unit to compare.

    |E a − E b|² = |E a|² + |E b|² − 2 E a · E b, squares by pairs of different rows only.
    """
    square = lambda x: float(((x.sum(0) ** 2).sum() - (x**2).sum()) / (len(x) * (len(x) - 1)))
    rows_sq, single_sq = square(rows), square(single)
    gap = rows_sq + single_sq - 2 * float(rows.mean(0) @ single.mean(0))
    return {"rows": rows_sq, "single": single_sq, "gap": gap, "unit": float((single**2).sum() / len(single))}
