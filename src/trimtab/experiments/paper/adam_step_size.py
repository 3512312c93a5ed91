"""`paper/adam`: why Adam's step size goes with the square root of the batch, and when two small steps are one large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge
from trimtab.experiments.figures import Figure
from trimtab.experiments.jobs import GradientSteps
from trimtab.experiments.measures import below, number, spread
from trimtab.experiments.paper import suite
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes

SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
EARLY, LATE = "early", "late"
SHARES = {EARLY: 2, LATE: 1}  # half of training, and all of it
SLOPE, TOLERANCE = -0.5, 0.1
SHARE_OF_NOISE = 0.25
BELOW = 4  # sizes up to the noise scale divided by this count as well below it
GAMES: dict[Size, tuple[str, ...]] = {
    "quick": ("CartPole-v1", "Catch-bsuite"),
    "default": ("CartPole-v1", "Catch-bsuite", "Acrobot-v1", "Breakout-MinAtar"),
    "full": tuple(map(suite.procgen, suite.HARD_RANGES)),
}

H15 = Claim(
    "H15",
    "Adam's denominator grows as 1/√n below the critical batch size",
    "Appendix D",
    f"over minibatches n of at most a quarter of the noise scale the slope of log root mean square gradient on "
    f"log n is within {TOLERANCE} of {SLOPE}, beyond its interval over seeds",
)
H16 = Claim(
    "H16",
    "two SGD steps of size n and step size α equal one of 2n and 2α below the critical batch size",
    "section 3.1",
    f"where one step of the configured minibatch, as long as Adam's, is cut into two, the parameters reached "
    f"differ by less than {SHARE_OF_NOISE:.0%} of the noise of the one step, beyond the interval over seeds",
)


@dataclass(frozen=True)
class _Tables(Tables):
    """Root mean squares and distances by size of minibatch, and noise scales, of every environment, stage and seed."""

    steps: pl.DataFrame
    noise: pl.DataFrame


class Adam(SourceStudy[_Tables]):
    """Gradients of minibatches of many sizes at frozen policies."""

    kind = "paper/adam"
    summary = "How do steps change with the minibatch?"
    source = "section 3.1, Appendix D"
    claims = (H15, H16)
    different = (
        "The paper argues for any network and component by component; here the gradients are those of small dense "
        "networks on compiled games, and the root mean square is over all components."
    )

    def _stages(self) -> Iterator[tuple[str, GradientSteps]]:
        """Every stage of training with its job."""
        for environment in GAMES[self.size]:
            base = suite.phasic(environment, self.size)
            for stage, share in SHARES.items():
                for seed in range(self.seed, self.seed + suite.SEEDS):
                    config = base.replace(seed=seed, total_timesteps=base.total_timesteps // share)
                    yield stage, GradientSteps(Train(config, checkpoints=1), SIZES)

    def jobs(self) -> list[GradientSteps]:
        return [job for _, job in self._stages()]

    def measure(self, outcomes: Outcomes) -> _Tables:
        rows, scales = [], []
        for stage, job in self._stages():
            outcome, config = outcomes[job.identity], job.config
            if not outcome.done:
                continue
            result, about = outcome.result, {"environment": config.env_id, "stage": stage, "seed": config.seed}
            scale = _noise_scale(result["variance"], result["grad_sq"])
            scales.append(about | {"noise_scale": scale, "minibatch": config.minibatch})
            for n, square, apart in zip(SIZES, result["square"], result["apart"]):
                rows.append(about | {"size": n, "rms": math.sqrt(square), "apart": apart})
        return _Tables(pl.DataFrame(rows), pl.DataFrame(scales))

    def judge(self, tables: _Tables) -> list[Verdict]:
        half = _half(tables.noise)
        slopes, distances, slope_words, distance_words = [], [], [], []
        for (environment, stage), rows in tables.steps.group_by("environment", "stage", maintain_order=True):
            name, noise = f"{environment}, {stage}", tables.noise.filter(environment=environment, stage=stage)
            scale = number(noise["noise_scale"].median()) or 0.0
            fitted = [slope(own.sort("size"), scale) for _, own in rows.group_by("seed", maintain_order=True)]
            measured = stats.mean_interval(fitted)
            shifted = replace(measured, value=measured.value - SLOPE, lo=measured.lo - SLOPE, hi=measured.hi - SLOPE)
            slopes.append(EffectEstimate(name, shifted.within(TOLERANCE), len(fitted)))
            slope_words.append(f"{name}: {measured.value:.2f} (noise scale {_samples(scale)})")
            apart = rows.filter(size=half)["apart"].to_list()
            share = stats.mean_interval(apart)
            distances.append(EffectEstimate(f"{name}, {half}", below(SHARE_OF_NOISE, share), len(apart)))
            distance_words.append(f"{name}, n = {half}: {share.value:.1%}")
        slope_text, distance_text = "; ".join(slope_words), "; ".join(distance_words)
        measured_distance = f"{SHARE_OF_NOISE} − distance / noise"
        return [
            judge(H15, f"{TOLERANCE} − |slope + ½|", slopes, f"Slopes: {slope_text}."),
            judge(H16, measured_distance, distances, f"Distances as a share of the noise: {distance_text}."),
        ]

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        root, steps = verdicts
        return (
            f"The root mean square gradient falls as 1/√n well below the noise scale: {root.word}. Two SGD steps end "
            f"where one of twice the size and step size does, within its noise: {steps.word}."
        )

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        marks = _marks(tables.noise)
        return {
            "rms": Figure(
                paper_figures.power_law(
                    _rms_lines(tables.steps),
                    marks,
                    "root mean square gradient",
                    "Adam's denominator against the minibatch",
                    "Dashed: the noise scale, where it lies in the picture.",
                    ["measured", "1/√n"],
                ),
                "Below the noise scale the two lines lie on each other: dividing the batch by c multiplies the "
                "denominator by √c, so Adam makes up for half of it by itself. Beyond it the measured one levels off.",
            ),
            "two_steps": Figure(
                paper_figures.power_law(
                    _lines(tables.steps, "apart", "distance"),
                    marks,
                    "distance / noise of the larger step",
                    "Two steps of n and α against one of 2n and 2α",
                    "α grows with n; at the configured minibatch a step is as long as Adam's. Band: seeds.",
                    ["distance"],
                ),
                "Far below 1 the noise hides the difference; the distance grows in proportion to n, because α does.",
            ),
        }

    def notes(self) -> list[str]:
        return [
            "Gradients are those of the policy term with advantages standardized over a batch of 1,024 samples, at "
            f"policies after half of training ({EARLY}) and at its end ({LATE}).",
            "The noise scale is Tr Σ / |G|² with |G|² from products of independent batches: where that is not "
            "positive no signal is resolved, and every measured size counts as below it.",
            "The paper's argument is for each component; the root mean square here is over all of them.",
        ]


def _noise_scale(variance: float, grad_sq: float) -> float:
    """Tr Σ / |G|² in samples; infinite where no signal is resolved."""
    return variance / grad_sq if grad_sq > 0 else math.inf


def slope(rows: pl.DataFrame, scale: float) -> float:
    """Of log rms on log n by least squares, over sizes well below the noise scale (at least the two smallest)."""
    small = rows.filter(pl.col("size") <= max(scale / BELOW, SIZES[1]))
    return float(np.polyfit(np.log(small["size"].to_numpy()), np.log(small["rms"].to_numpy()), 1)[0])


def _half(noise: pl.DataFrame) -> int:
    """The measured size nearest to half the configured minibatch."""
    largest = number(noise["minibatch"].max()) or 0.0
    return min(SIZES, key=lambda n: abs(n - largest / 2))


def _samples(scale: float) -> str:
    return f"{scale:,.0f} samples" if math.isfinite(scale) else "inconclusive"


def _lines(steps: pl.DataFrame, column: str, series: str) -> pl.DataFrame:
    """A column by size of minibatch: mean, smallest and largest over seeds, a panel for each environment and stage."""
    table = steps.with_columns(panel=pl.format("{}, {}", "environment", "stage"))
    return spread(table, "panel", "size", column=column).with_columns(series=pl.lit(series))


def _rms_lines(steps: pl.DataFrame) -> pl.DataFrame:
    """The root mean square gradient, and the law that starts at its smallest size."""
    measured = _lines(steps, "rms", "measured")
    first = pl.col("value").sort_by("size").first().over("panel")
    none = pl.lit(None, pl.Float64)
    law = first * (SIZES[0] / pl.col("size")).sqrt()
    return pl.concat([measured, measured.with_columns(value=law, lo=none, hi=none, series=pl.lit("1/√n"))])


def _marks(noise: pl.DataFrame) -> pl.DataFrame:
    """The noise scale of every panel, where it lies among the measured sizes."""
    panel = pl.format("{}, {}", "environment", "stage").alias("panel")
    typical = noise.group_by(panel, maintain_order=True).agg(at=pl.col("noise_scale").median())
    return typical.filter(pl.col("at") <= 2 * SIZES[-1])
