"""What `trimtab view` costs: `python -m benchmarks.view`. Writes docs/results/view.{json,md}.

A directory of 500 runs of a million steps (one that was trained, and copies of it under other seeds) opened in a
headless Chromium, the server just started; and the speed of a training run in that directory, in turns of some seconds
in which nobody looks and in which a browser loads the page again and again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from trimtab.math.stats import mean_interval
from trimtab.training.device import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
sys.path.insert(0, str(ROOT / "tests"))
from show.browser import Browser  # noqa: E402  the browser that the tests drive

RUNS, STEPS = 500, 1_000_000
RELOADS, TURNS, SECONDS = 50, 5, 25.0  # loads in all; turns of each kind, and how long each takes
LIVE = 2_000_000_000  # steps of the run that is watched, which nobody waits for
READY = "document.documentElement.dataset.ready === '1'"
# Set down by the page itself, in milliseconds since it was asked for: its first row, and all that is shown first.
MARKS = """
window.marks = {};
new MutationObserver(() => {
  if (document.querySelector('#runs .run')) marks.list ??= performance.now();
  if (document.documentElement.dataset.ready) marks.ready ??= performance.now();
}).observe(document, {subtree: true, childList: true, attributes: true});
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "trimtab.cli", *words]


def train(path: Path, *words: str) -> list[str]:
    return command("train", "CartPole-v1", "--run-dir", str(path), "--quiet", *words)


def directory(root: Path) -> None:
    """500 runs: one trained, the others copies of it with other seeds; checkpoints are links, to spare the disk."""
    first = root / "run-000"
    subprocess.run(train(first, "--total-timesteps", str(STEPS)), check=True, stdout=subprocess.DEVNULL)
    config = (first / "config.yaml").read_text()
    for k in range(1, RUNS):
        path = root / f"run-{k:03d}"
        shutil.copytree(first, path, copy_function=_copied)
        (path / "config.yaml").write_text(config.replace("seed: 1\n", f"seed: {k + 1}\n"))


def _copied(source: str, target: str) -> None:
    (os.link if "/checkpoints/" in source else shutil.copy2)(source, target)


