"""Does the answer of `trimtab split` move with the seed? The same split with many seeds, against a large reference."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from trimtab import presets
from trimtab.config import Config
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Chart, Figure, labels_in
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.studies.elimination import FACTOR
from trimtab.studies.job import Job
from trimtab.studies.split_result import SplitResult, names_of
from trimtab.studies.split_study import QUICK, Split, SplitOptions, default_splits
from trimtab.studies.study_engine import Outcomes

SPLITS = {"Pendulum-v1": 1024, "CartPole-v1": 512, "FrozenLake-v1": 512}
STEPS = 100_000
FATES = ("recommended", "remaining", "learned less", "larger error", "slower")
APART = 1_000  # seeds between two repetitions
REFERENCE = 900_000  # where the reference's seeds begin


@dataclass(frozen=True)
class _Tables(Tables):
    """What became of every split in every repetition, how often, and the reference."""

    fates: pl.DataFrame
    summary: pl.DataFrame
    reference: pl.DataFrame


class Reliability(SourceStudy[_Tables]):
    """Quick splits of three environments, repeated; what they eliminate is compared with many seeds of every split."""

    kind = "split-reliability"
    summary = "Does the answer of `trimtab split --quick` depend on the seed?"
    source = "this library's own split"

    @property
    def _sizes(self) -> tuple[int, int]:
        """(repetitions, seeds of the reference)"""
        return {"quick": (3, 6), "default": (10, 20), "full": (40, 100)}[self.size]

    def split(self, env_id: str, seed: int, seeds: int | None = None) -> Split:
        """A quick split; with `seeds`, the reference: so many of them, nothing eliminated on the way."""
        batch = SPLITS[env_id]
        num_envs, num_steps = default_splits(batch, quick=False)[0]
        fields = {"env_id": env_id, "num_envs": num_envs, "num_steps": num_steps}
        config = presets.layered(fields | {"total_timesteps": STEPS, "seed": seed})
        options: dict[str, Any] = dict(QUICK)
        options |= {} if seeds is None else {"seeds": seeds, "max_seeds": seeds, "replicates": 64}
        own = Config.num_envs if (name := presets.find(env_id, config.algo)) is None else presets.load(name)["num_envs"]
        return Split(config, batch, own, SplitOptions(quick=True, **options))

    def repetitions(self) -> list[tuple[str, int, Split]]:
        return [
            (env_id, k, self.split(env_id, self.seed + APART * k)) for env_id in SPLITS for k in range(self._sizes[0])
        ]

    def references(self) -> dict[str, Split]:
        return {env_id: self.split(env_id, REFERENCE + self.seed, self._sizes[1]) for env_id in SPLITS}

    def jobs(self) -> list[Job]:
        every = [*self.references().values(), *(split for _, _, split in self.repetitions())]
        return [job for split in every for job in next(split.work(Path()))]

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, Any]:
        outcomes = yield self.jobs()
        answers = [(env_id, k, _answer(split, outcomes)) for env_id, k, split in self.repetitions()]
        return answers, {env_id: _answer(split, outcomes) for env_id, split in self.references().items()}

    def measure(self, results: Any) -> _Tables:
        answers, references = results
        rows = []
        for env_id, k, answer in answers:
            by = {entry.split: entry.by for entry in answer.ruled_out}
            for split in names_of(answer.rows):
                wrong = split in by and not _deserved(split, by[split], references[env_id])
                fate = "recommended" if split == answer.recommended else by.get(split, "remaining")
                rows.append((env_id, k, split, fate, split in answer.recommended_set, wrong))
        names = ["env_id", "repetition", "split", "fate", "kept", "wrong"]
        fates = pl.DataFrame(rows, schema=names, orient="row")
        return _Tables(fates, _summary(fates), _reference(references))

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        caption = "Each column is one repetition with seeds of its own. A row that changes colour depends on the seed."
        return {"fates": Figure(_fates_chart(tables.fates), caption)}

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        fates = tables.fates
        out = fates.filter(~pl.col("kept"))
        wrong, overlap = int(fates["wrong"].sum()), _overlapping(fates)
        return (
            f"Of {out.height} times that a split was eliminated, {wrong} were wrong by the reference; the recommended "
            f"sets of two repetitions overlap in {overlap:.0%} of the pairs; the same split was recommended in "
            f"{_same_recommendation(fates):.0%} of them."
        )


def _answer(split: Split, outcomes: Outcomes) -> SplitResult:
    """The answer of a split from outcomes that are there already."""
    work = split.work(Path())
    next(work)
    try:
        while True:
            work.send(outcomes)
    except StopIteration as end:
        result: SplitResult = end.value
        return result


def _deserved(split: str, by: str, reference: SplitResult) -> bool:
    """Whether the reference's own means put a split below (in area), above (in error) or behind (in speed) the best."""
    row = next(r for r in reference.rows if r.name == split)
    if by == "learned less":
        return float(np.mean(row.areas)) < max(float(np.mean(r.areas)) for r in reference.rows)
    if by == "slower":
        return float(np.mean(row.speeds)) < max(float(np.mean(r.speeds)) for r in reference.rows) / 1.2
    worse = []
    for stage in reference.stages:
        errors = {r.name: r.mse.value for r in stage.rows if r.mse.known}
        if split in errors:
            worse.append(errors[split] > min(errors.values()) * FACTOR**0.5)
    return bool(worse) and all(worse)


