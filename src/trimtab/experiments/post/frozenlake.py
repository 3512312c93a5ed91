"""`post/frozenlake`: the draft's figures on FrozenLake 8x8, 4 × 32 against 32 × 4, with its slider over updates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge, judge_all
from trimtab.experiments.jobs import Directions
from trimtab.experiments.post import pendulum_runs
from trimtab.experiments.post.pendulum_runs import SEEDS, effect_over_seeds, over_seeds
from trimtab.experiments.source_study import Declared, Figure, Size
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

LONG, SHORT = (4, 32), (32, 4)
UPDATES, EVERY = 1500, 50
CHECKPOINTS = UPDATES // EVERY
SHOWN: dict[Size, tuple[int, ...]] = {
    "quick": (100, 400, 700, 1100, 1500),
    "default": tuple(range(100, 1501, 100)),
    "full": tuple(range(100, 1501, 100)),
}
EPISODES = (150, 250)  # the draft's two episodes
WHOLE = (8, 200)  # rows as long as the time limit, from reset: their first episodes are whole
LENGTHS = ((32, 4), (16, 8), (8, 16), (4, 32), (2, 64))  # splits of 128 samples, for the noise of advantages
FIRST_SHOWN = 400

D1 = Claim(
    "D1",
    "Along one FrozenLake 8x8 episode, cos(g_t, trajectory mean) stays high.",
    "draft, figures at updates 150 and 250",
    "Over many episodes, the mean cosine of g_t with the mean of its trajectory, minus what L independent gradients of "
    "the same lengths have with their own mean (1/√L where all are as long), is above 0 beyond the interval over "
    "seeds, at updates 150 and 250, each.",
)
D2 = Claim(
    "D2",
    "4 × 32: gradients of batch 0 align with other batches' means in both directions; 32 × 4: consistently.",
    "draft, slider over updates 100 to 1500",
    "Over many batches, the mean over samples of cos(g_i of one batch, mean of another) spreads more (standard "
    "deviation over pairs of batches, mean over updates) at 4 × 32 than at 32 × 4, beyond the interval over seeds.",
)
D3 = Claim(
    "D3",
    "Advantage estimates at small T are noisier because of bootstrapping.",
    "draft, Effect of Batch Size on Bias",
    "The logarithm of the variance of advantages at T = 4 over that at T = 32, both means over updates, is above 0 "
    "beyond the interval over seeds.",
)
DIFFERENT = (
    "The draft shows single episodes and five batches of one run, of settings that it does not give; here many "
    "episodes and batches of several seeds, slippery ice, one-hot states, γ 0.99, λ 0.95 and CleanRL's rates."
)


@dataclass(frozen=True)
class FrozenLake(Declared):
    """FrozenLake 8x8 trained as 4 × 32 and as 32 × 4."""

    kind: ClassVar[str] = "post/frozenlake"
    summary: ClassVar[str] = "Do gradients on FrozenLake agree?"
    source: ClassVar[str] = "draft: episodes at updates 150 and 250; slider over updates 100 to 1500"
    claims: ClassVar[tuple[Claim, ...]] = (D1, D2, D3)
    different: ClassVar[str] = DIFFERENT

    def _runs(self, split: tuple[int, int]) -> list[Train]:
        count = SEEDS[self.size]
        return [Train(_frozenlake(split, self.seed + k), CHECKPOINTS) for k in range(count)]

    def jobs(self) -> list[Job]:
        return [*self._batches(), *self._episodes(), *self._advantages()]

    def _batches(self) -> list[Directions]:
        """Each split on its own runs, at the updates of the slider."""
        at = tuple(update * 128 for update in SHOWN[self.size])
        count = {"quick": 12, "default": 32, "full": 128}[self.size]
        return [
            Directions(run, at, *split, replicates=count, looked=count // 3, bias=False)
            for split in (LONG, SHORT)
            for run in self._runs(split)
        ]

    def _episodes(self) -> list[Directions]:
        at = tuple(update * 128 for update in EPISODES)
        count = {"quick": 3, "default": 8, "full": 32}[self.size]
        return [
            Directions(run, at, *WHOLE, replicates=max(2, count), looked=count, bias=False, start="reset")
            for run in self._runs(LONG)
        ]

    def _advantages(self) -> list[Directions]:
        at = tuple(update * 128 for update in SHOWN[self.size][:: 4 if self.size == "quick" else 3])
        return [
            Directions(run, at, *split, replicates=8, looked=8, bias=False)
            for run in self._runs(LONG)
            for split in (LENGTHS[::2] if self.size == "quick" else LENGTHS)
            if split != LONG
        ]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        update = (pl.col("step") // 128).alias("update")
        look = lambda jobs: pendulum_runs.with_split(
            pendulum_runs.gathered(jobs, outcomes, "directions.parquet")
        ).with_columns(update)
        batches, episodes = look(self._batches()), look(self._episodes())
        long = batches.filter(pl.col("split") == "4x32")  # the runs of 32 × 4 are other policies
        noise = pl.concat([long, look(self._advantages())]).filter(pl.col("quantity") == "advantage_variance")
        others = (pl.col("quantity") == "sample_batch_cosine") & (pl.col("replicate") != pl.col("lag"))
        shown = (pl.col("quantity") == "sample_batch_value") & (pl.col("seed") == self.seed)
        name = {"replicate": "batch", "lag": "sample"}
        course = (pl.col("quantity") == "trajectory_course") & (pl.col("seed") == self.seed)
        lengths = episodes.filter(pl.col("quantity") == "trajectory_cosine").rename({"lag": "length"})
        chance = episodes.filter(pl.col("quantity") == "trajectory_chance")["value"].alias("chance")
        return {
            "alignments": batches.filter(others).select("seed", "split", "update", "replicate", "lag", "value"),
            "batch_0": batches.filter(shown).rename(name).select("split", "update", "batch", "sample", "value"),
            "episodes": lengths.select("seed", "update", "length", "value").with_columns(chance),
            "course": episodes.filter(course)
            .rename({"replicate": "episode", "lag": "t"})
            .select("update", "episode", "t", "value"),
            "advantages": noise.group_by("seed", "update", "num_steps", maintain_order=True).agg(
                pl.col("value").mean()
            ),
        }

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return [self._along(tables["episodes"]), self._others(tables["alignments"]), self._noise(tables["advantages"])]

    def _along(self, episodes: pl.DataFrame) -> Verdict:
        evidence, phrases = [], []
        above = episodes.with_columns((pl.col("value") - pl.col("chance")).alias("above"))
        for update in EPISODES:
            here = above.filter(pl.col("update") == update)
            e, seeds = effect_over_seeds(here, lambda own: own["above"].mean())  # type: ignore[arg-type,return-value]
            evidence.append(Evidence(f"FrozenLake8x8-v1, update {update}", e, seeds))
            chance = (1 / here["length"].sqrt()).mean() or math.nan
            uneven = here["chance"].mean() or math.nan
            mean = here["value"].mean() or math.nan
            phrases.append(
                f"at update {update} {mean:.2f}, against {chance:.2f} (1/√L) and {uneven:.2f} (as long as these)"
            )
        sentence = (
            f"Mean cosine of gradients with the mean of their episode, over {len(episodes):,} episodes, against that "
            f"of independent gradients: {'; '.join(phrases)}."
        )
        measured = "mean cosine with the trajectory's mean, minus that of independent gradients"
        return judge_all(D1, measured, [[e] for e in evidence], sentence)

    def _others(self, alignments: pl.DataFrame) -> Verdict:
        spread = alignments.group_by("seed", "split", "update", maintain_order=True).agg(
            pl.col("value").std(), (pl.col("value") < 0).mean().alias("negative")
        )
        at = lambda own, split, column="value": own.filter(pl.col("split") == split)[column].mean()
        e, seeds = effect_over_seeds(spread, lambda own: at(own, "4x32") - at(own, "32x4"))
        spreads = "; ".join(
            f"{s.replace('x', ' × ')}: {at(spread, s):.3f}, {at(spread, s, 'negative'):.0%} of pairs negative"
            for s in ("4x32", "32x4")
        )
        sentence = f"Standard deviation over pairs of batches of the mean cosine with the other's mean. {spreads}."
        return judge(
            D2, "spread of alignments, 4 × 32 minus 32 × 4", [Evidence("FrozenLake8x8-v1", e, seeds)], sentence
        )

    def _noise(self, advantages: pl.DataFrame) -> Verdict:
        def effect(own: pl.DataFrame) -> float | None:
            wide = own.pivot(on="num_steps", index="update", values="value")
            if "4" not in wide.columns or "32" not in wide.columns:
                return None
            both = wide.select("4", "32").drop_nulls().sum().row(0)  # over the updates that have both
            return math.log(both[0] / both[1]) if min(both) > 0 else None

        e, seeds = effect_over_seeds(advantages, effect)
        evidence = [Evidence("FrozenLake8x8-v1", e, seeds)]
        sentence = f"Variance of advantages at T = 4 over that at T = 32: {math.exp(e.value):.2f}."
        return judge(D3, "log ratio of the variance of advantages, T = 4 over T = 32", evidence, sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.post import frozenlake_figures as charts

        updates = sorted(set(tables["batch_0"]["update"]))
        frames = tuple((f"update {u:,}", charts.against_others(tables["batch_0"], u)) for u in updates)
        first = updates.index(FIRST_SHOWN) if FIRST_SHOWN in updates else 0
        return {
            "batch_0": Figure(
                frames[first][1],
                "The draft's columns: 4 × 32 left, 32 × 4 right. Move the slider: are lines of batches 1 to 4 on both "
                "sides of 0 more often on the left?",
                frames,
            ),
            "spread": Figure(
                charts.spreads(tables["alignments"]),
                "The same over many batches and seeds: a higher line spreads more.",
            ),
            "course": Figure(
                charts.courses(tables["course"]),
                "Dashed: what independent gradients, all as long, have with their own mean: 1/√L.",
            ),
            "episodes": Figure(
                charts.by_length(tables["episodes"]), "Points above the line: more alike than averaging makes them."
            ),
            "advantages": Figure(
                charts.advantage_noise(over_seeds(tables["advantages"], ["num_steps"])),
                "Noisier at small T would fall to the right.",
            ),
        }

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        along, _, noise = verdicts
        return f"{along.sentence} {noise.sentence}"

    def notes(self) -> list[str]:
        return [
            "The draft says only FrozenLake 8x8, 4 × 32 and 32 × 4. Inferred: CleanRL's PPO (4 epochs × 4 minibatches, "
            "2.5e-4 falling linearly to 0, γ 0.99, λ 0.95, entropy 0.01, value loss as there), 1,500 updates, slippery "
            "ice, one-hot states.",
            "Each split is probed on runs trained with it, as in the draft; the noise of advantages on the runs of "
            "4 × 32 at every T.",
            *([] if self.size == "quick" else ["Update 1000, which the draft leaves out, is in the slider."]),
            "Episodes for D1 are those of rows of 200 steps from reset; the last one of a row is cut by its end.",
        ]


def _frozenlake(split: tuple[int, int], seed: int) -> Config:
    return Config(
        env_id="FrozenLake8x8-v1",
        num_envs=split[0],
        num_steps=split[1],
        num_minibatches=4,
        update_epochs=4,
        learning_rate=2.5e-4,
        anneal_lr="linear",
        vf_coef=0.25,  # CleanRL halves the value loss once more
        clip_vloss=0.2,
        gamma=0.99,
        gae_lambda=0.95,
        ent_coef=0.01,
        total_timesteps=UPDATES * 128,
        seed=seed,
    )
