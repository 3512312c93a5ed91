"""Do the presets train? Final returns over seeds, beside what others published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from trimtab import presets, stats
from trimtab.config import Config, from_dict
from trimtab.runs.run import learning_frame
from trimtab.studies.claims import Verdict
from trimtab.studies.declared import Declared, Figure
from trimtab.studies.job import Job, Train
from trimtab.studies.jobs.evaluation import Evaluation, GreedyValue
from trimtab.studies.study import Outcomes

CLEANRL, ZOO = "CleanRL's documentation", "RL Baselines3 Zoo's benchmark"


@dataclass(frozen=True)
class Row:
    """A preset on so many seeds; `published` is (value, where) of PPO elsewhere at about as many steps."""

    env_id: str
    algo: str = "ppo"
    seeds: int = 5
    measure: str = "last 100 episodes"
    published: tuple[str, str] = ("", "")
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        name = presets.find(self.env_id, self.algo)
        return from_dict(
            (presets.load(name) if name else {}) | {"env_id": self.env_id, "algo": self.algo} | self.changes
        )

    @property
    def name(self) -> str:
        return f"{self.env_id} {self.algo}"


SHORT = {"total_timesteps": 2_000_000}
QUICK = (
    Row("CartPole-v1", seeds=3, published=("490 ± 6 at 500k", CLEANRL)),
    Row("Pendulum-v1", seeds=3, measure="evaluation", published=("-172 at 100k", ZOO)),
    Row("FrozenLake8x8-v1", seeds=3, measure="exact greedy value", published=("0.412, the optimum", "solved exactly")),
)
DEFAULT = (
    Row("CartPole-v1", seeds=10, published=("490 ± 6 at 500k", CLEANRL)),
    Row("Pendulum-v1", seeds=10, measure="evaluation", published=("-172 at 100k", ZOO)),
    Row("Acrobot-v1", seeds=10, published=("-86.4 ± 1.3 at 500k", CLEANRL)),
    Row("FrozenLake8x8-v1", measure="exact greedy value", published=("0.412, the optimum", "solved exactly")),
    Row("CartPole-v1", "reinforce"),
    *(Row("CartPole-v1", algo, 10) for algo in ("ppo-ewma", "ppg", "ppg-ewma")),
    *(Row("Pendulum-v1", algo, measure="evaluation") for algo in ("ppo-ewma", "ppg", "ppg-ewma")),
    Row("Breakout-MinAtar", changes=SHORT, published=("28 at 10M", "gymnax's checkpoints")),
)
FULL = (
    *DEFAULT[:-1],
    *(Row(f"{game}-MinAtar") for game in ("Breakout", "Asterix", "Freeway", "SpaceInvaders")),
    Row("HalfCheetah-v4", seeds=10, published=("1443 ± 46 at 1M; 5819", f"{CLEANRL}; {ZOO}")),
    Row("Walker2d-v4", published=("2288 ± 572 at 1M; 3479", f"{CLEANRL}; {ZOO}")),
    Row("Hopper-v4", published=("2383 ± 272 at 1M; 2410", f"{CLEANRL}; {ZOO}")),
    Row("InvertedPendulum-v4", published=("963 ± 22 at 1M", CLEANRL)),
    Row("Humanoid-v4", published=("716 ± 49 at 1M", CLEANRL)),
    Row("LunarLander-v3"),
    Row("MountainCarContinuous-v0"),
    Row("Pong-v5", seeds=3, changes={"total_timesteps": 1_000_000}, published=("20.4 ± 0.2 at 10M", CLEANRL)),
)


@dataclass(frozen=True)
class Learning(Declared):
    """Every preset on its seeds."""

    kind: ClassVar[str] = "learning"
    summary: ClassVar[str] = "Do the shipped presets train their environments?"
    source: ClassVar[str] = "this library's presets, beside published results of PPO"

    @property
    def rows(self) -> tuple[Row, ...]:
        return {"quick": QUICK, "default": DEFAULT, "full": FULL}[self.size]

    def trained(self, row: Row) -> list[Train]:
        return [Train(row.config.replace(seed=self.seed + k), checkpoints=2) for k in range(row.seeds)]

    def _measuring(self, row: Row) -> list[Job]:
        if row.measure == "evaluation":
            return [Evaluation(run) for run in self.trained(row)]
        if row.measure == "exact greedy value":
            return [GreedyValue(run) for run in self.trained(row)]
        return list(self.trained(row))

    def jobs(self) -> list[Job]:
        return [job for row in self.rows for job in self._measuring(row)]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows, curves = [], []
        for row in self.rows:
            for run, job in zip(self.trained(row), self._measuring(row)):
                if not outcomes[job.identity].done:
                    continue
                result = outcomes.of(job).result
                value = result["value"] if "value" in result else result["ep_rew_mean"]
                rows.append(
                    (row.env_id, row.algo, run.config.seed, run.config.steps, row.measure, value, *row.published)
                )
                curves.append((row.name, run.config.seed, outcomes.of(run).path))
        schema = ["env_id", "algo", "seed", "steps", "measure", "value", "published", "where"]
        returns = pl.DataFrame(rows, schema=schema, orient="row")
        summary = [
            {"env_id": e, "algo": a, "steps": part["steps"][0], "seeds": part.height, "measure": part["measure"][0]}
            | stats.mean_interval(part["value"].to_numpy()).as_dict()
            | {"published": part["published"][0], "where": part["where"][0]}
            for (e, a), part in returns.group_by("env_id", "algo", maintain_order=True)
        ]
        return {"summary": pl.DataFrame(summary), "returns": returns, "curves": learning_frame(curves)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return []

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.report.style import learning_curves

        curves = tables["curves"]
        found = {}
        for env_id in dict.fromkeys(row.env_id for row in self.rows):
            mine = curves.filter(pl.col("series").str.starts_with(f"{env_id} "))
            if not mine.is_empty():
                named = mine.with_columns(pl.col("series").str.split(" ").list.last())
                chart = learning_curves(named, env_id, "Mean over seeds; bands from the lowest to the highest.")
                found[env_id] = Figure(chart, "")
        return found

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        words = []
        for row in tables["summary"].iter_rows(named=True):
            interval = f" [{row['lo']:.4g}, {row['hi']:.4g}]" if row["lo"] is not None else ""
            words.append(f"{row['env_id']} {row['algo']} {row['value']:.4g}{interval}")
        return "; ".join(words) + "."
