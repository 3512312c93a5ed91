"""`post/bias`: does the bias of the batch gradient fall as T grows, and does correlation of samples change it?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from trimtab.experiments.claims import Claim, Verdict, judge, judge_all
from trimtab.experiments.figures import Chart, Figure, effects, lines
from trimtab.experiments.jobs import Directions, ExactBias, IndependentDraws
from trimtab.experiments.measures import (
    difference,
    exactly,
    gathered,
    intervals,
    log_ratio,
    mean_of,
    number,
    over_seeds,
    ratio,
    returned,
)
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import CLEANRL_VALUE_LOSS, FIRST, REPLICATES, SEEDS, steps_at
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.experiments.trained_runs import base_config
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

FINITE = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHORTEST, LONGEST = LENGTHS[0], LENGTHS[-1]
SPLITS = ((256, 4), (64, 16), (16, 64), (4, 256))  # sampled, all of 1,024 samples
DRAWN = (64, 16)
KEPT = ("bias_sq", "true_grad_sq", "individual", "covariance", "variance")
SAME = 0.1  # two biases whose squared distance is below a tenth of the squared bias are the same
STAGES = {"early": 0.1, "middle": FIRST, "late": 1.0}
FINITE_CHECKPOINTS = 100

P7 = Claim(
    "P7",
    "Bias falls as T grows.",
    "post, Effect of Batch Size on Bias",
    "Finite MDPs, exact: the mean over stages of the logarithm of bias² at T = 1 over bias² at T = 512 is above 0 "
    "beyond the interval over seeds. Pendulum and CartPole, sampled: bias² at 256 × 4 minus bias² at 4 × 256 is above "
    "0 beyond the interval over seeds.",
)
P8 = Claim(
    "P8",
    "Correlation of samples does not change the bias.",
    "post, Effect of Batch Size on Bias",
    f"The squared distance between the bias of correlated rows and that of samples drawn independently is below "
    f"{SAME:.0%} of the squared bias: exactly on finite MDPs, and beyond the interval over seeds where it is sampled; "
    "both are needed.",
)
N1 = Claim(
    "N1",
    "More environments give less correlated samples; more steps give better credit assignment but correlated samples.",
    "notes, n_envs and n_steps",
    "Two parts, both needed, by environment, beyond the interval over seeds: the covariance term's share of the "
    "variance at 4 × 256 minus that at 256 × 4 is above 0; bias falls as T grows, as judged for P7.",
)


@dataclass(frozen=True)
class _Tables(Tables):
    """Biases that are computed exactly, those that are sampled, and those of independent draws, by seed."""

    exact: pl.DataFrame
    sampled: pl.DataFrame
    draws: pl.DataFrame


class Bias(SourceStudy[_Tables]):
    """Bias against T: exact on three finite MDPs, sampled on Pendulum and CartPole."""

    kind = "post/bias"
    summary = "Does bias fall as T grows?"
    source = "post: Effect of Batch Size on Bias; notes: n_envs and n_steps"
    claims = (P7, P8, N1)
    leads = ("P7", "N1")
    different = (
        "The post argues this without measuring a bias. Here the critics are those of PPO part of the way through "
        "training, with γ 0.99 and λ 0.95, so that a cut reaches 17 steps back; an exact critic would leave no bias "
        "at any T, a useless one more."
    )

    # Jobs ----------------------------------------------------------------------------------------------------

    @property
    def finite(self) -> tuple[str, ...]:
        return FINITE[:2] if self.size == "quick" else FINITE

    def jobs(self) -> list[Job]:
        return [*self._exact(), *self._looks(), *self._draws()]

    def _exact(self) -> list[ExactBias]:
        """Gradients are exact for a small network only: they hold [states, actions, parameters]."""
        steps = {"quick": 51_200, "default": 204_800, "full": 1_024_000}[self.size]
        changes = {"learning_rate": 1e-3, "hidden_sizes": (16,), "ent_coef": 0.01}
        runs = [
            Train(base_config(env_id, (8, 64), steps, self.seed + k, **changes), FINITE_CHECKPOINTS)
            for env_id in self.finite
            for k in range(SEEDS[self.size])
        ]
        at = lambda run: steps_at(run, STAGES.values(), FINITE_CHECKPOINTS)
        return [ExactBias(run, at(run), LENGTHS, (0.95,)) for run in runs]

    def _sampled_runs(self) -> list[Train]:
        """The post's Pendulum, and CleanRL's CartPole with the post's batch of 1,024 samples."""
        steps = {"quick": 102_400, "default": 512_000, "full": 512_000}[self.size]
        changes = {"learning_rate": 2.5e-4} | CLEANRL_VALUE_LOSS
        seeds = range(self.seed, self.seed + SEEDS[self.size])
        carts = [base_config("CartPole-v1", (4, 256), steps, seed, **changes) for seed in seeds]
        carts_trained = [Train(config, pendulum_runs.CHECKPOINTS) for config in carts]
        return [*pendulum_runs.trained(self.size, self.seed), *carts_trained]

    def _looks(self) -> list[Directions]:
        return [
            pendulum_runs.directions(run, split, (FIRST,), self.size, looked=0)
            for run in self._sampled_runs()
            for split in SPLITS
        ]

    def _draws(self) -> list[IndependentDraws]:
        count = REPLICATES[self.size]
        return [IndependentDraws(run, steps_at(run, (FIRST,)), *DRAWN, count) for run in self._sampled_runs()]

    def measure(self, outcomes: Outcomes) -> _Tables:
        exact = gathered(self._exact(), outcomes, "exact.parquet")
        sampled = gathered(self._looks(), outcomes, "directions.parquet").filter(pl.col("quantity").is_in(KEPT))
        keys = ["environment", "seed", "step"]
        return _Tables(
            exact=exact.select(*keys, "num_steps", "gae_lambda", "bias_sq", "true_grad_sq", "row_gap_sq"),
            sampled=sampled.select(*keys, "num_envs", "num_steps", "quantity", "value", "lo", "hi"),
            draws=returned(self._draws(), outcomes),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        falls = self._falls(tables)
        return [falls, self._same(tables), self._trade(tables.sampled, falls)]

    def _falls(self, tables: _Tables) -> Verdict:
        exact = {e: over_seeds(f"{e} (exact)", own, _log_fall) for e, own in _by_environment(tables.exact)}
        sampled = [over_seeds(e, own, _sampled_fall) for e, own in _by_environment(tables.sampled)]
        factors = [f"{name} by a factor of {math.exp(e.effect.value):,.3g}" for name, e in exact.items()]
        sentence = f"From T = {SHORTEST} to {LONGEST}, bias² falls on {', on '.join(factors)} (exact)."
        measured = "log(bias² at T = 1 / at 512), exact; bias² at T = 4 minus at 256, in variances of a sample, sampled"
        return judge(P7, measured, [*exact.values(), *sampled], sentence)

    def _same(self, tables: _Tables) -> Verdict:
        exact, worst = [], 0.0
        for environment, here in _by_environment(tables.exact):
            gaps = here.filter(pl.col("row_gap_sq").is_not_null() & (pl.col("bias_sq") > 0))
            gap = number((gaps["row_gap_sq"] / gaps["bias_sq"]).max()) or 0.0
            worst = max(worst, gap)
            exact.append(exactly(f"{environment} (exact)", SAME - gap, gaps["seed"].n_unique()))
        left = lambda own: number(((SAME * own["rows"] - own["gap"]) / own["unit"]).mean())
        sampled = [over_seeds(e, own, left) for e, own in _by_environment(tables.draws)]
        sentence = (
            f"On finite MDPs the two expectations agree to {worst:.0e} of the squared bias. Where it is sampled, one "
            "sample from each of many rows is compared with whole rows."
        )
        measured = f"{SAME:g} bias² minus the squared distance of the two biases (exact: over bias²)"
        return judge_all(P8, measured, [exact, sampled], sentence)

    def _trade(self, sampled: pl.DataFrame, falls: Verdict) -> Verdict:
        """N1: correlation from the sampled environments, credit assignment from what was judged for P7."""
        more = lambda own: difference(_share(own, SPLITS[-1]), _share(own, SPLITS[0]))
        correlated = {e: over_seeds(f"{e}, correlation", own, more) for e, own in _by_environment(sampled)}
        changes = ", ".join(f"{name} {e.effect.value:+.0%}" for name, e in correlated.items())
        sentence = (
            f"From 256 × 4 to 4 × 256 the covariance term's share of the variance changes by {changes}; "
            f"that bias falls as T grows: {falls.word}."
        )
        measured = "difference of covariance / variance; fall of bias² as for P7"
        return judge_all(N1, measured, [list(correlated.values()), falls.evidence], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        figures = {
            "exact": Figure(
                self._exact_chart(tables.exact),
                "Lines that fall to the right: longer rows, less bias; where they level off, λ < 1 keeps the rest.",
            ),
            "sampled": Figure(
                _sampled_chart(tables.sampled), "Means over seeds; where an interval contains 0, no bias is measured."
            ),
        }
        if len(tables.draws):
            caption = "Rows and single draws should have the same bias, at a distance of 0."
            figures["draws"] = Figure(_draws_chart(tables.draws), caption)
        return figures

    def _exact_chart(self, exact: pl.DataFrame) -> Chart:
        """bias² / |G_T|² against T, a line for each stage, a panel for each MDP."""
        relative = (pl.col("bias_sq") / pl.col("true_grad_sq")).alias("relative")
        table = exact.with_columns(relative, _stage().alias("stage"))
        data = intervals(table, "num_steps", column="relative", log=True, panel="environment", series="stage")
        return lines(
            data,
            "num_steps",
            "T, steps of a row (logarithmic)",
            "bias² / |true gradient|²",
            "Bias against the length of rows, exactly",
            "Squared distance of the expected batch gradient from the true one, relative to the true one's square; "
            "geometric mean over seeds with its 95% interval.",
            series=[name for name in STAGES if name in set(data["series"])],
            panels=self.finite,
            log_x=True,
            log_y=True,
        )

    def notes(self) -> list[str]:
        return [
            *pendulum_runs.notes(self.size),
            "γ = 0.99 and λ = 0.95 everywhere: horizons of 100 and 17 steps. Policies and critics are those of PPO "
            "at 10%, 39% and 100% of training; with an exact critic there would be no bias at any T.",
            "Finite MDPs are trained with one hidden layer of 16, CartPole with CleanRL's settings.",
            "Independent draws: one sample at a random position from each of as many other rows, with the advantage it "
            "has in its row.",
            *(["Taxi is left out at this size."] if self.size == "quick" else []),
        ]


def _by_environment(table: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    if table.is_empty():
        return []
    return [(str(e), own) for (e,), own in table.group_by("environment", maintain_order=True)]


def _stage() -> pl.Expr:
    """The stages of training by the order of an environment's checkpoints; where there is one, it is the last."""
    place = pl.col("step").rank("dense").over("environment").cast(pl.Int64) - 1
    last = pl.col("step").n_unique().over("environment").cast(pl.Int64) - 1
    names = dict(enumerate(STAGES))
    return pl.when(last > 0).then(2 * place // last).otherwise(2).replace_strict(names, return_dtype=pl.String)


def _share(own: pl.DataFrame, split: tuple[int, int]) -> float | None:
    """Covariance / variance of one seed at a split."""
    at = lambda name: mean_of(own, quantity=name, num_steps=split[1])
    return ratio(at("covariance"), at("variance"))


def _log_fall(own: pl.DataFrame) -> float | None:
    """Mean over checkpoints of log(bias² at the shortest T / at the longest)."""
    falls = [
        log_ratio(*(mean_of(here, "bias_sq", num_steps=t) for t in (SHORTEST, LONGEST)))
        for _, here in own.group_by("step", maintain_order=True)
    ]
    return number(pl.Series(falls, dtype=pl.Float64).mean())


def _sampled_fall(own: pl.DataFrame) -> float | None:
    """bias² at T = 4 minus at T = 256, in units of the variance of a sample."""
    at = lambda quantity, split: mean_of(own, quantity=quantity, num_steps=split[1])
    fall = ratio(difference(at("bias_sq", SPLITS[0]), at("bias_sq", SPLITS[-1])), at("individual", SPLITS[-1]))
    return ratio(fall, math.prod(SPLITS[-1]))


def _sampled_chart(sampled: pl.DataFrame) -> Chart:
    """bias² against T in variances of a sample."""
    wide = sampled.pivot(on="quantity", index=["environment", "seed", "num_envs", "num_steps"], values="value")
    unit = pl.col("individual") * pl.col("num_envs") * pl.col("num_steps")
    data = intervals(wide.with_columns(value=pl.col("bias_sq") / unit), "num_steps", series="environment")
    return lines(
        data,
        "num_steps",
        "T, steps of a row (logarithmic)",
        "bias², in variances of a sample",
        "Bias against the length of rows, sampled",
        "Batches of 1,024 samples; paired with the same rows continued past every cut.",
        log_x=True,
    )


def _draws_chart(draws: pl.DataFrame) -> Chart:
    """bias² of rows, of single draws and their distance."""
    names = {"rows": "bias² of rows", "single": "bias² of independent draws", "gap": "squared distance of the two"}
    parts = [pl.col(column) / pl.col("unit") for column in names]
    long = draws.select("environment", "seed", *(part.alias(name) for part, name in zip(parts, names.values())))
    return effects(
        intervals(long.unpivot(index=["environment", "seed"]), row="environment", series="variable"),
        "in squared sizes of one sample's error",
        "Bias of correlated rows beside that of independent draws",
        "Mean over seeds with its 95% interval; squares of noise are taken out, so values below 0 are possible.",
    )
