"""What a user waits for before and between runs: `python -m benchmarks.startup [--against CHECKOUT] [--long split]`.

Phases from a new process to the first iteration of CartPole-v1 with a warm compilation cache, in turns with another
checkout of this library; the overhead of a job in a warm worker; with --long also `tune`, `split --quick` or the demo
as commands, before and after, with what they answered. Writes docs/results/startup.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from trimtab.training.device import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
TURNS = 5
PHASES = ("imports", "building", "initialising", "tracing and loading", "first iteration")

CHILD = """
import json, time
marks = [time.perf_counter()]
mark = lambda: marks.append(time.perf_counter())
try:
    from trimtab.training import device
    from trimtab.training.engine_setup import build_engine_checked
except ImportError:  # a version before the rooms
    from trimtab.runs import device
    from trimtab.runs.opening import fitting as build_engine_checked
from trimtab import config, presets
import trimtab
device.prepare(1)
import jax; jax.devices()
mark()
values = {"env_id": "CartPole-v1", "num_envs": 4, "num_steps": 128, "hidden_sizes": [64, 64]}
engine = build_engine_checked(config.from_dict(values)); mark()
state = engine.init(1); jax.block_until_ready(jax.tree.leaves(state.params)); mark()
engine.compile(state); mark()
state, wait = engine.launch(state, 1); wait(); mark()
print(json.dumps([b - a for a, b in zip(marks, marks[1:])]))
"""

COMMANDS = {  # what is typed, and what Python is given for it
    "tune": ("trimtab tune CartPole-v1", "trimtab.cli tune CartPole-v1 --run-dir runs/study"),
    "split": (
        "trimtab split Pendulum-v1 --batch 1024 --quick",
        "trimtab.cli split Pendulum-v1 --batch 1024 --quick --run-dir runs/study",
    ),
    "demo": ("make demo", "benchmarks.demo"),
}


def phases(checkout: Path) -> list[float]:
    """Seconds of each phase in a new process of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "NPROC": "1"}
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(checkouts: dict[str, Path]) -> dict[str, Any]:
    """Medians over turns, after one that warms the cache."""
    found: dict[str, list[list[float]]] = {name: [] for name in checkouts}
    for turn in range(TURNS + 1):
        for name, checkout in checkouts.items():
            seconds = phases(checkout)
            if turn:
                found[name].append(seconds)
    return {
        name: dict(zip(PHASES, (round(median(column), 3) for column in zip(*turns))))
        | {"together": round(median(map(sum, turns)), 3)}
        for name, turns in found.items()
    }


def warm_overhead(jobs: int = 6) -> dict[str, float]:
    """Seconds that a job of a known shape takes in a warm worker beyond its own training."""
    from trimtab import presets
    from trimtab.studies.job import Train
    from trimtab.studies.local_workers import Local
    from trimtab.studies.store import Store

    config = presets.layered({"env_id": "CartPole-v1", "total_timesteps": 20_480, "num_envs": 4, "num_steps": 128})
    local = Local(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asked = [Train(config.replace(seed=s, learning_rate=1e-4 * s), checkpoints=1) for s in range(1, jobs + 1)]
            began, over = time.perf_counter(), []
            for outcome in local.run(asked, Store(Path(folder))):
                now = time.perf_counter()
                begin, end = outcome.result["interval"]
                over.append(now - began - (end - begin))
                began = now
    finally:
        local.close()
    return {"first job": round(over[0], 3), "later jobs": round(median(over[1:]), 3)}


def commands(checkouts: dict[str, Path], asked: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Seconds of whole commands and what they answer, before and after, compilation caches warm."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for command, words in (COMMANDS[name] for name in asked):
        for name, checkout in checkouts.items():
            environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
            for _ in range(2):  # the first warms the cache
                with tempfile.TemporaryDirectory() as folder:
                    begun = time.perf_counter()
                    argv = [sys.executable, "-m", *words.split(), "--quiet"]
                    subprocess.run(argv, capture_output=True, env=environment, cwd=folder, check=True)
                    seconds = round(time.perf_counter() - begun, 1)
                    (written,) = Path(folder).glob("runs/*/result.json")
                    answer = json.loads(written.read_text())["sentence"]
                    turns = found.setdefault(command, {}).setdefault(name, {"answers": []})
                    turns["seconds"] = seconds
                    turns["answers"] += [answer] if answer not in turns["answers"] else []
                    print(command, name, seconds, answer, flush=True)
    return found


def page(result: dict[str, Any]) -> str:
    where, names = result["machine"], list(result["phases"])
    lines = [
        "# What one waits for",
        "",
        f"Made by `{result['command']}` on {where['processor']}, {where['cores']} cores, nothing beside it. Seconds.",
        "",
        f"From a new process to the first iteration of CartPole-v1, compilation cache warm (medians of {TURNS} turns):",
        "",
        "| | " + " | ".join([*PHASES, "together"]) + " |",
        "|---|" + "---|" * (len(PHASES) + 1),
        *(
            f"| {name} | "
            + " | ".join(f"{result['phases'][name][phase]:.2f}" for phase in [*PHASES, "together"])
            + " |"
            for name in names
        ),
        "",
        f"A job in a warm worker takes {result['warm']['later jobs']:.2f} s beyond its own training where its shape is "
        f"known ({result['warm']['first job']:.1f} s for the first job of the worker).",
        "",
    ]
    if result.get("commands"):
        lines += ["| command | " + " | ".join(names) + " | ratio |", "|---|" + "---|" * (len(names) + 1)]
        for command, turns in result["commands"].items():
            values = [turns[name]["seconds"] for name in names]
            lines.append(
                f"| `{command}` | " + " | ".join(f"{v:.1f}" for v in values) + f" | {values[0] / values[-1]:.1f} |"
            )
        lines += ["", "What they answered, in runs with the same seed (once, where all said the same):", ""]
        for command, turns in result["commands"].items():
            lines += [f"- `{command}`"]
            lines += [f"    - {name}: {answer}" for name in names for answer in turns[name]["answers"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of this library, measured in turns")
    parser.add_argument("--long", nargs="+", choices=COMMANDS, default=[], help="also whole commands")
    given = parser.parse_args()
    checkouts = ({"before": given.against} if given.against else {}) | {"now": ROOT}
    long = f" --long {' '.join(given.long)}" if given.long else ""
    result = {
        "command": f"python -m benchmarks.startup --against CHECKOUT{long}",
        "machine": machine(),
        "phases": in_turns(checkouts),
        "warm": warm_overhead(),
    }
    if given.long:
        result["commands"] = commands(checkouts, given.long)
    (RESULTS / "startup.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "startup.md").write_text(page(result))


if __name__ == "__main__":
    main()
