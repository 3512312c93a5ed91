"""Studies of the sources: a declaration of jobs, of what is measured from them, of figures, and of claims with rules.

A subclass says what is different. Sizes are `quick` (minutes), `default` (up to half an hour on two cores; an hour or
two where batches are as small as one environment) and `full` (the source's own scale, for a cluster). The directory of
a study ends up with its tables as Parquet and CSV, the verdicts, figures and a page.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import polars as pl

from trimtab.config import Config
from trimtab.core import reading
from trimtab.core.writing import write_atomically, write_parquet
from trimtab.experiments.claims import Claim, Verdict, explained
from trimtab.experiments.figures import Figure
from trimtab.studies.executor import Queue
from trimtab.studies.job import Job
from trimtab.studies.source_result import SourceResult
from trimtab.studies.study_engine import Outcomes, Study, Work, time_of
from trimtab.training.device import machine

Size = Literal["quick", "default", "full"]
SIZES: tuple[Size, ...] = ("quick", "default", "full")


@dataclass(frozen=True)
class Tables:
    """The long tables of a study: subclasses name them. Figures, verdicts and the page read only these."""

    @classmethod
    def of(cls, frames: Mapping[str, pl.DataFrame]) -> Self:
        """The tables by name; those that are not given are empty."""
        return cls(**{f.name: frames.get(f.name, pl.DataFrame()) for f in fields(cls)})

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The tables that were written into a directory."""
        return cls(**{f.name: reading.read_parquet(folder / f"{f.name}.parquet") for f in fields(cls)})

    def by_name(self) -> dict[str, pl.DataFrame]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def write(self, folder: Path) -> None:
        """Every table as Parquet and as CSV."""
        for name, table in self.by_name().items():
            write_parquet(folder / f"{name}.parquet", table)
            write_atomically(folder / f"{name}.csv", table.write_csv().encode())


T = TypeVar("T", bound=Tables)


@dataclass(frozen=True)
class SourceStudy(Study[SourceResult], Generic[T]):
    """A study of one size; `seed` is the first of its seeds."""

    kind: ClassVar[str]
    result: ClassVar[type[SourceResult]] = SourceResult
    summary: ClassVar[str]  # one line for the list
    source: ClassVar[str]  # figures, tables or sections of the sources
    tables: ClassVar[type[Tables]] = Tables  # the class of its tables, T
    claims: ClassVar[tuple[Claim, ...]] = ()
    leads: ClassVar[tuple[str, ...]] = ()  # the claims whose verdicts make the answer
    different: ClassVar[str] = ""  # from the source's setting; shown with claims that do not hold
    grows: ClassVar[bool] = False  # published results stay on its page beside new ones
    size: Size = "default"
    seed: int = 1
    command: str = ""

    def __init_subclass__(cls) -> None:
        """The class of the tables is the parameter of the base: `class Bias(SourceStudy[_Tables])`."""
        super().__init_subclass__()
        parameters = [a for base in cls.__dict__.get("__orig_bases__", ()) for a in get_args(base)]
        cls.tables = next((a for a in parameters if isinstance(a, type) and issubclass(a, Tables)), cls.tables)

    @property
    def title(self) -> str:
        return f"{self.kind} ({self.size})"

    def asked(self) -> dict[str, Any]:
        return {"size": self.size, "seed": self.seed, "command": self.command}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Self:
        return cls(**values)

    # What a study declares -----------------------------------------------------------------------------------

    @abstractmethod
    def jobs(self) -> Sequence[Job]:
        """Everything that is trained, probed or measured; of a study in rounds, the first round."""

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, Any]:
        """Rounds of jobs, and the input of `measure`: by default one round, and its outcomes."""
        return (yield self.jobs())

    @abstractmethod
    def measure(self, results: Any) -> T:
        """The tables that follow from what `gather` returned."""

    def judge(self, tables: T) -> list[Verdict]:
        """A verdict for every claim, by its declared rule."""
        return []

    @abstractmethod
    def figures(self, tables: T) -> dict[str, Figure]:
        """Figures by name, the most important first."""

    def answer(self, tables: T, verdicts: list[Verdict]) -> str:
        """The result, in a sentence or two: by default the sentences of the verdicts that it `leads` with."""
        sentences = {verdict.id: verdict.sentence for verdict in verdicts}
        return " ".join(sentences[claim] for claim in self.leads)

    def notes(self) -> list[str]:
        """What differs from the source's setting, and what was inferred."""
        return []

    def joined(self, tables: T, published: T) -> T:
        """The tables of a study that `grows`, with those rows of the published ones that it has not measured again."""
        return tables

    @property
    def differs(self) -> str:
        """What was different from the source's setting, for claims that do not hold."""
        return self.different

    def verdicts(self, tables: T) -> list[Verdict]:
        """A verdict for every claim; where one does not hold, with what was different."""
        return explained(self.judge(tables), self.differs)

    # How it is carried out -----------------------------------------------------------------------------------

    def expected_steps(self) -> int:
        return sum(job.steps for job in Queue(self.jobs()).waiting.values())

    def work(self, out: Path) -> Work[SourceResult]:
        all_outcomes = Outcomes()
        results = yield from _keeping(self.gather(out), all_outcomes)
        tables = self.measure(results)
        tables.write(out / "tables")
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
            failed=tuple(f"{o.job}: {o.error}" for o in all_outcomes.values() if not o.done),
            command=self.command,
        )

    def present(self, answer: SourceResult, outcomes: Outcomes, out: Path) -> None:
        from trimtab.show import style  # figures take long to import, and a study that only asks draws none
        from trimtab.show.page_files import write_page
        from trimtab.show.study_page import StudyReport, study_page

        tables = self.tables.read(out / "tables")
        with style.drawing():
            figures = self.figures(tables)  # type: ignore[arg-type]  # a class variable cannot be of type[T]
        configs = [c for o in outcomes.values() if isinstance(c := getattr(o.job, "config", None), Config)]
        here, names = "{processor}, {cores} cores, {platform}".format(**machine()), sorted(tables.by_name())
        report = StudyReport(answer, figures, self.summary, self.source, time_of(out), here, names, configs)
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
