"""`post/bias`: does the bias of the batch gradient fall as T grows, and does correlation of samples change it?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge, judge_all
from trimtab.experiments.jobs import Directions, ExactBias, IndependentDraws
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import FIRST, REPLICATES, SEEDS, effect_over_seeds, step_at
from trimtab.experiments.source_study import Declared, Figure
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
DIFFERENT = (
    "The post argues this without measuring a bias. Here the critics are those of PPO part of the way through "
    "training, with γ 0.99 and λ 0.95, so that a cut reaches 17 steps back; an exact critic would leave no bias at any "
    "T, a useless one more."
)


@dataclass(frozen=True)
class Bias(Declared):
    """Bias against T: exact on three finite MDPs, sampled on Pendulum and CartPole."""

    kind: ClassVar[str] = "post/bias"
    summary: ClassVar[str] = "Does bias fall as T grows?"
    source: ClassVar[str] = "post: Effect of Batch Size on Bias; notes: n_envs and n_steps"
    claims: ClassVar[tuple[Claim, ...]] = (P7, P8, N1)
    different: ClassVar[str] = DIFFERENT

    # Runs ----------------------------------------------------------------------------------------------------

    @property
    def finite(self) -> tuple[str, ...]:
        return FINITE[:2] if self.size == "quick" else FINITE

    def _finite_runs(self) -> list[Train]:
        steps = {"quick": 51_200, "default": 204_800, "full": 1_024_000}[self.size]
        return [
            Train(_finite_config(env_id, steps, self.seed + k), FINITE_CHECKPOINTS)
            for env_id in self.finite
            for k in range(SEEDS[self.size])
        ]

    def _sampled_runs(self) -> list[Train]:
        steps = {"quick": 102_400, "default": 512_000, "full": 512_000}[self.size]
        carts = [Train(_cartpole(steps, self.seed + k), pendulum_runs.CHECKPOINTS) for k in range(SEEDS[self.size])]
        return [*pendulum_runs.trained(self.size, self.seed), *carts]

    def jobs(self) -> list[Job]:
        return [*self._exact(), *self._looks(), *self._draws()]

    def _exact(self) -> list[ExactBias]:
        steps = lambda run: tuple(sorted({step_at(run.config, s, FINITE_CHECKPOINTS) for s in STAGES.values()}))
        return [ExactBias(run, steps(run), LENGTHS, (0.95,)) for run in self._finite_runs()]

    def _looks(self) -> list[Directions]:
        return [
            pendulum_runs.directions(run, split, (FIRST,), self.size, looked=0)
            for run in self._sampled_runs()
            for split in SPLITS
        ]

    def _draws(self) -> list[IndependentDraws]:
        count = REPLICATES[self.size]
        return [IndependentDraws(run, (step_at(run.config, FIRST),), *DRAWN, count) for run in self._sampled_runs()]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        exact = pendulum_runs.gathered(self._exact(), outcomes, "exact.parquet")
        sampled = pendulum_runs.gathered(self._looks(), outcomes, "directions.parquet")
        sampled = sampled.filter(pl.col("quantity").is_in(KEPT))
        draws = [
            {"environment": job.config.env_id, "seed": job.config.seed} | row
            for job in self._draws()
            if outcomes[job.identity].done
            for row in outcomes.of(job).result["found"]
        ]
        keys = ["environment", "seed", "step"]
        return {
            "exact": exact.select(*keys, "num_steps", "gae_lambda", "bias_sq", "true_grad_sq", "row_gap_sq"),
            "sampled": sampled.select(*keys, "num_envs", "num_steps", "quantity", "value", "lo", "hi"),
            "draws": pl.DataFrame(draws),
        }

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        falls = self._falls(tables)
        return [falls, self._same(tables), self._trade(tables["sampled"], falls)]

    def _falls(self, tables: dict[str, pl.DataFrame]) -> Verdict:
        evidence, factors = [], []
        for (environment,), here in tables["exact"].group_by("environment", maintain_order=True):
            e, seeds = effect_over_seeds(here, _log_fall)
            evidence.append(Evidence(f"{environment} (exact)", e, seeds))
            factors.append(f"{environment} by a factor of {math.exp(e.value):,.3g}")
        for (environment,), here in tables["sampled"].group_by("environment", maintain_order=True):
            e, seeds = effect_over_seeds(here, _sampled_fall)
            evidence.append(Evidence(str(environment), e, seeds))
        sentence = f"From T = {SHORTEST} to {LONGEST}, bias² falls on {', on '.join(factors)} (exact)."
        measured = "log(bias² at T = 1 / at 512), exact; bias² at T = 4 minus at 256, in variances of a sample, sampled"
        return judge(P7, measured, evidence, sentence)

    def _same(self, tables: dict[str, pl.DataFrame]) -> Verdict:
        exact, sampled, worst = [], [], 0.0
        for (environment,), here in tables["exact"].group_by("environment", maintain_order=True):
            gaps = here.filter(pl.col("row_gap_sq").is_not_null() & (pl.col("bias_sq") > 0))
            gap = float((gaps["row_gap_sq"] / gaps["bias_sq"]).max() or 0.0)
            worst = max(worst, gap)
            left = Estimate(SAME - gap, SAME - gap, SAME - gap)
            exact.append(Evidence(f"{environment} (exact)", left, gaps["seed"].n_unique()))
        draws = tables["draws"]
        for (environment,), here in draws.group_by("environment", maintain_order=True) if len(draws) else ():
            e, seeds = effect_over_seeds(here, lambda own: _mean((SAME * own["rows"] - own["gap"]) / own["unit"]))
            sampled.append(Evidence(str(environment), e, seeds))
        sentence = (
            f"On finite MDPs the two expectations agree to {worst:.0e} of the squared bias. Where it is sampled, one "
            "sample from each of many rows is held against whole rows."
        )
        measured = f"{SAME:g} bias² minus the squared distance of the two biases (exact: over bias²)"
        return judge_all(P8, measured, [exact, sampled], sentence)

    def _trade(self, sampled: pl.DataFrame, falls: Verdict) -> Verdict:
        """N1: correlation from the sampled environments, credit assignment from what was judged for P7."""
        correlated = []
        for (environment,), here in sampled.group_by("environment", maintain_order=True):
            e, seeds = effect_over_seeds(here, lambda own: _share(own, SPLITS[-1]) - _share(own, SPLITS[0]))
            correlated.append(Evidence(f"{environment}, correlation", e, seeds))
        changes = ", ".join(f"{e.environment.split(',')[0]} {e.effect.value:+.0%}" for e in correlated)
        sentence = (
            f"From 256 × 4 to 4 × 256 the covariance term's share of the variance changes by {changes}; "
            f"that bias falls as T grows: {falls.word}."
        )
        measured = "difference of covariance / variance; fall of bias² as for P7"
        return judge_all(N1, measured, [correlated, falls.evidence], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.post import bias_figures

        figures = {
            "exact": Figure(
                bias_figures.exact_bias(tables["exact"], list(self.finite)),
                "Lines that fall to the right: longer rows, less bias; where they level off, λ < 1 keeps the rest.",
            ),
            "sampled": Figure(
                bias_figures.sampled_bias(tables["sampled"]),
                "Means over seeds; an interval that holds 0 resolves no bias.",
            ),
        }
        if len(tables["draws"]):
            caption = "Rows and single draws should have the same bias, and their distance be 0."
            figures["draws"] = Figure(bias_figures.draws(tables["draws"]), caption)
        return figures

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        falls, _, trade = verdicts
        return f"{falls.sentence} {trade.sentence}"

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


def _finite_config(env_id: str, steps: int, seed: int) -> Config:
    """PPO on a finite MDP; a small network, since exact gradients hold [states, actions, parameters]."""
    return Config(
        env_id=env_id,
        num_envs=8,
        num_steps=64,
        num_minibatches=4,
        update_epochs=4,
        learning_rate=1e-3,
        anneal_lr="linear",
        hidden_sizes=(16,),
        ent_coef=0.01,
        total_timesteps=steps,
        seed=seed,
    )


def _cartpole(steps: int, seed: int) -> Config:
    """CleanRL's CartPole with the post's batch of 1,024 samples."""
    return Config(
        env_id="CartPole-v1",
        num_envs=4,
        num_steps=256,
        num_minibatches=4,
        update_epochs=4,
        learning_rate=2.5e-4,
        anneal_lr="linear",
        vf_coef=0.25,
        clip_vloss=0.2,
        total_timesteps=steps,
        seed=seed,
    )


def _mean(values: pl.Series) -> float | None:
    return values.mean()  # type: ignore[return-value]


def _share(own: pl.DataFrame, split: tuple[int, int]) -> float:
    """Covariance / variance of one seed at a split."""
    at = lambda name: own.filter((pl.col("quantity") == name) & (pl.col("num_steps") == split[1]))["value"]
    covariance, variance = at("covariance"), at("variance")
    return covariance[0] / variance[0] if len(covariance) and len(variance) and variance[0] else math.nan


def _log_fall(own: pl.DataFrame) -> float | None:
    """Mean over checkpoints of log(bias² at the shortest T / at the longest)."""
    ends = own.filter(pl.col("num_steps").is_in([SHORTEST, LONGEST]) & (pl.col("bias_sq") > 0))
    wide = ends.pivot(on="num_steps", index="step", values="bias_sq").drop_nulls()
    if not len(wide) or len(wide.columns) < 3:
        return None
    return _mean((wide[str(SHORTEST)] / wide[str(LONGEST)]).log())


def _sampled_fall(own: pl.DataFrame) -> float | None:
    """bias² at T = 4 minus at T = 256, in units of the variance of a sample."""
    at = lambda quantity, t: own.filter((pl.col("quantity") == quantity) & (pl.col("num_steps") == t))["value"]
    short, long, unit = at("bias_sq", SPLITS[0][1]), at("bias_sq", SPLITS[-1][1]), at("individual", SPLITS[-1][1])
    if not (len(short) and len(long) and len(unit)) or not unit[0]:
        return None
    return (short[0] - long[0]) / (unit[0] * math.prod(SPLITS[-1]))
