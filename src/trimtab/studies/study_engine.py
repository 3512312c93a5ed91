"""The study engine: a study declares many jobs and an answer, and runs in a directory of its own.

    STUDY/study.json     the request
    STUDY/store/         its jobs, unless they are in another store (`--store DIR`)
    STUDY/result.json, page.html, figures/, ...    the answer
    STUDY/time.json      the time it took, including interrupted attempts

A study runs in rounds: `work` yields jobs and receives their outcomes, until it returns its answer. Rounds depend on
outcomes only, so a resumed study requests the same jobs again and reuses the finished ones.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, Generic, Self, TypeVar

from trimtab.core import reading, trust
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.core.fields import Place, option
from trimtab.core.json_values import to_json
from trimtab.core.options import Options
from trimtab.core.writing import write_json
from trimtab.studies.executor import Executor, Queue, executor
from trimtab.studies.job import Job
from trimtab.studies.store import Outcome, Store
from trimtab.studies.study_result import StudyResult, StudyTime
from trimtab.training.progress import Progress

SPEC, RESULT = "study.json", "result.json"
TIME = "time.json"
SCHEMA = 1
R = TypeVar("R", bound=StudyResult)


class Outcomes(dict[str, Outcome]):
    """The outcomes of a study's jobs so far, by identity."""

    def of(self, job: Job) -> Outcome:
        """The outcome of a job; raises if it failed."""
        outcome = self[job.identity]
        if not outcome.done:
            raise RunError(f"{job} failed: {outcome.error}")
        return outcome


Work = Generator[Sequence[Job], Outcomes, R]  # rounds of jobs, their outcomes, and the answer


class Study(Generic[R]):
    """Subclasses declare the request (plain values, for JSON) and how the answer follows."""

    kind: ClassVar[str]
    result: ClassVar[type[StudyResult]]

    @property
    def title(self) -> str:
        """Its name for people."""
        raise NotImplementedError

    def asked(self) -> dict[str, Any]:
        """The request as plain values, from which `again` makes the same study."""
        raise NotImplementedError

    @classmethod
    def again(cls, values: dict[str, Any]) -> Self:
        raise NotImplementedError

    def refuse(self) -> None:
        """Raise if the study cannot run, before anything is written."""

    def expected_steps(self) -> int:
        """Environment steps of the whole study, estimated beforehand."""
        return 0

    def work(self, out: Path) -> Work[R]:
        """Rounds of jobs, and the answer."""
        raise NotImplementedError

    def present(self, answer: R, outcomes: Outcomes, out: Path) -> None:
        """Write the page and the figures into the study's directory."""


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions(Options):
    """Where jobs run; the results do not depend on it."""

    on: str = "local"
    """Where jobs run: local (a warm process per core), inline (this process), ray or ray:ADDRESS."""
    workers: int | None = None
    """Jobs that run at the same time (default: one per core, or per CPU of the Ray cluster)."""
    store: Place | None = option(None, metavar="DIR")
    """Directory of finished jobs, shared between studies (default: the study's own)."""


DEFAULT_EXECUTION = ExecutionOptions()


def began(path: str | Path) -> bool:
    """Whether a directory holds a study, finished or not."""
    return (Path(path) / SPEC).is_file()


def run_study(
    study: Study[R], out: Path, where: ExecutionOptions = DEFAULT_EXECUTION, command: str = "", quiet: bool = True
) -> R:
    """Run a study in a new directory.

    Args:
        study: the study.
        out: its directory, new or empty.
        where: the executor and the store.
        command: what was typed, for the record.
        quiet: show no progress.

    Returns:
        Its answer.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists and is not empty; give another --run-dir, or resume it")
    study.refuse()
    doer = executor(where.on, where.workers)  # also refuses options that cannot work
    store = str(Path(where.store).resolve()) if where.store else None
    spec = {"schema": SCHEMA, "kind": study.kind, "asked": study.asked(), "store": store, "command": command}
    write_json(out / SPEC, {"id": trust.enlist(_plain(spec)), **spec})
    return _execute(study, out, doer, store, quiet)


def _plain(spec: dict[str, Any]) -> Any:
    """What JSON makes of a specification."""
    return json.loads(json.dumps(spec))


def trust_if_ours(spec: dict[str, Any]) -> bool:
    """Whether this user made a study's specification; only then are its modules imported."""
    ours = trust.is_ours(spec.get("id"), {name: value for name, value in spec.items() if name != "id"})
    if ours:
        trust.trust_named(*trust.names_in(spec.get("asked")))
    return ours