@contextmanager
def viewing(root: Path) -> Iterator[tuple[str, int]]:
    """The address and process of a server of a directory."""
    server = subprocess.Popen(command("view", str(root), "--port", "0"), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        yield server.stdout.readline().split()[0], server.pid
    finally:
        server.terminate()
        server.wait(20)


def memory(process: int) -> float:
    """The most memory a process has held, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


def processor(process: int) -> float:
    """Seconds of processor a process has used."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def first_look(browser: Browser, root: Path) -> dict[str, float]:
    """Milliseconds until the page is painted, lists its runs and shows all of its first curves; memory then and after
    every curve of every run was asked for."""
    with viewing(root) as (address, server):
        browser.open(address, 1280, READY)
        marks = browser.run("JSON.stringify({paint: " + PAINT + ", ...marks})")
        found = {**json.loads(marks), "memory": memory(server), "heap": _heap(browser)}
        browser.run(
            "window.asked = 0;"
            "(async () => { for (const run of state.runs) { await ask(curveUrl(run.id)); asked++; } })()"
        )
        browser.eventually("asked === state.runs.length", patience=120)
        return found | {"memory_all": memory(server), "heap_all": _heap(browser)}


def _heap(browser: Browser) -> float:
    browser.call("HeapProfiler.collectGarbage")
    return browser.run("performance.memory.usedJSHeapSize") / 1e6


class Pace:
    """Steps of a run by the clock, from its own records."""

    def __init__(self, path: Path):
        self.log, self.behind = path / "metrics.jsonl", float("inf")

    def look(self) -> int:
        """Rows so far; the record that is read soonest after it was written tells when the run began."""
        rows = self.log.read_bytes().splitlines() if self.log.exists() else []
        if rows:
            self.behind = min(self.behind, time.monotonic() - json.loads(rows[-1])["time/elapsed"])
        return len(rows)

    def between(self, begin: float, end: float) -> float:
        """Steps per second between two times."""
        rows = [json.loads(line) for line in self.log.read_bytes().splitlines()]
        at = [self.behind + row["time/elapsed"] for row in rows]
        first, last = np.interp([begin, end], at, [row["time/total_timesteps"] for row in rows])
        return float((last - first) / (end - begin))


def cost(browser: Browser, root: Path) -> dict[str, Any]:
    """The speed of one run, alone and while the page is loaded again and again, in turns."""
    path = root / "live"
    pace, turns, loaded = Pace(path), [], []
    process = subprocess.Popen(train(path, "--total-timesteps", str(LIVE), "--checkpoints", "1000"))
    try:
        with viewing(root) as (address, server):
            while pace.look() < 100:
                time.sleep(0.02)
            before = processor(server)
            for k in range(2 * TURNS):
                begun = time.monotonic()
                browser.call("Page.navigate", url="about:blank")
                for load in range(RELOADS // TURNS if k % 2 else 0):
                    browser.open(address, 1280, READY)
                    loaded.append(browser.run("marks.ready"))
                    time.sleep(max(0.0, begun + (load + 1) * SECONDS * TURNS / RELOADS - time.monotonic()))
                while time.monotonic() < begun + SECONDS:
                    pace.look()
                    time.sleep(0.2)
                turns.append((begun, time.monotonic()))
            used = (processor(server) - before) / RELOADS
        time.sleep(3)
        assert process.poll() is None
        speeds = [pace.between(*turn) for turn in turns]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        shutil.rmtree(path)
    alone, beside = speeds[::2], speeds[1::2]
    ratios = [a / b - 1 for a, b in zip(alone, beside)]
    return {"alone": alone, "beside": beside, "ratios": ratios, "server_per_load": used, "ready": loaded}


def page(result: dict[str, Any]) -> str:
    where, looks, cost = result["machine"], result["looks"], result["cost"]
    middle = lambda name: median(look[name] for look in looks)
    estimate = mean_interval(cost["ratios"])
    lines = [
        "# What `trimtab view` costs",
        "",
        f"Made by `{result['command']}` on {where['processor']}, {where['cores']} cores, nothing beside it.",
        "",
        f"{RUNS} runs of a million steps each, a server that has just been started, headless Chromium at 1280 pixels "
        f"(medians of {len(looks)}):",
        "",
        "| | |",
        "|---|---|",
        f"| first paint | {middle('paint') / 1e3:.2f} s |",
        f"| the list of runs is there | {middle('list') / 1e3:.2f} s |",
        f"| curves, findings and differences of the first three are there | {middle('ready') / 1e3:.2f} s |",
        f"| memory of the server then, at most | {middle('memory'):.0f} MB |",
        f"| after the curves of all {RUNS} have been asked for | {middle('memory_all'):.0f} MB |",
        f"| memory of the page (JavaScript), then and after | {middle('heap'):.0f} MB, {middle('heap_all'):.0f} MB |",
        "",
        f"A run of CartPole-v1 in that directory takes {100 * estimate.value:+.1f}% longer for a step "
        f"[{100 * estimate.lo:+.1f}%, {100 * estimate.hi:+.1f}%] while a browser on the same machine loads the page "
        f"{RELOADS} times ({TURNS} turns of {SECONDS:.0f} s each; {mean(cost['alone']):,.0f} steps/s alone, "
        f"{mean(cost['beside']):,.0f} beside). A load takes {median(cost['ready']) / 1e3:.2f} s until everything is "
        f"there, and {cost['server_per_load']:.2f} s of one core in the server. The run uses one core and the browser "
        "the other; where runs fill every core, the browser takes its time from them.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="make the directory of runs here, or use the one that is here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.keep or Path(folder) / "runs"
        if not (root / f"run-{RUNS - 1:03d}").exists():
            directory(root)
        for stray in root.glob("live*"):  # of a turn that was interrupted
            shutil.rmtree(stray)
        with Browser(Path(folder) / "profile") as browser:
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=MARKS)
            looks = [first_look(browser, root) for _ in range(given.looks)]
            print(json.dumps(looks[-1]), flush=True)
            result = {
                "command": "python -m benchmarks.view",
                "machine": machine(),
                "looks": looks,
                "cost": cost(browser, root),
            }
    (RESULTS / "view.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "view.md").write_text(page(result))


if __name__ == "__main__":
    main()
