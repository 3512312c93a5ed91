"""Does it help to do what the doctor says?

Each case is a configuration with something wrong, or a preset with few steps. It is trained on several seeds, the
doctor looks at the first seed's run, its first suggestion is taken, and so on. Every round is kept, also those that
made things worse.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from trimtab import presets
from trimtab.advise.diagnosis import diagnose
from trimtab.config import Config, from_dict
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.wording import plain
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Chart, Figure, labels_in
from trimtab.experiments.source_study import SourceStudy, Tables
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
class _Attempt:
    """A case's configuration in a round, and the fields that were changed so far."""

    case: str
    config: Config
    changes: Mapping[str, Any] = field(default_factory=dict)

    def taking(self, suggestion: Mapping[str, Any] | None) -> _Attempt | None:
        """With a suggestion taken; None where there is none, or nothing new."""
        if suggestion is None or all(self.changes.get(name) == value for name, value in suggestion.items()):
            return None
        changes = {**self.changes, **suggestion}
        return _Attempt(self.case, from_dict(dict(suggestion), self.config), changes)


@dataclass(frozen=True)
class _Round:
    """What a case returned in a round, by seed, and what the doctor says of it."""

    case: str
    number: int
    taken: str
    says: str
    returns: Sequence[float]


@dataclass(frozen=True)
class _Tables(Tables):
    """A row for every case and round: what was taken, what the doctor says, returns and what they gained."""

    rounds: pl.DataFrame


class Advice(SourceStudy[_Tables]):
    """Cases, and the doctor's first suggestion taken again and again."""

    kind = "doctor-advice"
    summary = "Does following the advice of the doctor help?"
    source = "this library's own doctor"

    @property
    def _sizes(self) -> tuple[int, int]:
        """(cases, seeds)"""
        return {"quick": (2, 2), "default": (len(CASES), 5), "full": (len(CASES), 20)}[self.size]

    def _trained(self, config: Config) -> list[Train]:
        return [Train(config.replace(seed=self.seed + k), checkpoints=1) for k in range(self._sizes[1])]

    def _starts(self) -> list[_Attempt]:
        return [_Attempt(name, presets.layered(CASES[name])) for name in list(CASES)[: self._sizes[0]]]

    def jobs(self) -> list[Train]:
        return [job for attempt in self._starts() for job in self._trained(attempt.config)]

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, list[_Round]]:
        """All cases side by side, round after round, until none has anything left to try."""
        attempts, rounds = self._starts(), list[_Round]()
        for number in range(ROUNDS + 1):
            outcomes = yield [job for attempt in attempts for job in self._trained(attempt.config)]
            following = []
            for attempt in attempts:
                finished, suggestion = self._round(number, attempt, outcomes)
                rounds += [finished] if finished else []
                following.append(attempt.taking(suggestion))
            attempts = [attempt for attempt in following if attempt]
            if not attempts:
                break
        return rounds

    def _round(
        self, number: int, attempt: _Attempt, outcomes: Outcomes
    ) -> tuple[_Round | None, Mapping[str, Any] | None]:
        """A round of a case and the doctor's first suggestion, where a run finished."""
        finished = [o for job in self._trained(attempt.config) if (o := outcomes[job.identity]).done]
        if not finished:
            return None, None
        returns = [o.result["ep_rew_mean"] for o in finished if o.result["ep_rew_mean"] is not None]
        findings = diagnose(load(finished[0].path)).findings
        first = next((f for f in findings if f.verdict in ("act", "watch") and f.change), None)
        advice = f"{first.check}: {first.seen}" if first else "no finding"
        words = ", ".join(f"{name} {plain(value)}" for name, value in attempt.changes.items()) or "nothing"
        return _Round(attempt.case, number, words, advice, returns), first.change if first else None

    def measure(self, rounds: Sequence[_Round]) -> _Tables:
        starts = {r.case: r.returns for r in rounds if r.number == 0}
        rows = []
        for r in rounds:
            gain = stats.contrast([starts[r.case], r.returns], [-1, 1]) if r.number else UNRESOLVED
            about = {"case": r.case, "round": r.number, "taken": r.taken, "says": r.says}
            gains = {f"gain_{name}": value for name, value in gain.as_dict().items()}
            rows.append(about | stats.mean_interval(r.returns).as_dict() | gains)
        return _Tables(pl.DataFrame(rows, infer_schema_length=None).drop("gain_resolved"))

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        caption = "Every round is shown, also those that made things worse."
        return {"rounds": Figure(_rounds_chart(tables.rounds), caption)}

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        """What all suggestions together gained in each case, and in how many that is resolved."""
        ends = tables.rounds.group_by("case", maintain_order=True).last()
        untouched = ends.filter(round=0)["case"]
        advised = ends.filter(pl.col("round") > 0).select("case", "round", "gain_value", "gain_lo", "gain_hi")
        gains = [(case, n, Estimate(mean, lo, hi, lo is not None)) for case, n, mean, lo, hi in advised.iter_rows()]
        better = sum(gain.resolved and gain.lo > 0 for *_, gain in gains)
        worse = sum(gain.resolved and gain.hi < 0 for *_, gain in gains)
        words = [f"{case} {gain} after {number}" for case, number, gain in gains]
        words += [f"{case}: nothing suggested" for case in untouched]
        return (
            f"Of {len(gains)} cases with a suggestion to take, {better} end better than they began and "
            f"{worse} worse; the others show no significant difference. Gains in return: {'; '.join(words)}."
        )


def _rounds_chart(table: pl.DataFrame) -> Chart:
    """Return after each round of following advice, a panel for each case."""
    import altair as alt

    from trimtab.show import style

    x = alt.X("round:O", title="suggestions taken", axis=alt.Axis(labelAngle=0, grid=False))
    base = alt.Chart(table.with_columns(panel="case")).encode(x=x)
    y = alt.Y("value:Q", title="return of the last 100 episodes", scale=alt.Scale(zero=False))
    line = base.mark_line(color=style.BLUE).encode(y=y)
    points = base.mark_point(filled=True, size=50, color=style.BLUE).encode(y=y)
    bars = base.mark_rule(color=style.BLUE).encode(y=alt.Y("lo:Q"), y2="hi:Q")
    chart = style.paneled(alt.layer(bars, line, points), labels_in(table, "case"), 2, 160, y="independent")
    return style.themed(chart, "What following the doctor gains", "Mean over seeds with 95% intervals.")
