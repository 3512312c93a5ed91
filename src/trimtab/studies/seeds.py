"""Several seeds of one configuration, each its own process and run, one per core at a time."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from trimtab.config import Config
from trimtab.runs.progress import Progress
from trimtab.runs.records import RunDir, RunError, new_path
from trimtab.studies.workers import Task, run_all


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
    title = f"{config.env_id}, {len(wanted)} seeds"
    with tempfile.TemporaryDirectory() as folder, Progress(config.steps * len(wanted), title, quiet) as bar:
        file = Path(folder) / "config.yaml"
        file.write_text(yaml.safe_dump(config.as_dict()))
        shared = ["train", "--config", str(file), "--json", "--checkpoints", str(options.checkpoints)]
        shared += ["--tensorboard"] * options.tensorboard + ["--track"] * options.track
        tasks = [Task(f"seed {s}", [*shared, "--seed", str(s), "--run-dir", str(paths[s])]) for s in wanted]
        bar.start()

        def tick(done: set[str], running: set[str]) -> None:
            bar.update(sum(recorded_steps(p) for p in paths.values()), f"{len(done)}/{len(wanted)} seeds done,")

        try:
            outputs = run_all(tasks, tick=tick)
        except KeyboardInterrupt:
            begun = ", ".join(str(p) for p in paths.values() if RunDir.began(p))
            raise KeyboardInterrupt(f"`trimtab resume` goes on with any of {begun}" if begun else "") from None
    summaries = [json.loads(outputs[task.name].strip().splitlines()[-1]) for task in tasks]
    together = sum(s["total_timesteps"] for s in summaries) / union([s.pop("interval") for s in summaries])
    return [s | {"aggregate_fps": round(together, 1)} for s in summaries]


def recorded_steps(path: Path) -> int:
    """Steps a running seed has recorded: the last whole line of its metrics."""
    try:
        with open(path / "metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            lines = file.read().split(b"\n")[:-1]
        return json.loads(lines[-1])["time/total_timesteps"] if lines else 0
    except (OSError, ValueError):
        return 0


def union(intervals: list[list[float]]) -> float:
    """Length of the union of time intervals."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return max(total, 1e-9)
