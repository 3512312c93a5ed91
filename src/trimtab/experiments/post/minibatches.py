"""`post/minibatch`: the noise that minibatches add, by how they are cut; drift and clipping over the epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.experiments.claims import Claim, Verdict, judge, judge_all
from trimtab.experiments.figures import Chart, Figure, labels_in, lines
from trimtab.experiments.jobs import MinibatchNoise
from trimtab.experiments.measures import (
    SPLIT_TEXT,
    difference,
    gathered,
    intervals,
    log_ratio,
    mean_of,
    number,
    over_seeds,
    ratio,
)
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import (
    AT_SECOND,
    LONG,
    LONG_NAME,
    LONG_TEXT,
    SECOND,
    SHORT,
    SHORT_NAME,
    SHORT_TEXT,
)
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.studies.study_engine import Outcomes

SIZES = (32, 64, 128, 256, 512)
OWN = 32  # the post's minibatch: 1,024 samples in 32
STAGES = {"early": 0.05, AT_SECOND: SECOND}
SHUFFLED, ROWS, BLOCKS = "shuffled samples", "whole rows", "contiguous blocks"

P9 = Claim(
    "P9",
    "Minibatches add sub-sampling variance; drift and clipping add bias.",
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


@dataclass(frozen=True)
class _Tables(Tables):
    """Variances within and between batches, drift and clip bias: means over replicates, by stage, split and seed."""

    minibatches: pl.DataFrame


class Minibatch(SourceStudy[_Tables]):
    """Minibatches of the post's Pendulum batches, cut in three ways."""

    kind = "post/minibatch"
    summary = "What noise and bias do minibatches add?"
    source = "post: Bias and Variance Due to Mini-batches; Wrapping-up"
    claims = (P9, P16)
    leads = ("P9", "P16")
    different = (
        "The post states this without measuring it. Here it is measured on Pendulum at 4 × 256 and 16 × 64 with "
        "settings inferred from CleanRL (10 epochs × 32 minibatches of 32 samples, clip 0.2, 3e-4 falling to 0)."
    )

    def _looks(self, split: tuple[int, int]) -> list[MinibatchNoise]:
        count = {"quick": 12, "default": 48, "full": 128}[self.size]
        runs = pendulum_runs.trained(self.size, self.seed)
        return [MinibatchNoise(r, pendulum_runs.steps_at(r, STAGES.values()), *split, SIZES, count) for r in runs]

    def jobs(self) -> list[MinibatchNoise]:
        """Run by run."""
        return [job for pair in zip(self._looks(LONG), self._looks(SHORT)) for job in pair]

    def measure(self, outcomes: Outcomes) -> _Tables:
        of = lambda split: gathered(self._looks(split), outcomes, "minibatches.parquet")
        splits = [of(LONG).with_columns(split=pl.lit(LONG_NAME)), of(SHORT).with_columns(split=pl.lit(SHORT_NAME))]
        table = pendulum_runs.with_stage(pl.concat(splits), pendulum_runs.pendulum(self.size, self.seed), STAGES)
        keys = ["stage", "split", "seed", "quantity", "way", "size", "epoch"]
        return _Tables(table.group_by(keys, maintain_order=True).agg(pl.col("value").mean()))

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [self._adds(tables.minibatches), self._shuffling(tables.minibatches)]

    def _adds(self, table: pl.DataFrame) -> Verdict:
        parts = [
            [over_seeds(f"{name}, {stage}", table.filter(split=LONG_NAME, stage=stage), effect) for stage in STAGES]
            for name, effect in (("sub-sampling", _relative_noise), ("drift", _drift), ("clip bias", _clipping))
        ]
        noise = parts[0][0].effect.value
        sentence = f"Early, minibatches of 32 add {noise:.0f} times the batch's own variance."
        measured = "sub-sampling variance / batch variance; fall of the cosine; rise of the relative clip bias"
        return judge_all(P9, measured, parts, sentence)

    def _shuffling(self, table: pl.DataFrame) -> Verdict:
        effect = lambda own: log_ratio(_total(own, ROWS), _total(own, SHUFFLED))
        evidence = [
            over_seeds(f"{text}, {stage}", table.filter(split=name, stage=stage), effect)
            for name, text in ((LONG_NAME, LONG_TEXT), (SHORT_NAME, SHORT_TEXT))
            for stage in STAGES
        ]
        ratios = ", ".join(f"{e.environment.replace(',', '', 1)} {math.exp(e.effect.value):.2f}" for e in evidence)
        sentence = f"Variance of rows over that of shuffled samples, in 32s: {ratios}."
        return judge(P16, "log variance ratio of a minibatch gradient, rows over shuffled", evidence, sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        table = tables.minibatches
        return {
            "ways": Figure(
                _ways_chart(table),
                "Separate lines: the way of cutting matters.",
            ),
            "drift": Figure(
                _epochs_chart(
                    table.filter(quantity="drift"),
                    "mean cosine",
                    "Drift: do later updates still follow the batch gradient?",
                    "Cosine of each minibatch gradient with the gradient of the whole batch before the first update, "
                    "mean of each epoch; over seeds with its 95% interval.",
                ),
                "A falling line: later updates follow a different gradient.",
            ),
            "clipping": Figure(
                _epochs_chart(
                    table.filter(quantity="clip_bias"),
                    "relative distance",
                    "Clip bias: how far clipping moves the gradient",
                    "Distance of the clipped from the importance-weighted minibatch gradient over the latter's norm, "
                    "mean of each epoch; over seeds with its 95% interval.",
                ),
                "A rising line: clipping moves the gradient more.",
            ),
        }

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "The variance of a minibatch gradient is the batch's variance plus what cutting this batch adds, which is "
            "computed from the inner products of its samples.",
            "Whole rows as the code of Hilton et al. cuts them; contiguous blocks are consecutive steps of every "
            "environment, as in a buffer that is not shuffled.",
        ]


