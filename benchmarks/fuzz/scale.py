"""What grows: memory over very many iterations, and `trimtab view` over thousands of runs."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.fuzz import corpus
from benchmarks.fuzz.ledger import ROOT, Cases, Tally

ITERATIONS = 1_000_000
CHUNK = 20_000  # iterations between two looks at memory
GROWTH = 0.02  # of memory, from a tenth of the way to the end
RUNS, SECONDS = 5_000, 2.0


def run_memory(cases: Cases, tally: Tally) -> None:
    """Train for a million iterations of two samples; memory stays within 2%."""
    for case, _ in cases:
        with tempfile.TemporaryDirectory() as folder:
            words = ["train", "FrozenLake-v1", "--preset", "none", "--num-envs", "1", "--num-steps", "2"]
            words += ["--total-timesteps", str(2 * ITERATIONS), "--hidden-sizes", "2", "--num-minibatches", "1"]
            words += ["--update-epochs", "1", "--eval-every", "0", "--checkpoints", "2", "--quiet", "--run-dir", "run"]
            environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
            process = subprocess.Popen(
                [sys.executable, "-m", "trimtab", *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL
            )
            seen: list[tuple[int, float]] = []  # size of the log, memory
            while process.poll() is None and time.monotonic() - cases.begun < cases.seconds:
                time.sleep(2)
                log = Path(folder, "run", "metrics.jsonl")
                if log.exists() and log.stat().st_size:
                    seen.append((log.stat().st_size, _memory(process.pid)))
            ended = process.poll()
            process.kill()
            process.wait()
            _judge(case, ended, seen, Path(folder, "run", "metrics.jsonl"), tally)


def _judge(case: str, ended: int | None, seen: list[tuple[int, float]], log: Path, tally: Tally) -> None:
    with open(log, "rb") as file:
        iterations = sum(1 for _ in file)
    sizes = [size for size, _ in seen]
    later = [memory for size, memory in seen if memory and size > sizes[-1] / 10]
    if not later:
        return
    growth = max(later) / later[0] - 1
    tally.counts["iterations of one run"] += iterations
    tally.measures["memory"] = (
        f"{later[0]:.0f} MB after a tenth of {iterations:,} iterations, at most {growth:+.1%} later"
    )
    if growth > GROWTH and iterations > ITERATIONS / 20:
        tally.problem(case, f"memory grows by {growth:.1%} over {iterations:,} iterations")
    if ended:
        tally.problem(case, f"the run ended with {ended}")


def _memory(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) / 1000 if found else 0.0


def run_view(cases: Cases, tally: Tally) -> None:
    """The first list of `trimtab view` over 5,000 runs is there within 2 s; then each poll is short."""
    for case, _ in cases:
        with tempfile.TemporaryDirectory() as folder:
            _many_runs(Path(folder))
            environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
            words = [sys.executable, "-m", "trimtab", "view", ".", "--port", "0"]
            process = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
            try:
                port, begun = _port(process), _cpu(process.pid)
                first, count = _asked(port)
                cpu = _cpu(process.pid) - begun
                again = min(_asked(port)[0] for _ in range(3))
            finally:
                process.terminate()
                process.wait()
            tally.counts["lists of 5,000 runs"] += 1
            load = os.getloadavg()[0]
            times = f"first list {first:.1f} s, {cpu:.1f} s of it computing; later {again:.1f} s"
            tally.measures["view of 5,000 runs"] = f"{times} (load of the machine {load:.0f})"
            if count != RUNS:
                tally.problem(case, f"{count} of {RUNS} runs are listed")
            if min(first, cpu) > SECONDS:  # others may use the machine too
                tally.problem(case, f"the first list takes {first:.1f} s, {cpu:.1f} s of them computing")


def _many_runs(root: Path) -> None:
    corpus.make_run(root / "run-0000", 1)
    config = (root / "run-0000" / "config.yaml").read_text()
    for number in range(1, RUNS):
        path = root / f"run-{number:04d}"
        (path / "checkpoints").mkdir(parents=True)
        for name in ("manifest.json", "metrics.jsonl", "evaluations.jsonl"):
            os.link(root / "run-0000" / name, path / name)
        (path / "config.yaml").write_text(config.replace("seed: 1\n", f"seed: {number + 1}\n"))


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("trimtab view ended")


def _asked(port: int) -> tuple[float, int]:
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/api/runs")
    listed = json.loads(connection.getresponse().read())
    connection.close()
    return time.monotonic() - begin, len(listed["runs"])
