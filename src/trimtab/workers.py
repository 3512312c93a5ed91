"""Several `trimtab` commands at once, one per core, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trimtab.records import RunError


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Task:
    """One command line after `trimtab`, and the tasks (by name) that must be done before it starts."""

    name: str
    argv: list[str]
    after: tuple[str, ...] = field(default=())


def run_all(
    tasks: list[Task],
    at_once: int | None = None,
    tick: Callable[[set[str], set[str]], None] = lambda done, running: None,
) -> dict[str, str]:
    """Standard output of every task by name. The first failure ends the others and is raised in its own words."""
    at_once = max(1, min(at_once or cores(), len(tasks)))
    environment = os.environ | {"NPROC": os.environ.get("NPROC", str(max(1, cores() // at_once)))}
    waiting, running, outputs = list(tasks), {}, {}
    try:
        while waiting or running:
            for task in [t for t in waiting if set(t.after) <= outputs.keys()][: at_once - len(running)]:
                waiting.remove(task)
                running[task.name] = subprocess.Popen(
                    [sys.executable, "-m", "trimtab.cli", *task.argv],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            time.sleep(0.05)
            for name, process in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    outputs[name] = _output(name, process)
            tick(set(outputs), set(running))
    finally:
        for process in running.values():
            process.terminate()
    return outputs


def _output(name: str, process: subprocess.Popen) -> str:
    out, err = process.communicate()
    if process.returncode != 0:
        last = (err.strip().splitlines() or ["no message"])[-1].removeprefix("trimtab: ")
        raise RunError(f"{name} failed: {last}")
    return out