def resume_study(study: Study[R], out: Path, where: ExecutionOptions, store: Place | None, quiet: bool = True) -> R:
    """Continue a study in its directory from its finished jobs."""
    return _execute(study, out, executor(where.on, where.workers), where.store or store, quiet)


def _execute(study: Study[R], out: Path, doer: Executor, store: Place | None, quiet: bool) -> R:
    try:
        with _ending_on_request(), _timed(out):
            answer, outcomes = _drive(study, out, doer, Store(Path(store) if store else out / "store"), quiet)
            _keep_time(out, replace(time_of(out), work=sum(outcome.seconds for outcome in outcomes.values())))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {quote(str(out))}` continues from the finished jobs") from None
    finally:
        doer.close()
    write_json(out / RESULT, answer.as_dict())
    answer = _placed(answer, out)
    study.present(answer, outcomes, out)
    return answer


def _placed(answer: R, out: Path) -> R:
    return replace(answer, run=str(out), page=str(out / "page.html"))


def read_result(kind: type[Study[R]], out: Path) -> StudyResult:
    """The answer of a finished study, from its directory."""
    file = out / RESULT
    if not file.is_file():
        raise RunError(f"{out} is not finished; `trimtab resume {quote(str(out))}` completes it")
    entry = reading.read_json_object(file)
    with reading.interpreting(file):
        return _placed(kind.result.from_dict(entry), out)


@contextmanager
def _timed(out: Path) -> Iterator[None]:
    """Seconds on the clock are added to those of earlier attempts, however this one ends."""
    before, start = time_of(out).clock, time.monotonic()
    try:
        yield
    finally:
        _keep_time(out, replace(time_of(out), clock=round(before + time.monotonic() - start, 1)))


def _keep_time(out: Path, taken: StudyTime) -> None:
    write_json(out / TIME, to_json(taken))


def time_of(out: Path) -> StudyTime:
    """The time that a study took so far."""
    file = out / TIME
    try:
        times = reading.read_json_object(file) if file.exists() else {}
    except UnreadableFile as error:
        reading.report(f"{error}; the time of earlier attempts is not counted")
        times = {}
    return StudyTime(**{n: float(t) for n in ("work", "clock") if isinstance(t := times.get(n), int | float)})


@contextmanager
def _ending_on_request() -> Iterator[None]:
    """SIGTERM raises an exception in this process, so that it also ends the processes that it started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _drive(study: Study[R], out: Path, doer: Executor, store: Store, quiet: bool = True) -> tuple[R, Outcomes]:
    """Run the rounds of a study with `doer` and return its answer; finished jobs come from and go to `store`."""
    outcomes, work = Outcomes(), study.work(out)
    with _Display(study, quiet) as display:
        try:
            jobs = next(work)
            while True:
                new_jobs = [job for job in jobs if job.identity not in outcomes]
                display.expect(new_jobs)
                came = {}
                for outcome in doer.run(new_jobs, store, display.tick):
                    came[outcome.job.identity] = outcome
                    display.settle(outcome)
                # In the order of the request: an answer must not depend on which job finishes first.
                outcomes.update((i, came[i]) for i in Queue(new_jobs).waiting if i in came)
                jobs = work.send(outcomes)
        except StopIteration as end:
            return end.value, outcomes


class _Display:
    """One progress bar for all jobs of a study, in environment steps, with the remaining time."""

    def __init__(self, study: Study[Any], quiet: bool):
        self.expected, self.jobs, self.settled = study.expected_steps(), dict[str, Job](), 0
        self.done: dict[str, int] = {}
        self.bar = Progress(max(self.expected, 1), study.title, quiet)

    def __enter__(self) -> _Display:
        self.bar.__enter__()
        self.bar.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.bar.__exit__(*raised)

    def expect(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.expect(job.needs)
            self.jobs.setdefault(job.identity, job)
        self.bar.total = max(self.expected, sum(job.steps for job in self.jobs.values()))

    def tick(self, job: Job, steps: int) -> None:
        self.done[job.identity] = steps
        now = [str(j) for i, j in self.jobs.items() if 0 < self.done.get(i, 0) < j.steps]
        note = f"{self.settled}/{len(self.jobs)} jobs, now {', '.join(now[:2]) or 'starting'},"
        self.bar.count(sum(self.done.values()), self.bar.total, note)

    def settle(self, outcome: Outcome) -> None:
        self.jobs.setdefault(outcome.job.identity, outcome.job)
        self.settled += 1
        self.tick(outcome.job, outcome.job.steps)
