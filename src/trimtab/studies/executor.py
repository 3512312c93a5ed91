"""Executors run jobs: in this process, in warm worker processes on this machine, or on a Ray cluster.

`run` yields outcomes as they arrive. A job starts when the jobs it needs have finished. A failed job is reported; only
the jobs that need it are skipped. Jobs whose outcome is in the store do not run again.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from trimtab.config import ConfigError
from trimtab.core.errors import RunError
from trimtab.envs import EnvError
from trimtab.studies.job import Job, JobContext
from trimtab.studies.store import Outcome, Store
from trimtab.training.device import cores
from trimtab.training.engine_cache import EngineCache

Tick = Callable[[Job, int], None]  # called with a job and the environment steps it has done
SECONDS_BETWEEN_TICKS = 0.1
PLACES = ("local", "inline", "ray")


class Executor(Protocol):
    """Runs jobs."""

    workers: int

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        """Outcomes of all jobs and of the jobs they need, each once, as they arrive."""
        ...

    def close(self) -> None: ...


def executor(on: str = "local", workers: int | None = None) -> Executor:
    """The executor of `--on local|inline|ray[:ADDRESS]`."""
    place, _, address = on.partition(":")
    if place not in PLACES or (address and place != "ray"):
        raise ConfigError("on", on, "must be local, inline, ray or ray:ADDRESS")
    if workers is not None and workers < 1:
        raise ConfigError("workers", workers, "must be at least 1; nearest: 1")
    if place == "inline":
        return Inline()
    if place == "local":
        from trimtab.studies.local_workers import Local

        return Local(workers or cores())
    from trimtab.studies.ray_workers import OnRay

    return OnRay(address or None, workers)


class Queue:
    """Waiting jobs, in order; a job is ready when the jobs it needs have finished."""

    def __init__(self, jobs: Iterable[Job]):
        self.waiting: dict[str, Job] = {}
        self.outcomes: dict[str, Outcome] = {}
        self._any_failed = False
        for job in jobs:
            self._add(job)

    def _add(self, job: Job) -> None:
        for need in job.needs:
            self._add(need)
        self.waiting.setdefault(job.identity, job)

    def settle(self, outcome: Outcome) -> Outcome:
        self.outcomes[outcome.job.identity] = outcome
        self._any_failed = self._any_failed or not outcome.done
        return outcome

    def kept(self, store: Store) -> Iterator[Outcome]:
        """Outcomes that the store already has."""
        for identity, job in list(self.waiting.items()):
            if (outcome := store.outcome(job)) is not None:
                del self.waiting[identity]
                yield self.settle(outcome)

    def skip_unrunnable(self, store: Store) -> Iterator[Outcome]:
        """Outcomes of jobs that need a failed job."""
        if not self._any_failed:
            return  # not looked for among thousands of jobs after each of them
        for identity, job in list(self.waiting.items()):
            failed = next((o for n in job.needs if (o := self.outcomes.get(n.identity)) and not o.done), None)
            if failed is not None:
                del self.waiting[identity]
                why = f"needs {failed.job}, which failed: {failed.error}"
                yield self.settle(Outcome(job, store.place(job), {}, error=why))

    def ready(self, count: int, under_way: Iterable[Job] = ()) -> list[Job]:
        """Jobs that can start now, on up to `count` devices together; they leave the queue.

        Jobs whose shape is already running come last: they reuse the programs that another worker compiles.
        """
        chosen: list[Job] = []
        later: list[Job] = []
        shapes = {job.shape for job in under_way} - {None}

        def full() -> bool:
            return sum(job.devices for job in chosen) >= count

        for job in self.waiting.values():
            if full():
                break
            if all(need.identity in self.outcomes for need in job.needs):
                (later if job.shape in shapes else chosen).append(job)
                shapes |= {job.shape} - {None}
        for job in later:
            chosen += [] if full() else [job]
        for job in chosen:
            del self.waiting[job.identity]
        return chosen


class JobRunner:
    """Runs jobs one after another in one process, and keeps JAX, environments and compiled programs between them."""

    def __init__(self) -> None:
        self.engines = EngineCache()

    def do(self, job: Job, store: Store, tick: Callable[[int], None] = lambda steps: None) -> Outcome:
        """A job's outcome: from the store, or from running it."""
        with store.doing(job):
            outcome = store.outcome(job)
            if outcome is not None:
                return outcome
            start = time.perf_counter()
            inputs = {need.identity: store.place(need) for need in job.needs}
            result = job.do(JobContext(store.place(job), inputs, self.engines, tick))
            return store.keep(job, result, time.perf_counter() - start)


def error_summary(error: BaseException) -> str:
    """A failure in one line: the message of a user error; any other error with its type and place."""
    if isinstance(error, ConfigError | EnvError | RunError | OSError):
        return " ".join(str(error).split())
    where = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {message} ({Path(where.filename).name}:{where.lineno})"


def throttled(tell: Callable[[int], None]) -> Callable[[int], None]:
    """`tell`, called at most every tenth of a second."""
    last = 0.0

    def tick(steps: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= SECONDS_BETWEEN_TICKS:
            last = now
            tell(steps)

    return tick


class Inline:
    """Runs jobs in this process, one after another; for tests and debugging."""

    workers = 1

    def __init__(self) -> None:
        self._runner = JobRunner()

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        queue = Queue(jobs)
        yield from queue.kept(store)
        while queue.waiting:
            yield from queue.skip_unrunnable(store)
            for job in queue.ready(1):
                try:
                    outcome = self._runner.do(job, store, partial(tick, job))
                except Exception as error:
                    outcome = Outcome(job, store.place(job), {}, error=error_summary(error))
                yield queue.settle(outcome)

    def close(self) -> None:
        pass
