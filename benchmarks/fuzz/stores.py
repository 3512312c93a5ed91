"""Studies under load: two on one store with ten workers, one of 5,000 jobs, and one whose process is killed."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.fuzz.jobs import DONE, Square, Squares
from benchmarks.fuzz.ledger import ROOT, Cases, Tally
from trimtab.core import trust
from trimtab.studies.local_workers import Local
from trimtab.studies.store import Store
from trimtab.studies.study_engine import ExecutionOptions, resume_study, run_study

JOBS, WORKERS, MANY = 200, 10, 5_000


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run_shared(cases: Cases, tally: Tally) -> None:
    """Two processes with five workers each do the same 200 jobs: all are there, none was done twice."""
    for case, rng in cases:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", "benchmarks.fuzz.stores", folder, str(JOBS), str(WORKERS // 2)]
            begin = time.monotonic()
            both = [
                subprocess.Popen([*words, str(rng.random())], stdout=subprocess.PIPE, env=_environment(), cwd=ROOT)
                for _ in range(2)
            ]
            sums = [json.loads(process.communicate(timeout=1200)[0] or "null") for process in both]
            expected = sum(number**2 for number in range(JOBS))
            done = Counter(Path(folder, DONE).read_text().split())
            if sums != [expected, expected] or set(done.values()) != {1} or len(done) != JOBS:
                tally.problem(
                    case, f"sums {sums} for {expected}; {len(done)} jobs done, {max(done.values())} times at most"
                )
            tally.counts["jobs that two studies shared"] += len(done)
            tally.counts["jobs lost"] += JOBS - len(done)
            tally.counts["jobs done twice"] += sum(count > 1 for count in done.values())
            tally.measures["200 shared jobs, 2 studies × 5 workers"] = f"{time.monotonic() - begin:.0f} s"


def _work(store: Path, jobs: int, workers: int, seed: str) -> None:
    trust.trust("benchmarks.fuzz.jobs")
    order = list(range(jobs))
    random.Random(seed).shuffle(order)
    doer = Local(workers)
    try:
        outcomes = list(doer.run([Square(number, 0.02) for number in order], Store(store)))
    finally:
        doer.close()
    print(sum(outcome.result["square"] for outcome in outcomes), flush=True)


def run_many(cases: Cases, tally: Tally) -> None:
    """A study of 5,000 jobs, in this process, and again from its store."""
    trust.trust("benchmarks.fuzz.jobs")
    for case, _ in cases:
        with tempfile.TemporaryDirectory() as folder:
            study, out, inline = Squares(MANY), Path(folder) / "study", ExecutionOptions(on="inline")
            before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
            answer = run_study(study, out, inline)
            took, begin = time.monotonic() - begin, time.monotonic()
            again = resume_study(study, out, inline, None)
            repeated = time.monotonic() - begin
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
            expected = sum(number**2 for number in range(MANY))
            done = Counter((out / "store" / DONE).read_text().split())
            if answer.sum != expected or again.sum != expected or len(done) != MANY or set(done.values()) != {1}:
                tally.problem(case, f"sum {answer.sum} for {expected}, {len(done)} jobs of {MANY}")
            tally.counts["jobs of studies of 5,000"] += len(done)
            tally.measures["5,000 jobs"] = (
                f"{took:.0f} s; again from the store {repeated:.0f} s; {grown:.0f} MB more memory"
            )


def run_killed(cases: Cases, tally: Tally) -> None:
    """The process of a study with local workers is killed and started again until it ends."""
    for case, rng in cases:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", "benchmarks.fuzz.stores", folder, "40", "2", "1"]
            for _ in range(3):
                process = subprocess.Popen(
                    words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment(), cwd=ROOT
                )
                try:
                    process.wait(rng.uniform(1.5, 6))
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    tally.counts["kills of a study's process"] += 1
            done = subprocess.run(words, capture_output=True, text=True, env=_environment(), cwd=ROOT, timeout=600)
            if done.stdout.strip() != str(sum(number**2 for number in range(40))):
                tally.problem(case, f"after the kills the study gives {done.stdout!r}: {done.stderr[-300:]}")


if __name__ == "__main__":
    _work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
