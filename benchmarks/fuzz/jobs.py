"""A job that costs nothing, to see what many of them cost and whether each is done once."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from trimtab.studies.job import Job, JobContext
from trimtab.studies.study_engine import Outcomes, Study, Work
from trimtab.studies.study_result import StudyResult

DONE = "done.log"  # beside the jobs: a line for each time one was done


@dataclass(frozen=True)
class Square(Job):
    """The square of a number, after a pause."""

    kind: ClassVar[str] = "benchmarks.fuzz.jobs:Square"
    number: int
    pause: float = 0.0

    steps: ClassVar[int] = 1
    threads: ClassVar[int] = 1
    shape: ClassVar[int] = 0

    @property
    def label(self) -> str:
        return f"of {self.number}"

    def do(self, context: JobContext) -> dict[str, Any]:
        time.sleep(self.pause)
        note(context.place.parent, self.number)
        return {"square": self.number**2}


def note(store: Path, number: int) -> None:
    """Add a line in one call, so that lines of several processes are not mixed."""
    line = os.open(store / DONE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(line, f"{number}\n".encode())
    os.close(line)


@dataclass(frozen=True, kw_only=True, repr=False)
class SquaresResult(StudyResult):
    """The sum of the squares."""

    sum: int = 0


@dataclass(frozen=True)
class Squares(Study[SquaresResult]):
    """Many squares."""

    kind: ClassVar[str] = "squares"
    result: ClassVar[type[SquaresResult]] = SquaresResult
    many: int

    @property
    def title(self) -> str:
        return f"{self.many} squares"

    def asked(self) -> dict[str, Any]:
        return {"many": self.many}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Squares:
        return cls(**values)

    def work(self, out: Path) -> Work[SquaresResult]:
        jobs = [Square(number) for number in range(self.many)]
        outcomes = yield jobs
        return SquaresResult(sum=sum(outcomes.of(job).result["square"] for job in jobs))

    def present(self, answer: SquaresResult, outcomes: Outcomes, out: Path) -> None:
        (out / "page.html").write_text(f"<p>{answer.sum}</p>")
