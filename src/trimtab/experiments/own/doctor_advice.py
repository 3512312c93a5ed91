"""Does it help to do what the doctor says?

Each case is a configuration with something wrong, or a preset with few steps. It is trained on several seeds, the
doctor looks at the first seed's run, its first suggestion is taken, and so on. Every round is kept, also those that
made things worse.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from trimtab import presets
from trimtab.advise.diagnosis import diagnose
from trimtab.config import Config, from_dict
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.wording import plain
from trimtab.experiments.claims import Verdict
from trimtab.experiments.source_study import Declared, Figure
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import load

ROUNDS = 4
CASES: dict[str, dict[str, Any]] = {
    "Pendulum, steps far too large": {"env_id": "Pendulum-v1", "total_timesteps": 100_000, "learning_rate": 0.02},
    "Pendulum, steps far too small": {"env_id": "Pendulum-v1", "total_timesteps": 100_000, "learning_rate": 5e-5},
    "CartPole, one environment": {"env_id": "CartPole-v1", "total_timesteps": 100_000, "num_envs": 1, "num_steps": 128},
    "Acrobot, steps far too large": {"env_id": "Acrobot-v1", "total_timesteps": 200_000, "learning_rate": 0.1},
    "REINFORCE on CartPole, small batches": {
        "env_id": "CartPole-v1",
        "algo": "reinforce",
        "total_timesteps": 200_000,
        "num_envs": 4,
        "num_steps": 64,
    },
}


@dataclass(frozen=True)
class Advice(Declared):
    """Cases, and the doctor's first suggestion taken again and again."""

    kind: ClassVar[str] = "doctor-advice"
    summary: ClassVar[str] = "Does it help to do what the doctor says?"
    source: ClassVar[str] = "this library's own doctor"

    @property
    def _sizes(self) -> tuple[int, int]:
        """(cases, seeds)"""
        return {"quick": (2, 2), "default": (len(CASES), 5), "full": (len(CASES), 20)}[self.size]

    def _trained(self, config: Config) -> list[Job]:
        return [Train(config.replace(seed=self.seed + k), checkpoints=1) for k in range(self._sizes[1])]

    def _starts(self) -> dict[str, Config]:
        return {name: presets.layered(CASES[name]) for name in list(CASES)[: self._sizes[0]]}

    def jobs(self) -> list[Job]:
        return [job for config in self._starts().values() for job in self._trained(config)]

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, Any]:
        """All cases side by side, round after round, until none has anything left to try."""
        going = {name: (config, dict[str, Any]()) for name, config in self._starts().items()}
        rows: list[dict[str, Any]] = []
        for number in range(ROUNDS + 1):
            outcomes = yield [job for config, _ in going.values() for job in self._trained(config)]
            following = {}
            for name, (config, changes) in going.items():
                row, suggestion = self._round(name, number, config, changes, outcomes)
                rows += [row] if row else []
                successor = _taken(config, changes, suggestion)
                if successor is not None:
                    following[name] = successor
            going = following
            if not going:
                break
        return rows

    def _round(self, name: str, number: int, config: Config, changes: dict[str, Any], outcomes: Outcomes):
        finished = [o for job in self._trained(config) if (o := outcomes[job.identity]).done]
        if not finished:
            return None, None
        returns = [o.result["ep_rew_mean"] for o in finished if o.result["ep_rew_mean"] is not None]
        findings = diagnose(load(finished[0].path)).findings
        first = next((f for f in findings if f.verdict in ("act", "watch") and f.change), None)
        advice = f"{first.check}: {first.seen}" if first else "nothing stands out"
        words = ", ".join(f"{field} {plain(value)}" for field, value in changes.items()) or "nothing"
        row = {"case": name, "round": number, "taken": words, "says": advice, **stats.mean_interval(returns).as_dict()}
        return row | {"returns": returns}, first.change if first else None

    def measure(self, rounds: Any) -> dict[str, pl.DataFrame]:
        starts = {row["case"]: row["returns"] for row in rounds if row["round"] == 0}
        rows = []
        for row in rounds:
            gain = stats.contrast([starts[row["case"]], row["returns"]], [-1, 1]) if row["round"] else UNRESOLVED
            rows.append(row | {f"gain_{name}": number for name, number in gain.as_dict().items()})
        return {"rounds": pl.DataFrame(rows, infer_schema_length=None).drop("returns", "gain_resolved")}

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return []

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.own.own_figures import rounds

        return {"rounds": Figure(rounds(tables["rounds"]), "Every round is shown, also those that made things worse.")}

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        """What all suggestions together gained in each case, and in how many that is resolved."""
        ends = tables["rounds"].group_by("case", maintain_order=True).last()
        rows = list(ends.iter_rows(named=True))
        advised = [
            (row, Estimate(row["gain_value"], row["gain_lo"], row["gain_hi"], row["gain_lo"] is not None))
            for row in rows
            if row["round"]
        ]
        better = sum(gain.resolved and gain.lo > 0 for _, gain in advised)
        worse = sum(gain.resolved and gain.hi < 0 for _, gain in advised)
        words = [f"{row['case']} {gain} after {row['round']}" for row, gain in advised]
        words += [f"{row['case']}: nothing suggested" for row in rows if not row["round"]]
        return (
            f"Of {len(advised)} cases with a suggestion to take, {better} end better than they began and "
            f"{worse} worse; the rest are not told apart. Gains in return: {'; '.join(words)}."
        )


def _taken(
    config: Config, changes: dict[str, Any], suggestion: dict[str, Any] | None
) -> tuple[Config, dict[str, Any]] | None:
    """The configuration with a suggestion taken; None where there is none, or nothing new."""
    if suggestion is None or all(changes.get(field) == value for field, value in suggestion.items()):
        return None
    return from_dict(suggestion, config), changes | suggestion
