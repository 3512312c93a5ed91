"""Several `trimtab` commands at once, one per core, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trimtab.runs.records import RunDir, RunError, write_atomically

COMMAND = (sys.executable, "-m", "trimtab.cli")


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Task:
    """One command line after `trimtab`, and the tasks (by name) that must be done before it starts."""

    name: str
    argv: list[str]
    after: tuple[str, ...] = field(default=())


def train_task(name: str, config: dict[str, Any], path: Path, configs: Path, checkpoints: int = 1) -> Task:
    """Train a run at `path`, or go on with it where it was begun; its configuration is kept in the folder `configs`."""
    how = ["--checkpoints", str(checkpoints), "--json"]
    if RunDir.began(path):
        return Task(name, ["resume", str(path), *how])
    shutil.rmtree(path, ignore_errors=True)  # a directory that a kill left before it became a run
    file = configs / f"{name.replace(' ', '-')}.yaml"
    write_atomically(file, yaml.safe_dump(config, sort_keys=False).encode())
    return Task(name, ["train", "--config", str(file), "--run-dir", str(path), *how])


def run_all(
    tasks: list[Task],
    at_once: int | None = None,
    tick: Callable[[set[str], set[str]], None] = lambda done, running: None,
    kept: Path | None = None,
) -> dict[str, str]:
    """Standard output of every task by name. The first failure ends the others and is raised in its own words.

    Outputs are kept as they arrive in the directory `kept`; tasks whose output it holds are not run again.
    """
    at_once = max(1, min(at_once or cores(), len(tasks)))
    environment = os.environ | {"TRIMTAB_THREADS": str(max(1, cores() // at_once))}
    file = lambda name: kept / f"{name.replace(' ', '-')}.txt" if kept else Path(os.devnull)
    outputs = {task.name: file(task.name).read_text() for task in tasks if file(task.name).is_file()}
    waiting, running = [task for task in tasks if task.name not in outputs], {}
    with _ending_on_request():
        try:
            while waiting or running:
                for task in [t for t in waiting if set(t.after) <= outputs.keys()][: at_once - len(running)]:
                    waiting.remove(task)
                    running[task.name] = _Running(task.argv, environment)
                time.sleep(0.05)
                for name, command in list(running.items()):
                    if command.process.poll() is not None:
                        del running[name]
                        outputs[name] = command.output(name)
                        if kept:
                            write_atomically(file(name), outputs[name].encode())
                tick(set(outputs), set(running))
        finally:
            for command in running.values():
                command.process.terminate()
            for command in running.values():
                command.process.wait()
    return outputs


@contextmanager
def _ending_on_request() -> Iterator[None]:
    """SIGTERM ends this process as an exception does, so that it takes what it started with it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Running:
    """A command under way. It writes into files: a full pipe that nobody reads yet would stop it for ever."""

    def __init__(self, argv: list[str], environment: dict[str, str]):
        self._out, self._err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115 (closed by output)
        self.process = subprocess.Popen([*COMMAND, *argv], env=environment, stdout=self._out, stderr=self._err)

    def output(self, name: str) -> str:
        """What it printed; its last word is raised if it failed."""
        with self._out as out, self._err as err:
            out.seek(0), err.seek(0)
            if self.process.returncode != 0:
                last = (err.read().strip().splitlines() or ["no message"])[-1].removeprefix("trimtab: ")
                raise RunError(f"{name} failed: {last}")
            return out.read()
