"""`paper/adam`: why Adam's step size goes with the square root of the batch, and when two small steps are one large."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge
from trimtab.experiments.jobs import GradientSteps
from trimtab.experiments.paper import suite
from trimtab.experiments.paper.trained import by_id
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.math import stats
from trimtab.studies.job import Job, Train
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

CLAIMS = (
    Claim(
        "H15",
        "Adam's denominator grows as 1/√n below the critical batch size",
        "Appendix D",
        f"over minibatches n of at most a quarter of the noise scale the slope of log root mean square gradient on "
        f"log n is within {TOLERANCE} of {SLOPE}, beyond its interval over seeds",
    ),
    Claim(
        "H16",
        "two SGD steps of size n and step size α equal one of 2n and 2α below the critical batch size",
        "section 3.1",
        f"where one step of the configured minibatch, as long as Adam's, is cut into two, the parameters reached "
        f"differ by less than {SHARE_OF_NOISE:.0%} of the noise of the one step, beyond the interval over seeds",
    ),
)


@dataclass(frozen=True)
class Adam(Declared):
    """Gradients of minibatches of many sizes at frozen policies."""

    kind: ClassVar[str] = "paper/adam"
    summary: ClassVar[str] = "How do steps change with the minibatch?"
    source: ClassVar[str] = "section 3.1, Appendix D"
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    different: ClassVar[str] = (
        "The paper argues for any network and component by component; here the gradients are those of small dense "
        "networks on compiled games, and the root mean square is over all components."
    )

    def _asked(self) -> list[tuple[str, str, int, GradientSteps]]:
        entries = []
        for environment in GAMES[self.size]:
            base = suite.phasic(environment, self.size)
            for stage, share in SHARES.items():
                steps = base.total_timesteps // share
                for seed in range(self.seed, self.seed + suite.SEEDS):
                    run = Train(base.replace(seed=seed, total_timesteps=steps), checkpoints=1)
                    entries.append((environment, stage, seed, GradientSteps(run, SIZES)))
        return entries

    def jobs(self) -> list[Job]:
        return [job for *_, job in self._asked()]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows, scales = [], []
        for environment, stage, seed, job in self._asked():
            outcome = outcomes[job.identity]
            if not outcome.done:
                continue
            result, about = outcome.result, {"environment": environment, "stage": stage, "seed": seed}
            scale = _noise_scale(result["variance"], result["grad_sq"])
            scales.append(about | {"noise_scale": scale, "minibatch": job.config.minibatch})
            for n, square, apart in zip(SIZES, result["square"], result["apart"]):
                rows.append(about | {"size": n, "rms": math.sqrt(square), "apart": apart})
        return {"steps": pl.DataFrame(rows), "noise": pl.DataFrame(scales)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        claim, slopes, apart = by_id(self.claims), [], []
        for (environment, stage), rows in tables["steps"].group_by("environment", "stage", maintain_order=True):
            name = f"{environment}, {stage}"
            scale = _typical(tables["noise"], environment, stage)
            fitted = [slope(seed.sort("size"), scale) for _, seed in rows.group_by("seed", maintain_order=True)]
            half = _half(tables["noise"])
            distances = rows.filter(pl.col("size") == half)["apart"].to_list()
            slopes.append((name, scale, stats.mean_interval(fitted), len(fitted)))
            apart.append((name, half, stats.mean_interval(distances), len(distances)))
        near = [Evidence(n, _shifted(e).within(TOLERANCE), k) for n, _, e, k in slopes]
        slope_text = "; ".join(f"{n}: {e.value:.2f} (noise scale {_samples(s)})" for n, s, e, _ in slopes)
        shares = [Evidence(f"{n}, {size}", _left(e), k) for n, size, e, k in apart]
        distance_text = "; ".join(f"{n}, n = {size}: {e.value:.1%}" for n, size, e, _ in apart)
        measured = f"{SHARE_OF_NOISE} − distance / noise"
        return [
            judge(claim("H15"), f"{TOLERANCE} − |slope + ½|", near, f"Slopes: {slope_text}."),
            judge(claim("H16"), measured, shares, f"Distances as a share of the noise: {distance_text}."),
        ]

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        root, steps = verdicts
        return (
            f"The root mean square gradient falls as 1/√n well below the noise scale: {root.word}. Two SGD steps end "
            f"where one of twice the size and step size does, within its noise: {steps.word}."
        )

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.paper import paper_figures

        marks = _marks(tables["noise"])
        return {
            "rms": Figure(
                paper_figures.power_law(
                    _rms_lines(tables["steps"]),
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
                    _apart_lines(tables["steps"]),
                    marks,
                    "distance / noise of the larger step",
                    "Two steps of n and α against one of 2n and 2α",
                    "α grows with n; at the configured minibatch a step is as long as Adam's. Band: seeds.",
                    ["distance"],
                ),
                "Far below 1 the two cannot be told apart for all the noise there is; the distance grows in "
                "proportion to n, because α does.",
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


def _typical(noise: pl.DataFrame, environment: str, stage: str) -> float:
    """The median noise scale over seeds."""
    return float(
        noise.filter((pl.col("environment") == environment) & (pl.col("stage") == stage))["noise_scale"].median() or 0.0
    )


def _half(noise: pl.DataFrame) -> int:
    """The measured size nearest to half the configured minibatch."""
    return min(SIZES, key=lambda n: abs(n - noise["minibatch"].max() / 2))


def _shifted(slope: Estimate) -> Estimate:
    return replace(slope, value=slope.value - SLOPE, lo=slope.lo - SLOPE, hi=slope.hi - SLOPE)


def _left(share: Estimate) -> Estimate:
    top = SHARE_OF_NOISE
    return Estimate(top - share.value, top - share.hi, top - share.lo, share.resolved)


def _samples(scale: float) -> str:
    return f"{scale:,.0f} samples" if math.isfinite(scale) else "not resolved"


def _panel() -> pl.Expr:
    return (pl.col("environment") + ", " + pl.col("stage")).alias("panel")


def _rms_lines(steps: pl.DataFrame) -> pl.DataFrame:
    value = pl.col("rms")
    keys = ["environment", "stage", "size"]
    measured = steps.group_by(keys, maintain_order=True).agg(
        value.mean().alias("value"), value.min().alias("lo"), value.max().alias("hi")
    )
    first = pl.col("value").sort_by("size").first().over("environment", "stage")
    law = measured.with_columns(
        (first * (SIZES[0] / pl.col("size")).sqrt()).alias("value"),
        pl.lit(None, pl.Float64).alias("lo"),
        pl.lit(None, pl.Float64).alias("hi"),
        pl.lit("1/√n").alias("series"),
    )
    return pl.concat([measured.with_columns(pl.lit("measured").alias("series")), law]).with_columns(_panel())


def _apart_lines(steps: pl.DataFrame) -> pl.DataFrame:
    value = pl.col("apart")
    lines = steps.group_by("environment", "stage", "size", maintain_order=True).agg(
        value.mean().alias("value"), value.min().alias("lo"), value.max().alias("hi")
    )
    return lines.with_columns(pl.lit("distance").alias("series"), _panel())


def _marks(noise: pl.DataFrame) -> pl.DataFrame:
    """The noise scale of every panel, where it lies among the measured sizes."""
    typical = noise.group_by("environment", "stage", maintain_order=True).agg(
        pl.col("noise_scale").median().alias("at")
    )
    return typical.with_columns(_panel()).filter(pl.col("at") <= 2 * SIZES[-1]).select("panel", "at")
