"""`python -m benchmarks.devices`: one run on two devices of this machine, into docs/results/devices.json.

Three ways to train the same: one device on one core, one device as by default, two devices on two cores. They take
turns, several times each, in processes of their own; the ratios of medians matter, not the figures. Compiling is not
counted. StarPilot's environments are stepped on the host, which one device does, so IMPALA is measured on MinAtar's
smaller images.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trimtab.runs.device import machine

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

WORK: dict[str, dict[str, Any]] = {
    "mlp-512": {
        "env_id": "Pendulum-v1", "num_envs": 64, "num_steps": 64, "update_epochs": 4, "num_minibatches": 4,
        "hidden_sizes": "512,512",
    },
    "impala": {
        "env_id": "Breakout-MinAtar", "num_envs": 64, "num_steps": 64, "update_epochs": 2, "num_minibatches": 8,
        "network": "impala",
    },
}  # fmt: skip
WAYS: dict[str, tuple[int, int | None]] = {  # devices, and the cores of the process if they are restricted
    "one device on one core": (1, 1),
    "one device as by default": (1, None),
    "two devices on two cores": (2, 2),
}


def speed(work: dict[str, Any], devices: int, cores: int | None, iterations: int) -> float:
    """Steps per second of one `trimtab train`."""
    steps = work["num_envs"] * work["num_steps"] * iterations
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in work.items() if name != "env_id"]
    some = None if cores is None else sorted(os.sched_getaffinity(0))[:cores]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trimtab.cli", "train", work["env_id"], "--preset", "none", *flags]
        command += ["--devices", str(devices), "--total-timesteps", str(steps), "--checkpoints", "1", "--json"]
        restrict = None if some is None else lambda: os.sched_setaffinity(0, some)
        out = subprocess.run(
            [*command, "--run-dir", f"{folder}/run"], capture_output=True, text=True, check=True, preexec_fn=restrict
        ).stdout
    return json.loads(out.strip().splitlines()[-1])["fps"]


def measure(work: dict[str, Any], repeats: int, iterations: int) -> dict[str, Any]:
    """Every way in turns; medians, and how two devices compare."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, (devices, cores) in WAYS.items():
            found[way].append(speed(work, devices, cores, iterations))
    one, default, two = (statistics.median(values) for values in found.values())
    return {"work": work, "steps_per_second": found, "over_one_core": two / one, "over_default": two / default}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="*", choices=WORK, default=list(WORK))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--num-envs", type=int, help="another N, to try this out")
    parser.add_argument("--out", type=Path, default=RESULTS / "devices.json")
    given = parser.parse_args()
    changed = {"num_envs": given.num_envs} if given.num_envs else {}
    results = {name: measure(WORK[name] | changed, given.repeats, given.iterations) for name in given.work}
    given.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")
    for name, result in results.items():
        over = f"{result['over_one_core']:.2f} times one core, {result['over_default']:.2f} times the default"
        print(f"{name}: two devices are {over}")


if __name__ == "__main__":
    main()
