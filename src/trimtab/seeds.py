"""Several seeds of one configuration, each its own process and run, one per core at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from trimtab.config import Config
from trimtab.progress import Progress
from trimtab.records import RunError, new_path


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train_seeds(config: Config, options, quiet: bool) -> list[dict[str, Any]]:
    """Train `options.seeds` seeds from config.seed on; their summaries, with the steps/s of all together."""
    wanted = [config.seed + k for k in range(options.seeds)]
    root = Path(options.run_dir) if options.run_dir else None
    paths = {
        seed: root / f"seed{seed}" if root else new_path(Path("runs"), config.env_id, config.algo, seed)
        for seed in wanted
    }
    taken = [str(p) for p in paths.values() if p.exists()]
    if taken:
        raise RunError(f"{taken[0]} already exists; give another --run-dir")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump(config.as_dict()))
        extra = ["--checkpoints", str(options.checkpoints)]
        extra += ["--tensorboard"] * options.tensorboard + ["--track"] * options.track
        commands = {
            seed: ["--config", str(file), "--seed", str(seed), "--run-dir", str(paths[seed]), *extra] for seed in wanted
        }
        return _run_all(config, commands, paths, quiet)


def _run_all(config: Config, commands: dict[int, list[str]], paths: dict[int, Path], quiet: bool):
    at_once = min(cores(), len(commands))
    environment = os.environ | {"NPROC": os.environ.get("NPROC", str(max(1, cores() // at_once)))}
    waiting, running, finished = list(commands), {}, {}
    with Progress(config.steps * len(commands), f"{config.env_id}, {len(commands)} seeds", quiet) as bar:
        bar.start()
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    seed = waiting.pop(0)
                    command = [sys.executable, "-m", "trimtab.cli", "train", *commands[seed], "--json"]
                    running[seed] = subprocess.Popen(
                        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    )
                time.sleep(0.1)
                for seed, process in list(running.items()):
                    if process.poll() is not None:
                        finished[seed] = _summary(seed, *process.communicate(), process.returncode)
                        del running[seed]
                done = sum(s["total_timesteps"] for s in finished.values()) + sum(_steps(paths[s]) for s in running)
                bar.update(done, f"{len(finished)}/{len(commands)} seeds done,")
        finally:
            for process in running.values():
                process.terminate()
    summaries = [finished[seed] for seed in commands]
    together = sum(s["total_timesteps"] for s in summaries) / _union([s.pop("interval") for s in summaries])
    return [s | {"aggregate_fps": round(together, 1)} for s in summaries]


def _summary(seed: int, out: str, err: str, code: int) -> dict[str, Any]:
    if code != 0:
        raise RunError(
            f"seed {seed} failed: {(err.strip().splitlines() or ['no message'])[-1].removeprefix('trimtab: ')}"
        )
    return json.loads(out.strip().splitlines()[-1])


def _steps(path: Path) -> int:
    """Steps a running seed has recorded: the last whole line of its metrics."""
    try:
        with open(path / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().split(b"\n")[1:-1]
        return json.loads(lines[-1])["time/total_timesteps"] if lines else 0
    except (OSError, ValueError):
        return 0


def _union(intervals: list[list[float]]) -> float:
    """Length of the union of time intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return max(total, 1e-9)