def _total(own: pl.DataFrame, way: str) -> float | None:
    """Variance of a minibatch gradient of the post's size: between batches, and within one."""
    within = mean_of(own, quantity="subsampling", way=way, size=OWN)
    between = mean_of(own, quantity="batch_variance")
    return None if within is None or between is None else within + between


def _relative_noise(own: pl.DataFrame) -> float | None:
    return difference(ratio(_total(own, SHUFFLED), mean_of(own, quantity="batch_variance")), 1)


def _change(own: pl.DataFrame, quantity: str) -> float | None:
    """From the first epoch to the last."""
    values = own.filter(quantity=quantity).sort("epoch")["value"]
    return number(values[-1] - values[0]) if len(values) > 1 else None


def _drift(own: pl.DataFrame) -> float | None:
    return difference(0.0, _change(own, "drift"))


def _clipping(own: pl.DataFrame) -> float | None:
    return _change(own, "clip_bias")


def _ways_chart(table: pl.DataFrame) -> Chart:
    """Variance of a minibatch gradient by size, relative to independent samples, a line for each way of cutting."""
    keys = ["stage", "split", "seed"]
    pick = lambda name: table.filter(quantity=name).select(*keys, pl.col("value").alias(name))
    data = table.filter(quantity="subsampling").join(pick("batch_variance"), on=keys)
    data = data.join(pick("sample_variance"), on=keys)
    total = (pl.col("value") + pl.col("batch_variance")) * pl.col("size") / pl.col("sample_variance")
    data = data.with_columns(pl.format("{}, {}", SPLIT_TEXT, "stage").alias("panel"), relative=total)
    shown = intervals(data, "panel", "size", column="relative", series="way")
    return lines(
        shown,
        "size",
        "samples of a minibatch (logarithmic)",
        "variance / independent samples'",
        "The noise of a minibatch gradient, by how minibatches are cut",
        "Variance of one minibatch gradient relative to that of as many independent samples; mean over seeds with its "
        "95% interval.",
        series=[SHUFFLED, ROWS, BLOCKS],
        panels=labels_in(shown, "panel"),
        log_x=True,
        zero=False,
    )


def _epochs_chart(table: pl.DataFrame, y_title: str, title: str, subtitle: str) -> Chart:
    """A quantity by epoch, a line for each stage."""
    here = table.filter(pl.col("stage").is_in(STAGES)).with_columns(pl.col("epoch") + 1)
    data = intervals(here, "epoch", series="stage")
    return lines(data, "epoch", "epoch", y_title, title, subtitle, series=list(STAGES))
