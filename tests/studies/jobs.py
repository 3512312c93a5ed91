"""Jobs that take no JAX, to see what executors do with them. What is done is counted in a file beside the store."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from trimtab.core.errors import RunError
from trimtab.core.writing import write_json
from trimtab.studies.job import Job, JobContext


def note(context: JobContext, text: str) -> None:
    with open(context.place.parent / "done.log", "a") as file:
        file.write(text + "\n")


@dataclass(frozen=True)
class Wide(Job):
    """Wants a process with several devices."""

    kind: ClassVar[str] = "studies.jobs:Wide"
    number: int
    wanted: int = 2

    steps = 1

    @property
    def threads(self) -> int:
        return 1

    @property
    def devices(self) -> int:
        return self.wanted

    @property
    def label(self) -> str:
        return f"{self.number}"

    def do(self, context: JobContext) -> dict[str, Any]:
        return {"process": os.getpid()}


@dataclass(frozen=True)
class Count(Job):
    """Count to `to`, slowly, with a checkpoint at every number; the result is the sum."""

    kind: ClassVar[str] = "studies.jobs:Count"
    to: int
    pause: float = 0.0
    name: str = ""

    @property
    def steps(self) -> int:
        return self.to

    @property
    def threads(self) -> int:
        return 1

    @property
    def label(self) -> str:
        return f"{self.name or self.to}"

    def do(self, context: JobContext) -> dict[str, Any]:
        import json

        file = context.place / "checkpoint.json"
        done = json.loads(file.read_text()) if file.exists() else {"at": 0, "sum": 0}
        while done["at"] < self.to:
            time.sleep(self.pause)
            done = {"at": done["at"] + 1, "sum": done["sum"] + done["at"] + 1}
            write_json(file, done)
            context.tick(done["at"])
        note(context, f"count {self.label}")
        return {"sum": done["sum"]}


@dataclass(frozen=True)
class Add(Job):
    """The sum of two counts."""

    kind: ClassVar[str] = "studies.jobs:Add"
    a: Count
    b: Count

    steps: ClassVar[int] = 1
    threads: ClassVar[int] = 1

    @property
    def label(self) -> str:
        return f"{self.a.label}+{self.b.label}"

    def do(self, context: JobContext) -> dict[str, Any]:
        import json

        sums = [
            json.loads((context.inputs[j.identity] / "checkpoint.json").read_text())["sum"] for j in (self.a, self.b)
        ]
        note(context, f"add {self.label}")
        return {"sum": sum(sums)}


@dataclass(frozen=True)
class Fail(Job):
    """Fails in its own words."""

    kind: ClassVar[str] = "studies.jobs:Fail"
    words: str = "num_envs: 0 is not positive"
    steps: ClassVar[int] = 1
    threads: ClassVar[int] = 1
    label: ClassVar[str] = "on purpose"

    def do(self, context: JobContext) -> dict[str, Any]:
        raise RunError(self.words)


@dataclass(frozen=True)
class Needy(Job):
    """Needs what fails."""

    kind: ClassVar[str] = "studies.jobs:Needy"
    need: Fail
    steps: ClassVar[int] = 1
    threads: ClassVar[int] = 1
    label: ClassVar[str] = "needy"

    def do(self, context: JobContext) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Die(Job):
    """Takes its process with it, `times` times."""

    kind: ClassVar[str] = "studies.jobs:Die"
    times: int
    steps: ClassVar[int] = 1
    threads: ClassVar[int] = 1
    label: ClassVar[str] = "deadly"

    def do(self, context: JobContext) -> dict[str, Any]:
        marks = Path(context.place.parent / "deaths")
        marks.mkdir(exist_ok=True, parents=True)
        if len(list(marks.iterdir())) < self.times:
            (marks / str(time.time_ns())).touch()
            print("last words", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return {"survived": True}


@dataclass(frozen=True)
class Greedy(Job):
    """Takes all the threads it can get, and says how many."""

    kind: ClassVar[str] = "studies.jobs:Greedy"
    number: int
    steps: ClassVar[int] = 1

    @property
    def label(self) -> str:
        return f"greedy {self.number}"

    def do(self, context: JobContext) -> dict[str, Any]:
        return {"threads": int(os.environ["TRIMTAB_THREADS"])}
