"""Where jobs are done: in this process, in warm worker processes on this machine, or on a Ray cluster.

`run` yields outcomes as they come. A job starts when the jobs it needs are done; a job that fails is reported and takes
nothing with it but what needs it. What the store has already is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from trimtab.config import ConfigError
from trimtab.studies.job import Job
from trimtab.studies.store import Outcome, Store
from trimtab.studies.worker import Workshop, words_of
from trimtab.training.device import cores

Tick = Callable[[Job, int], None]  # told a job and how many environment steps of it are done
PLACES = ("local", "inline", "ray")


class Executor(Protocol):
    """A place where jobs are done."""

    workers: int

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        """Outcomes of all jobs and of those they need, each once, as they come."""
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
    """Jobs still to be done, in order, given out when what they need is there."""

    def __init__(self, jobs: Iterable[Job]):
        self.waiting: dict[str, Job] = {}
        self.outcomes: dict[str, Outcome] = {}
        for job in jobs:
            self._add(job)

    def _add(self, job: Job) -> None:
        for need in job.needs:
            self._add(need)
        self.waiting.setdefault(job.identity, job)

    def settle(self, outcome: Outcome) -> Outcome:
        self.outcomes[outcome.job.identity] = outcome
        return outcome

    def kept(self, store: Store) -> Iterator[Outcome]:
        """Outcomes that the store has."""
        for identity, job in list(self.waiting.items()):
            if (outcome := store.outcome(job)) is not None:
                del self.waiting[identity]
                yield self.settle(outcome)

    def hopeless(self, store: Store) -> Iterator[Outcome]:
        """Outcomes of jobs whose needs failed."""
        for identity, job in list(self.waiting.items()):
            failed = next((o for n in job.needs if (o := self.outcomes.get(n.identity)) and not o.done), None)
            if failed is not None:
                del self.waiting[identity]
                why = f"needs {failed.job}, which failed: {failed.error}"
                yield self.settle(Outcome(job, store.place(job), {}, error=why))

    def ready(self, count: int, under_way: Iterable[Job] = ()) -> list[Job]:
        """Jobs that can start now, until they have `count` devices together; they leave the queue.

        Shapes that are under way come last: what one worker compiles another then finds compiled.
        """
        chosen: list[Job] = []
        later: list[Job] = []
        shapes = {job.shape for job in under_way} - {None}
        full = lambda: sum(job.devices for job in chosen) >= count
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


class Inline:
    """In this process, one after another: for tests and debugging."""

    workers = 1

    def __init__(self) -> None:
        self._workshop = Workshop()

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        queue = Queue(jobs)
        yield from queue.kept(store)
        while queue.waiting:
            yield from queue.hopeless(store)
            for job in queue.ready(1):
                try:
                    outcome = self._workshop.do(job, store, partial(tick, job))
                except Exception as error:
                    outcome = Outcome(job, store.place(job), {}, error=words_of(error))
                yield queue.settle(outcome)

    def close(self) -> None:
        pass
