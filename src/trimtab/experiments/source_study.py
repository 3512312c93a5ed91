"""Studies of the sources: a declaration of jobs, of what is measured from them, of figures, and of claims with rules.

A subclass says what is different. Sizes are `quick` (minutes), `default` (up to half an hour on two cores; an hour or
two where batches are as small as one environment) and `full` (the source's own scale, for a cluster). The directory of
a study ends up with its tables as Parquet and CSV, the verdicts, figures and a page.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import polars as pl

from trimtab.core import reading
from trimtab.core.writing import write_atomically, write_parquet
from trimtab.experiments.claims import Claim, Verdict, explained
from trimtab.studies.executor import Queue
from trimtab.studies.job import Job
from trimtab.studies.source_result import CaptionedFigure as Figure
from trimtab.studies.source_result import SourceResult
from trimtab.studies.study_engine import Outcomes, Study, Work, time_of
from trimtab.training.device import machine

Size = Literal["quick", "default", "full"]
SIZES: tuple[Size, ...] = ("quick", "default", "full")


@dataclass(frozen=True)
class Declared(Study[SourceResult]):
    """A study of one size; `seed` is the first of its seeds."""

    kind: ClassVar[str]
    result: ClassVar[type[SourceResult]] = SourceResult
    summary: ClassVar[str]  # one line for the list
    source: ClassVar[str]  # figures, tables or sections of the sources
    claims: ClassVar[tuple[Claim, ...]] = ()
    different: ClassVar[str] = ""  # from the source's setting; said with claims that do not hold
    grows: ClassVar[bool] = False  # what was published of it before stands beside what is done anew
    size: Size = "default"
    seed: int = 1
    command: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} ({self.size})"

    def asked(self) -> dict[str, Any]:
        return {"size": self.size, "seed": self.seed, "command": self.command}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Self:
        return cls(**values)

    # What a study says ---------------------------------------------------------------------------------------

    @abstractmethod
    def jobs(self) -> list[Job]:
        """Everything that is trained, probed or measured; of a study in rounds, what it begins with."""

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, Any]:
        """Rounds of jobs, and what `measure` is given: by default one round, and its outcomes."""
        return (yield self.jobs())

    @abstractmethod
    def measure(self, outcomes: Any) -> dict[str, pl.DataFrame]:
        """From what `gather` returned: long tables by name; figures, verdicts and the page read only these."""

    @abstractmethod
    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        """A verdict for every claim, by its declared rule."""

    @abstractmethod
    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        """Figures by name, the ones that matter first."""

    @abstractmethod
    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        """What was found, in a sentence or two."""

    def notes(self) -> list[str]:
        """What differs from the source's setting, and what was inferred."""
        return []

    def joined(self, tables: dict[str, pl.DataFrame], published: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """The tables of a study that `grows`, with those rows of the published ones that it has not done anew."""
        return tables

    @property
    def differs(self) -> str:
        """What was different from the source's setting, for claims that do not hold."""
        return self.different

    def verdicts(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        """A verdict for every claim; where one does not hold, with what was different."""
        return explained(self.judge(tables), self.differs)

    # How it is carried out -----------------------------------------------------------------------------------

    def expected_steps(self) -> int:
        return sum(job.steps for job in Queue(self.jobs()).waiting.values())

    def work(self, out: Path) -> Work[SourceResult]:
        all_outcomes = Outcomes()
        results = yield from _keeping(self.gather(out), all_outcomes)
        failed = [o for o in all_outcomes.values() if not o.done]
        tables = self.measure(results)
        for name, table in tables.items():
            write_parquet(out / "tables" / f"{name}.parquet", table)
            write_atomically(out / "tables" / f"{name}.csv", table.write_csv().encode())
        verdicts = self.verdicts(tables)
        return SourceResult(
            study=self.kind,
            size=self.size,
            seed=self.seed,
            sentence=self.answer(tables, verdicts),
            verdicts=tuple(verdicts),
            notes=tuple(self.notes()),
            jobs=len(all_outcomes),
            steps=sum(o.job.steps for o in all_outcomes.values()),
            failed=tuple(f"{o.job}: {o.error}" for o in failed),
            command=self.command,
        )

    def present(self, answer: SourceResult, outcomes: Outcomes, out: Path) -> None:
        from trimtab.show import style  # figures take long to import, and a study that only asks draws none
        from trimtab.show.page_files import write_page
        from trimtab.show.study_page import StudyReport, study_page

        tables = {file.stem: reading.read_parquet(file) for file in sorted((out / "tables").glob("*.parquet"))}
        with style.drawing():
            figures = self.figures(tables)
        times = time_of(out)
        configs = [o.job.config for o in outcomes.values() if hasattr(o.job, "config")]
        here = "{processor}, {cores} cores, {platform}".format(**machine())
        report = StudyReport(answer, figures, self.summary, self.source, times, here, list(tables), configs)
        write_page(out / "page.html", study_page(report), {name: figure.chart for name, figure in figures.items()})


def _keeping(
    rounds: Generator[Sequence[Job], Outcomes, Any], all_outcomes: Outcomes
) -> Generator[Sequence[Job], Outcomes, Any]:
    """The same rounds; every outcome they see is kept too."""
    try:
        jobs = next(rounds)
        while True:
            outcomes = yield jobs
            all_outcomes.update(outcomes)
            jobs = rounds.send(outcomes)
    except StopIteration as end:
        return end.value
