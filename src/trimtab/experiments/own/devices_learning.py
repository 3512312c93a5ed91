"""Does a run learn as well on two devices as on one? The same presets on both, over seeds, and the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from trimtab import presets
from trimtab.config import Config
from trimtab.experiments.claims import Verdict
from trimtab.experiments.source_study import Declared, Figure
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import learning_frame

STEPS = {"CartPole-v1": 100_000, "Pendulum-v1": 150_000, "Breakout-MinAtar": 1_000_000}
COUNTS = (1, 2)
MEASURES = {"area": "mean return over training", "ep_rew_mean": "return of the last 100 episodes"}
COLUMNS = ["env_id", "devices", "seed", *MEASURES]


@dataclass(frozen=True)
class Devices(Declared):
    """Presets on one device and on two, with seeds of their own: only what is random differs between them."""

    kind: ClassVar[str] = "devices-learning"
    summary: ClassVar[str] = "Does a run learn as well on two devices as on one?"
    source: ClassVar[str] = "this library's `--devices`"

    @property
    def seeds(self) -> int:
        return {"quick": 5, "default": 10, "full": 40}[self.size]

    def trained(self, env_id: str, devices: int) -> list[Train]:
        fields = {"env_id": env_id, "total_timesteps": STEPS[env_id], "devices": devices}
        config: Config = presets.layered(fields)
        return [Train(config.replace(seed=self.seed + k), checkpoints=1) for k in range(self.seeds)]

    def runs(self) -> list[Train]:
        return [run for devices in COUNTS for env_id in STEPS for run in self.trained(env_id, devices)]

    def jobs(self) -> list[Job]:
        return list(self.runs())

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows, curves = [], []
        for job in self.runs():
            if outcomes[job.identity].done:
                config, result = job.config, outcomes.of(job).result
                rows.append((config.env_id, config.devices, config.seed, *(result[name] for name in MEASURES)))
                series = f"{config.env_id} {config.devices} device" + ("s" if config.devices > 1 else "")
                curves.append((series, config.seed, outcomes.of(job).path))
        returns = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        return {"differences": _differences(returns), "returns": returns, "curves": learning_frame(curves)}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return []

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.show.style import learning_curves

        figures = {}
        for env_id in STEPS:
            mine = tables["curves"].filter(pl.col("series").str.starts_with(f"{env_id} "))
            if not mine.is_empty():
                named = mine.with_columns(pl.col("series").str.strip_prefix(f"{env_id} "))
                chart = learning_curves(named, env_id, "Mean over seeds; bands from the lowest to the highest.")
                figures[env_id] = Figure(chart, "")
        return figures

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        words = []
        for row in tables["differences"].iter_rows(named=True):
            if row["measure"] == MEASURES["area"]:
                apart = f"{row['difference']:+.3g} [{row['lo']:+.3g}, {row['hi']:+.3g}]"
                words.append(f"{row['env_id']} {row['one device']:.4g} and {row['two devices']:.4g}, apart by {apart}")
        return "Mean return over training on one device and on two: " + "; ".join(words) + "."


def _differences(returns: pl.DataFrame) -> pl.DataFrame:
    """Two devices less one, with Welch's 95% interval over seeds."""
    rows: list[dict[str, Any]] = []
    for (env_id,), part in returns.group_by("env_id", maintain_order=True):
        for name, words in MEASURES.items():
            one, two = (part.filter(pl.col("devices") == count)[name].drop_nulls().to_numpy() for count in COUNTS)
            if not (len(one) and len(two)):
                continue
            apart = stats.contrast([one, two], [-1.0, 1.0])
            means = {"one device": float(one.mean()), "two devices": float(two.mean())}
            interval = {"difference": apart.value, "lo": apart.lo, "hi": apart.hi}
            rows.append({"env_id": env_id, "measure": words, "seeds": len(two), **means, **interval})
    return pl.DataFrame(rows)
