"""`post/minibatch`: the noise that minibatches add, by how they are cut; drift and clipping over the epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.experiments.claims import Claim, Evidence, Verdict, judge, judge_all
from trimtab.experiments.jobs import MinibatchNoise
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import LONG, SECOND, SHORT, effect_over_seeds, step_at
from trimtab.experiments.source_study import Declared, Figure
from trimtab.studies.job import Job
from trimtab.studies.study_engine import Outcomes

SIZES = (32, 64, 128, 256, 512)
OWN = 32  # the post's minibatch: 1,024 samples in 32
STAGES = {"early": 0.05, "at 450,560": SECOND}
SHUFFLED, ROWS = "shuffled samples", "whole rows"

P9 = Claim(
    "P9",
    "MinibatchNoise add sub-sampling variance; drift and clipping add bias.",
    "post, Bias and Variance Due to Mini-batches",
    "Three parts, all needed, each above 0 beyond the interval over seeds: the sub-sampling variance of minibatches of "
    "32 over the variance of the batch; the fall, from the first to the last epoch, of the cosine of minibatch "
    "gradients with the batch gradient; the rise of the clip bias between them.",
)
P16 = Claim(
    "P16",
    "Shuffling the buffer into minibatches partly removes the correlation.",
    "post, Wrapping-up",
    "The logarithm of the variance of a minibatch gradient of 32 samples cut as whole rows (time cut where there are "
    "more minibatches than environments), over that of shuffled samples, is above 0 beyond the interval over seeds; "
    "by split and stage.",
)
DIFFERENT = (
    "The post states this without measuring it. Here it is measured on Pendulum at 4 × 256 and 16 × 64 with settings "
    "inferred from CleanRL (10 epochs × 32 minibatches of 32 samples, clip 0.2, 3e-4 falling to 0)."
)


@dataclass(frozen=True)
class Minibatch(Declared):
    """MinibatchNoise of the post's Pendulum batches, cut in three ways."""

    kind: ClassVar[str] = "post/minibatch"
    summary: ClassVar[str] = "What noise and bias do minibatches add?"
    source: ClassVar[str] = "post: Bias and Variance Due to Mini-batches; Wrapping-up"
    claims: ClassVar[tuple[Claim, ...]] = (P9, P16)
    different: ClassVar[str] = DIFFERENT

    def jobs(self) -> list[Job]:
        return list(self._looks())

    def _looks(self) -> list[MinibatchNoise]:
        count = {"quick": 12, "default": 48, "full": 128}[self.size]
        jobs = []
        for run in pendulum_runs.trained(self.size, self.seed):
            steps = tuple(sorted({step_at(run.config, share) for share in STAGES.values()}))
            jobs += [MinibatchNoise(run, steps, *split, SIZES, count) for split in (LONG, SHORT)]
        return jobs

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        tables = []
        for split in (LONG, SHORT):
            jobs = [job for job in self._looks() if (job.num_envs, job.num_steps) == split]
            split_column = pl.lit(f"{split[0]}x{split[1]}").alias("split")
            tables.append(pendulum_runs.gathered(jobs, outcomes, "minibatches.parquet").with_columns(split_column))
        table = pendulum_runs.with_stage(pl.concat(tables), pendulum_runs.pendulum(self.size, self.seed), STAGES)
        keys = ["stage", "split", "seed", "quantity", "way", "size", "epoch"]
        means = table.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
        return {"minibatches": means}

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        table = tables["minibatches"]
        return [self._adds(table), self._shuffling(table)]

    def _adds(self, table: pl.DataFrame) -> Verdict:
        long, parts = table.filter(pl.col("split") == "4x256"), []
        for name, effect in (("sub-sampling", _relative_noise), ("drift", _drift), ("clip bias", _clipping)):
            stages = {stage: long.filter(pl.col("stage") == stage) for stage in STAGES}
            parts.append(
                [Evidence(f"{name}, {stage}", *effect_over_seeds(own, effect)) for stage, own in stages.items()]
            )
        noise = parts[0][0].effect.value
        sentence = f"Early, minibatches of 32 add {noise:.0f} times the batch's own variance."
        measured = "sub-sampling variance / batch variance; fall of the cosine; rise of the relative clip bias"
        return judge_all(P9, measured, parts, sentence)

    def _shuffling(self, table: pl.DataFrame) -> Verdict:
        evidence, phrases = [], []
        for split in ("4x256", "16x64"):
            for stage in STAGES:
                here = table.filter((pl.col("split") == split) & (pl.col("stage") == stage))
                e, seeds = effect_over_seeds(here, lambda own: _log_ratio(own, ROWS, SHUFFLED))
                evidence.append(Evidence(f"{split.replace('x', ' × ')}, {stage}", e, seeds))
                phrases.append(f"{split.replace('x', ' × ')} {stage} {math.exp(e.value):.2f}")
        ratios = ", ".join(phrases)
        sentence = f"Variance of rows over that of shuffled samples, in 32s: {ratios}."
        return judge(P16, "log variance ratio of a minibatch gradient, rows over shuffled", evidence, sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.post import minibatch_figures

        table, stages = tables["minibatches"], list(STAGES)
        return {
            "ways": Figure(
                minibatch_figures.by_size(table), "Lines apart: how minibatches are cut matters; together: it does not."
            ),
            "drift": Figure(
                minibatch_figures.by_epoch(table, "drift", stages),
                "A falling line: later updates follow another gradient.",
            ),
            "clipping": Figure(
                minibatch_figures.by_epoch(table, "clip_bias", stages),
                "A rising line: clipping moves the gradient more.",
            ),
        }

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        adds, shuffling = verdicts
        return f"{adds.sentence} {shuffling.sentence}"

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "The variance of a minibatch gradient is the batch's variance plus what cutting this batch adds, which is "
            "computed from the inner products of its samples.",
            "Whole rows as the code of Hilton et al. cuts them; contiguous blocks are consecutive steps of every "
            "environment, as in a buffer that is not shuffled.",
        ]


def _total(own: pl.DataFrame, way: str, size: int) -> float | None:
    """Variance of a minibatch gradient: between batches, and within one."""
    within = own.filter((pl.col("quantity") == "subsampling") & (pl.col("way") == way) & (pl.col("size") == size))
    between = own.filter(pl.col("quantity") == "batch_variance")
    return within["value"][0] + between["value"][0] if len(within) and len(between) else None


def _log_ratio(own: pl.DataFrame, above: str, below: str) -> float | None:
    one, other = _total(own, above, OWN), _total(own, below, OWN)
    return math.log(one / other) if one and other else None


def _relative_noise(own: pl.DataFrame) -> float | None:
    both, between = _total(own, SHUFFLED, OWN), own.filter(pl.col("quantity") == "batch_variance")["value"]
    return None if both is None or not between[0] else both / between[0] - 1


def _change(own: pl.DataFrame, quantity: str) -> float | None:
    values = own.filter(pl.col("quantity") == quantity).sort("epoch")["value"]
    return values[-1] - values[0] if len(values) > 1 else None


def _drift(own: pl.DataFrame) -> float | None:
    change = _change(own, "drift")
    return None if change is None else -change


def _clipping(own: pl.DataFrame) -> float | None:
    return _change(own, "clip_bias")
