"""Do the presets train? Final returns over seeds, beside what others published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import polars as pl

from trimtab.advise.diagnosis import diagnose, tally
from trimtab.config import ConfigError
from trimtab.core.wording import nearest
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Figure, curves_by_environment
from trimtab.experiments.jobs import Evaluation, GreedyValue
from trimtab.experiments.measures import mean_of
from trimtab.experiments.own.preset_targets import FULL, SIZES, Row
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.math import stats
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run, learning_frame

NOTHING = "nothing"
FIRST = 100  # episodes at the start of a run that say what a policy is worth that has learned nothing
NAME = ["env_id", "algo", "steps"]
RETURNS = ["env_id", "algo", "seed", "steps", "value", "first", "act"]  # act: what the doctor finds to act on


@dataclass(frozen=True)
class _Tables(Tables):
    """A line for every preset, the presets that were not run, the final return of every run, and curves."""

    summary: pl.DataFrame
    not_run: pl.DataFrame
    returns: pl.DataFrame
    curves: pl.DataFrame


@dataclass(frozen=True)
class Learning(SourceStudy[_Tables]):
    """Every preset on its seeds; `only` chooses environments."""

    kind = "learning"
    summary = "Do the shipped presets learn?"
    source = "this library's presets, beside published results of PPO"
    grows = True  # a row takes up to hours
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        env_ids = list(dict.fromkeys(row.env_id for row in SIZES[self.size]))
        for env_id in self.only:
            if env_id not in env_ids:
                near = ", ".join(nearest(env_id, env_ids) or env_ids)
                raise ConfigError("only", env_id, f"not at size {self.size}; nearest: {near}")

    def asked(self) -> dict[str, Any]:
        return super().asked() | ({"only": list(self.only)} if self.only else {})

    @classmethod
    def again(cls, values: dict[str, Any]) -> Self:
        return cls(**values | {"only": tuple(values.get("only", ()))})

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for row in SIZES[self.size] if not self.only or row.env_id in self.only)

    def trained(self, row: Row) -> list[Train]:
        return [Train(row.config.replace(seed=self.seed + k), checkpoints=2) for k in range(row.seeds)]

    def _measuring(self, row: Row) -> Sequence[Train | Evaluation | GreedyValue]:
        measure = {"evaluation": Evaluation, "exact greedy value": GreedyValue}.get(row.measure)
        return [measure(run) for run in self.trained(row)] if measure else self.trained(row)

    def jobs(self) -> list[Train | Evaluation | GreedyValue]:
        """The first seed of every row before the second of any: what falls short is seen early."""
        most = max((row.seeds for row in self.rows), default=0)
        return [job for k in range(most) for row in self.rows for job in self._measuring(row)[k : k + 1]]

    def measure(self, outcomes: Outcomes) -> _Tables:
        rows, curves = [], []
        for row in self.rows:
            for run, job in zip(self.trained(row), self._measuring(row)):
                if not outcomes[job.identity].done:
                    continue
                result, trained = outcomes.of(job).result, Run(outcomes.of(run).path)
                value = result["value"] if "value" in result else result["ep_rew_mean"]
                first = trained.episodes["return"][:FIRST].mean()
                act = ", ".join(diagnose(trained).acts)
                rows.append((row.env_id, row.algo, run.config.seed, run.config.steps, value, first, act))
                curves.append((row.name, run.config.seed, trained.path))
        return _summarized(pl.DataFrame(rows, schema=RETURNS, orient="row"), self.rows, learning_frame(curves))

    def joined(self, tables: _Tables, published: _Tables) -> _Tables:
        """Seeds that were published join those of now; rows of which only the summary was published stay."""
        returns = tables.returns
        if len(published.returns):
            earlier = published.returns.join(returns, on=[*NAME, "seed"], how="anti")
            past_returns = earlier.with_columns(pl.col("act").cast(pl.String).fill_null(""))  # CSV knows no empty text
            returns = pl.concat([returns, past_returns], how="vertical_relaxed")
        joined = _summarized(returns, FULL, tables.curves)
        if published.summary.is_empty():
            return joined
        rows = [*joined.summary.iter_rows(named=True), *published.summary.iter_rows(named=True)]
        by_name = {(row["env_id"], row["algo"], row["steps"]): row for row in reversed(rows)}  # those of now win
        names = [(row.env_id, row.algo, row.config.steps) for row in FULL]
        summary = pl.DataFrame([by_name[name] for name in names if name in by_name], infer_schema_length=None)
        left = joined.not_run.join(summary, on=NAME, how="anti")
        return replace(joined, summary=summary.with_columns(pl.col(pl.String).fill_null("")), not_run=left)

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        return curves_by_environment(tables.curves, dict.fromkeys(row.env_id for row in self.rows))

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        summary = tables.summary
        if summary.is_empty():
            return "Nothing was trained."
        short = summary.filter(pl.col("met").str.starts_with("no"))
        names = ", ".join(f"{e} {a}" for e, a in short.select("env_id", "algo").iter_rows())
        judged = summary.filter(pl.col("met").str.contains("yes|no")).height
        left = tables.not_run.height
        ill = summary.filter(pl.col("doctor") != NOTHING)
        return (
            f"{judged - short.height} of {judged} presets reach what is wanted of them"
            + (f", not {names}" if names else "")
            + f". The doctor finds nothing to act on in {summary.height - ill.height} of {summary.height}"
            + (f"; {left} rows of the full size were not run." if left else ".")
        )

    def notes(self) -> list[str]:
        return [
            "`value` is the mean over seeds of the mean return of the last 100 episodes of training, exploration on, "
            "unless `measure` says otherwise; `lo` and `hi` are Student's 95% interval; `first` is the mean return of "
            f"the first {FIRST} episodes; `doctor` is what `trimtab doctor` finds to act on in these runs.",
            "CleanRL's numbers are means and deviations over seeds of training episodes; RL Zoo's are one run each, "
            "evaluated with exploration off, and some are of older versions of the environment (in brackets). Where "
            "only numbers at more steps are published, `wanted` is that number, less its deviation (Reacher), or a "
            "rounder one below (LunarLander); Swimmer's is that of 8M steps; Pong's is 5 above random play.",
            "Pong trains with a constant step size: its preset's falls over 10M steps. With one that fell to 0 over "
            "this million, which is what was tried first, the last 100 episodes returned -16.2.",
            "CleanRL's table of dm_control does not say its steps; its default is 1M, the benchmark script of today "
            "says 8M.",
        ]


def _summarized(returns: pl.DataFrame, rows: Sequence[Row], curves: pl.DataFrame) -> _Tables:
    """Final returns, what they come to row by row, and which rows are missing."""
    lines = []
    for row in rows:
        mine = returns.filter(env_id=row.env_id, algo=row.algo, steps=row.config.steps)
        if len(mine):
            lines.append(_line(row, mine))
    return _Tables(pl.DataFrame(lines, infer_schema_length=None), _not_run(returns), returns, curves)


def _line(row: Row, mine: pl.DataFrame) -> dict[str, Any]:
    """A row of the summary: what it reached, what it should, and what others published."""
    values, first = mine["value"].to_list(), mean_of(mine, "first") or 0.0
    reached = stats.mean_interval(values).as_dict()
    return {
        "env_id": row.env_id,
        "algo": row.algo,
        "steps": row.config.steps,
        "measure": row.measure,
        "seeds": f"{len(values)} of {row.seeds}",
        "first": first,
        **{name: reached[name] for name in ("value", "lo", "hi")},
        "wanted": str(row.bar) if row.bar else "reported",
        "met": _met(row, values, first),
        "doctor": _acts(mine["act"].to_list()),
        "published": row.published[0],
        "where": row.published[1],
    }


def _not_run(returns: pl.DataFrame) -> pl.DataFrame:
    """Rows of the full size that nothing was trained for, at this many steps."""
    done = set(returns.select(NAME).iter_rows())
    left = [row for row in FULL if (row.env_id, row.algo, row.config.steps) not in done]
    lines = [(row.env_id, row.algo, row.config.steps, row.seeds, *row.published) for row in left]
    return pl.DataFrame(lines, schema=[*NAME, "seeds", "published", "where"], orient="row")


def _acts(acts: list[str]) -> str:
    """What the doctor would act on, and in how many of the runs."""
    return tally([checks.split(", ") if checks else [] for checks in acts]) or NOTHING


def _met(row: Row, values: list[float], first: float) -> str:
    """Whether a row reaches its bar, in words; of seeds that are still to be run it may depend."""
    if row.bar is None:
        return ""
    met = row.bar.is_met(values, first)
    left = row.seeds - len(values)
    if not left:
        return "yes" if met else "no"
    if row.bar.on is None:
        return "yes, so far" if met else "no, so far"
    best = row.bar.is_met([*values, *[float("inf")] * left], first)
    return "yes" if met else "open" if best else "no"