def _pairs(fates: pl.DataFrame):
    """For each environment, every two repetitions with what they kept and recommended."""
    for (_env,), part in fates.group_by("env_id", maintain_order=True):
        sets = [
            (
                set(mine.filter(pl.col("kept"))["split"]),
                mine.filter(pl.col("fate") == "recommended")["split"].item(),
            )
            for _, mine in part.group_by("repetition", maintain_order=True)
        ]
        yield from combinations(sets, 2)


def _overlapping(fates: pl.DataFrame) -> float:
    """Share of pairs of repetitions whose recommended sets have a split in common."""
    return float(np.mean([bool(a[0] & b[0]) for a, b in _pairs(fates)]))


def _same_recommendation(fates: pl.DataFrame) -> float:
    """Share of pairs of repetitions that recommend the same split."""
    return float(np.mean([a[1] == b[1] for a, b in _pairs(fates)]))


def _summary(fates: pl.DataFrame) -> pl.DataFrame:
    """How often each split was recommended, remaining, eliminated, and eliminated wrongly."""
    return fates.group_by("env_id", "split", maintain_order=True).agg(
        pl.len().alias("repetitions"),
        (pl.col("fate") == "recommended").sum().alias("recommended"),
        pl.col("kept").sum().alias("left"),
        (~pl.col("kept")).sum().alias("ruled_out"),
        pl.col("wrong").sum().alias("wrongly"),
    )


def _reference(references: dict[str, SplitResult]) -> pl.DataFrame:
    rows = [
        {"env_id": env_id, "split": r.name, "seeds": r.seeds, **r.auc.as_dict()}
        for env_id, answer in references.items()
        for r in answer.rows
    ]
    return pl.DataFrame(rows)


def _fates_chart(fates: pl.DataFrame) -> Chart:
    """What became of every split in every repetition, a panel for each environment."""
    import altair as alt

    from trimtab.show import style

    x = alt.X("repetition:O", title="repetition", axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    y = alt.Y("split:N", title=None, sort=labels_in(fates, "split"), axis=alt.Axis(ticks=False, domain=False))
    colors = dict(zip(FATES, (style.BLUE, "#a9c4e6", style.ORANGE, style.RED, style.GREY)))
    present = [fate for fate in FATES if fate in set(fates["fate"])]
    color = style.colored("fate", present, [colors[fate] for fate in present])
    cells = alt.Chart(fates.with_columns(panel="env_id")).mark_rect(cornerRadius=2, stroke="white")
    cells = cells.encode(x=x, y=y, color=color)
    chart = style.paneled(cells, labels_in(fates, "env_id"), 2, alt.Step(26), y="independent")
    return style.themed(chart, "What became of every split, repetition by repetition")
