"""What the tools counted, added up over invocations: docs/results/robustness.json, and the page made from it."""

from __future__ import annotations

import fcntl
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.core.writing import write_json
from trimtab.training.device import machine

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "results" / "robustness.json"
MOST_PROBLEMS = 100  # kept of each tool; the others are only counted
HASH = 8  # hexadecimal digits that a member of a set is kept by


@dataclass
class Tally:
    """What one invocation of a tool found.

    Args:
        counts: how often each thing was done; they add up over invocations.
        problems: (case, what went wrong); a problem stays open until the case is repeated without it.
        members: sets whose size is reported, such as shapes of configurations, by hashes.
        measures: the latest numbers of a measurement, by name.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    members: dict[str, set[str]] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)

    def problem(self, case: str, what: str) -> None:
        """Note what went wrong in a case."""
        self.counts["problems"] += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append((case, what[:400]))
        print(f"PROBLEM {case}: {what[:2000]}", flush=True)


@dataclass
class Cases:
    """The numbers of the cases to do: `count` of them, or as many as `seconds` allow, whichever ends first."""

    tool: str
    seed: int
    count: int
    seconds: float
    first: int = 0
    begun: float = field(default_factory=time.monotonic)

    def __iter__(self) -> Iterator[tuple[str, random.Random]]:
        for number in range(self.first, self.first + self.count):
            if time.monotonic() - self.begun > self.seconds:
                return
            yield f"{self.seed}:{number}", self.generator(number)

    def generator(self, number: int) -> random.Random:
        """The randomness of one case."""
        return random.Random(f"{self.tool} {self.seed} {number}")


Tool = Callable[[Cases, Tally], None]


@contextmanager
def _record(path: Path) -> Iterator[dict[str, Any]]:
    """The record, to be changed; written when the block ends. One process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        values = json.loads(path.read_text()) if path.exists() else {"tools": {}}
        yield values
        write_json(path, values)


def next_seed(tool: str, path: Path = RECORD) -> int:
    """A seed that no invocation on record has used."""
    if not path.exists():
        return 1
    invocations = json.loads(path.read_text())["tools"].get(tool, {}).get("invocations", [])
    return max((invocation["seeds"][1] for invocation in invocations), default=0) + 1


def add(tool: str, cases: Cases, tally: Tally, path: Path = RECORD) -> None:
    """Add an invocation to the record. Those of one commit, machine and day are one entry."""
    with _record(path) as values:
        entry = values["tools"].setdefault(
            tool, {"counts": {}, "problems": [], "members": {}, "measures": {}, "invocations": []}
        )
        entry["counts"] = dict(Counter(entry["counts"]) + tally.counts)
        entry["measures"] |= tally.measures
        for name, members in tally.members.items():
            known = entry["members"].get(name, "")
            split = {known[k : k + HASH] for k in range(0, len(known), HASH)}
            entry["members"][name] = "".join(sorted(split | members))
        entry["problems"] += [{"case": case, "commit": commit(), "what": what} for case, what in tally.problems]
        entry["problems"] = entry["problems"][-MOST_PROBLEMS:]
        _add_invocation(entry["invocations"], cases, tally)


def _add_invocation(invocations: list[dict[str, Any]], cases: Cases, tally: Tally) -> None:
    made = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "machine": machine()}
    seconds, counts = round(time.monotonic() - cases.begun, 1), dict(tally.counts)
    last = invocations[-1] if invocations else {}
    if {name: last.get(name) for name in made} == made and cases.seed in (last["seeds"][1], last["seeds"][1] + 1):
        last["seeds"] = [last["seeds"][0], cases.seed]
        last["seconds"] = round(last["seconds"] + seconds, 1)
        last["counts"] = dict(Counter(last["counts"]) + tally.counts)
    else:
        invocations.append(made | {"seeds": [cases.seed, cases.seed], "seconds": seconds, "counts": counts})


def settle(tool: str, is_open: Callable[[str], bool], path: Path = RECORD) -> int:
    """Repeat the cases of open problems and drop those that do not go wrong any more; returns how many are left."""
    problems = json.loads(path.read_text())["tools"].get(tool, {}).get("problems", []) if path.exists() else []
    left = {case for case in {problem["case"] for problem in problems} if is_open(case)}
    with _record(path) as values:
        if tool in values["tools"]:
            entry = values["tools"][tool]
            entry["problems"] = [problem for problem in entry["problems"] if problem["case"] in left]
    return len(left)


def commit() -> str:
    """The commit of this tree."""
    done = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
