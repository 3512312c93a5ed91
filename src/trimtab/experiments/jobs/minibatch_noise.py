"""What cutting batches into minibatches does: how much noise each way of cutting adds, drift and clipping by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.experiments.jobs.probing import Lens, lens_at
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies.job import JobContext, OfRun, register


@register
@dataclass(frozen=True)
class Minibatches(OfRun):
    """Minibatches of a run's own batches: sub-sampling variance by way and size, and one iteration's updates."""

    kind: ClassVar[str] = "minibatches"
    at: tuple[int, ...]
    num_envs: int
    num_steps: int
    sizes: tuple[int, ...]
    replicates: int

    @property
    def steps(self) -> int:
        return 2 * len(self.at) * self.replicates * self.num_envs * self.num_steps

    @property
    def label(self) -> str:
        return f"{self.config.env_id} {self.num_envs}x{self.num_steps} seed {self.config.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        import polars as pl

        from trimtab.training.records import write_parquet

        options = ProbeOptions(
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            replicates=self.replicates,
            bias=False,
            correlations=False,
        )
        rows = []
        for k, step in enumerate(self.at):
            lens = lens_at(context.inputs[self.run.identity], step, options, context.engines)
            rows += [(step, *row) for row in self._look(lens)]
            context.tick(self.steps * (k + 1) // len(self.at))
        schema = {"step": pl.Int64, "quantity": pl.String, "way": pl.String, "size": pl.Int64, "epoch": pl.Int64}
        schema |= {"replicate": pl.Int64, "value": pl.Float64}
        write_parquet(context.place / "minibatches.parquet", pl.DataFrame(rows, schema=schema, orient="row"))
        return {"rows": len(rows)}

    def _look(self, lens: Lens) -> Iterator[tuple]:
        """(quantity, way, size, epoch, replicate, value)."""
        import numpy as np

        from trimtab.gradient import minibatch_effects

        config, prober, means = self.config, lens.prober, []
        own_split = (self.num_envs, self.num_steps) == (config.num_envs, config.num_steps)
        for replicate in range(self.replicates):
            rows = prober.rows(replicate, None)
            gram = lens.gram(rows)
            means.append(lens.vectors(rows).mean(0))
            spread = (np.trace(gram) - gram.sum() / len(gram)) / (len(gram) - 1)
            yield "sample_variance", None, None, None, replicate, float(spread)
            for way in minibatch_effects.WAYS:
                for size in self.sizes:
                    parts = minibatch_effects.parts_of(way, self.num_envs, self.num_steps, size, replicate)
                    yield "subsampling", way, size, None, replicate, minibatch_effects.subsampling_measured(gram, parts)
            if own_split:
                yield from self._follow(prober, rows, replicate)
        batch = np.array(means)
        yield "batch_variance", None, None, None, None, float(batch.var(axis=0, ddof=1).sum())
        square = (batch.sum(0) ** 2).sum() - (batch**2).sum()
        yield "grad_sq", None, None, None, None, float(square / (len(batch) * (len(batch) - 1)))

    def _follow(self, prober: Any, rows: Any, replicate: int) -> Iterator[tuple]:
        """Drift and clip bias of the updates of one iteration, means by epoch."""
        from trimtab.gradient import minibatch_effects

        effects = minibatch_effects.effects(
            prober.algorithm, prober.sampler.state, rows.rollout, prober.hypers, replicate
        )
        for name, values in effects.items():
            for epoch, value in enumerate(values.reshape(self.config.update_epochs, -1).mean(1)):
                yield name, None, None, epoch, replicate, float(value)
