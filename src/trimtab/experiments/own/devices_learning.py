"""Does a run learn as well on two devices as on one? The same presets on both, over seeds, and the difference."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from trimtab import presets
from trimtab.config import Config
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Figure, curves_by_environment
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import learning_frame

STEPS = {"CartPole-v1": 100_000, "Pendulum-v1": 150_000, "Breakout-MinAtar": 1_000_000}
COUNTS = (1, 2)
MEASURES = {"area": "mean return over training", "ep_rew_mean": "return of the last 100 episodes"}
COLUMNS = ["env_id", "devices", "seed", *MEASURES]


@dataclass(frozen=True)
class _Tables(Tables):
    """Differences between two devices and one, returns of every run, and learning curves."""

    differences: pl.DataFrame
    returns: pl.DataFrame
    curves: pl.DataFrame


class Devices(SourceStudy[_Tables]):
    """Presets on one device and on two, with seeds of their own: only what is random differs between them."""

    kind = "devices-learning"
    summary = "Does a run learn as well on two devices as on one?"
    source = "this library's `--devices`"

    @property
    def seeds(self) -> int:
        return {"quick": 5, "default": 10, "full": 40}[self.size]

    def trained(self, env_id: str, devices: int) -> list[Train]:
        fields = {"env_id": env_id, "total_timesteps": STEPS[env_id], "devices": devices}
        config: Config = presets.layered(fields)
        return [Train(config.replace(seed=self.seed + k), checkpoints=1) for k in range(self.seeds)]

    def jobs(self) -> list[Train]:
        return [run for devices in COUNTS for env_id in STEPS for run in self.trained(env_id, devices)]

    def measure(self, outcomes: Outcomes) -> _Tables:
        rows, curves = [], []
        for job in self.jobs():
            outcome, config = outcomes[job.identity], job.config
            if outcome.done:
                rows.append((config.env_id, config.devices, config.seed, *(outcome.result[name] for name in MEASURES)))
                series = f"{config.env_id} {config.devices} device" + ("s" if config.devices > 1 else "")
                curves.append((series, config.seed, outcome.path))
        returns = pl.DataFrame(rows, schema=COLUMNS, orient="row")
        return _Tables(_differences(returns), returns, learning_frame(curves))

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        return curves_by_environment(tables.curves, STEPS)

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        words = []
        for row in tables.differences.filter(measure=MEASURES["area"]).iter_rows(named=True):
            apart = f"{row['difference']:+.3g} [{row['lo']:+.3g}, {row['hi']:+.3g}]"
            words.append(f"{row['env_id']} {row['one device']:.4g} and {row['two devices']:.4g}, apart by {apart}")
        return f"Mean return over training on one device and on two: {'; '.join(words)}."


def _differences(returns: pl.DataFrame) -> pl.DataFrame:
    """Two devices less one, with Welch's 95% interval over seeds."""
    rows = []
    for (env_id,), part in returns.group_by("env_id", maintain_order=True):
        for name, words in MEASURES.items():
            one, two = (part.filter(devices=count)[name].drop_nulls().to_numpy() for count in COUNTS)
            if len(one) and len(two):
                apart = stats.contrast([one, two], [-1.0, 1.0])
                means = float(one.mean()), float(two.mean())
                rows.append((env_id, words, len(two), *means, apart.value, apart.lo, apart.hi))
    names = ["env_id", "measure", "seeds", "one device", "two devices", "difference", "lo", "hi"]
    return pl.DataFrame(rows, schema=names, orient="row")
