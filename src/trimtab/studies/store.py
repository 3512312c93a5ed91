"""The store of jobs and their outcomes: a directory per job, named by its label and its identity.

    STORE/train-CartPole-v1-ppo-8x128-seed-1-0f3a9c2b/     the run, or what else the job wrote
        job.json        the job
        outcome.json    its outcome, written last: a job with an outcome is done

Several studies may share a store, also at the same time: a process that runs a job holds its lock, and others wait for
the outcome.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.core import reading
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.core.writing import write_json, write_json_with_digest
from trimtab.studies.job import Job

OUTCOME = "outcome.json"


@dataclass(frozen=True)
class Outcome:
    """The result of a job as plain values, or the reason for its failure."""

    job: Job
    path: Path
    result: dict[str, Any]
    seconds: float = 0.0
    error: str | None = None

    @property
    def done(self) -> bool:
        return self.error is None


def _differing(before: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Entries of both that differ: name, before, now."""
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differing(old, new)
        elif old != new:
            yield name, old, new


class Store:
    """Finished jobs by identity."""

    def __init__(self, path: Path):
        self.path = Path(path)

    def place(self, job: Job) -> Path:
        """The job's directory."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", str(job)).strip("-")
        return self.path / f"{words}-{job.identity[:8]}"

    def outcome(self, job: Job) -> Outcome | None:
        """The outcome of a job, if it is done."""
        place = self.place(job)
        if not os.path.lexists(place / OUTCOME):
            return None
        try:
            record = reading.read_json_object(place / OUTCOME)
        except UnreadableFile as error:
            reading.report(f"{error}; the job runs again")
            return None
        result, seconds = record.get("result"), record.get("seconds")
        if record.get("identity") != job.identity:
            return None
        if not isinstance(result, dict) or not isinstance(seconds, int | float):
            reading.report(f"{place / OUTCOME} is damaged; the job runs again")
            return None
        self._refuse_other_defaults(job, place)
        return Outcome(job, place, result, float(seconds))

    def _refuse_other_defaults(self, job: Job, place: Path) -> None:
        """Refuse a job that ran with other defaults: its identity, which leaves defaults out, cannot tell."""
        try:
            before = reading.read_json_object(place / "job.json")
        except UnreadableFile as error:
            reading.report(f"{error}; cannot check that the job used the same defaults")
            return
        now = json.loads(json.dumps(job.as_dict()))
        for name, old, new in _differing(before, now):
            raise RunError(
                f"{place} was made with {name} {old}, the default at that time; the default is now {new}: "
                "use another --store"
            )

    def keep(self, job: Job, result: dict[str, Any], seconds: float) -> Outcome:
        """Write a job's outcome, which makes it done."""
        place = self.place(job)
        write_json(place / "job.json", job.as_dict())
        record = {"identity": job.identity, "label": str(job), "seconds": round(seconds, 3), "result": result}
        write_json_with_digest(place / OUTCOME, record)
        return Outcome(job, place, result, seconds)

    @contextmanager
    def doing(self, job: Job) -> Iterator[None]:
        """Lock a job, after waiting for a process that runs it. The lock ends with the process."""
        place = self.place(job)
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place.parent / f".{place.name}.lock", "a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.2)
            yield
