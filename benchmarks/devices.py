"""`python -m benchmarks.devices`: one run on two devices of this machine, into docs/results/devices.{json,md}.

Ways to train the same: one device on one core, one device as by default, two devices on two cores; and, for what the
two cores can do at all, two runs at once with a core each. They take turns in processes of their own, and a turn's
ratios are those of its own runs. Compiling is not counted. Turns are added to those of the file (`--anew` forgets
them). `--memory N T` measures the peak of a process that trains IMPALA on StarPilot for one iteration of N × T, beside
what `trimtab plan` says it takes at least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trimtab import presets
from trimtab.advise.planning import _look, _number_of_parameters
from trimtab.config import from_dict
from trimtab.training import resource_estimates
from trimtab.training.device import machine

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
STARPILOT = "procgen/starpilot-hard"

# `preset` gives all that is not said; the sizes are such that one iteration takes seconds.
WORK: dict[str, dict[str, Any]] = {
    "mlp-512": {
        "env_id": "Pendulum-v1", "preset": "none", "num_envs": 64, "num_steps": 64, "update_epochs": 4,
        "num_minibatches": 4, "hidden_sizes": "512,512", "iterations": 20,
    },
    "impala": {
        "env_id": STARPILOT, "preset": "ppo/procgen", "num_envs": 16, "num_steps": 32, "num_minibatches": 4,
        "iterations": 3,
    },
    "phasic": {
        "env_id": STARPILOT, "algo": "ppg-ewma", "preset": "ppg-ewma/procgen", "num_envs": 8, "num_steps": 16,
        "num_minibatches": 2, "policy_iterations": 2, "aux_minibatch_size": 64, "iterations": 2,
    },
}  # fmt: skip
ONE_CORE, DEFAULT, TWO, APART = (
    "one device on one core",
    "one device as by default",
    "two devices on two cores",
    "two runs, a core each",
)
WAYS: dict[str, tuple[int, list[int | None]]] = {  # devices, and of each process the core it is restricted to
    ONE_CORE: (1, [0]),
    DEFAULT: (1, [None]),
    TWO: (2, [None]),
    APART: (1, [0, 1]),
}


def command(work: dict[str, Any], devices: int, run: str) -> list[str]:
    """`trimtab train` of a work."""
    fields = {name: value for name, value in work.items() if name not in ("env_id", "iterations")}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in fields.items()]
    steps = work["num_envs"] * work["num_steps"] * work["iterations"]
    words = [sys.executable, "-m", "trimtab.cli", "train", work["env_id"], *flags, "--devices", str(devices)]
    return [*words, "--total-timesteps", str(steps), "--checkpoints", "1", "--json", "--run-dir", run]


def speed(work: dict[str, Any], devices: int, cores: list[int | None]) -> float:
    """Steps per second of a `trimtab train` for each of `cores`, together."""
    there = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        begun = [
            subprocess.Popen(
                command(work, devices, f"{folder}/{number}"),
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=None if core is None else lambda core=core: os.sched_setaffinity(0, [there[core]]),
            )
            for number, core in enumerate(cores)
        ]
        ended = [process.communicate()[0] for process in begun]
    return sum(json.loads(out.strip().splitlines()[-1])["fps"] for out in ended)


def turns_before(found: dict[str, Any], name: str, anew: bool) -> list[dict[str, float]]:
    """The turns of a work that the file has."""
    before = found["speed"].get(name, {})
    return before["turns"] if before.get("work") == WORK[name] and not anew else []


def ratios(turns: list[dict[str, float]], over: str) -> list[float]:
    """Two devices over another way, turn by turn."""
    return sorted(turn[TWO] / turn[over] for turn in turns if over in turn and TWO in turn)


def peak(num_envs: int, num_steps: int, devices: int, channels: Sequence[int]) -> dict[str, Any]:
    """The largest resident memory of one iteration, beside the estimate and what one environment for one step takes."""
    sizes = {"env_id": STARPILOT, "num_envs": num_envs, "num_steps": num_steps, "total_timesteps": num_envs * num_steps}
    changes = {"update_epochs": 1, "impala_channels": tuple(channels)}
    config = from_dict(presets.load("ppo/procgen") | sizes | changes | {"devices": devices})
    spec = _look(config)
    flags = {"update_epochs": 1, "impala_channels": ",".join(map(str, channels))}
    work = {"env_id": STARPILOT, "preset": "ppo/procgen", "iterations": 1} | flags
    resident = lambda n, t: _resident(work | {"num_envs": n, "num_steps": t}, devices)
    return {
        "num_envs": num_envs,
        "num_steps": num_steps,
        "devices": devices,
        "channels": list(channels),
        "peak": resident(num_envs, num_steps),
        "small": resident(2, 8),
        "estimate": resource_estimates.estimate_memory(config, spec, _number_of_parameters(config, spec)).total,
    }


def _resident(work: dict[str, Any], devices: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command(work, devices, f"{folder}/run"), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{work}: ended with {status}")
    return usage.ru_maxrss * 1024


# The page --------------------------------------------------------------------------------------------------


def page(found: dict[str, Any]) -> str:
    """docs/results/devices.md."""
    where = found["machine"]
    lines = [
        "# One run on two devices",
        "",
        f"`python -m benchmarks.devices`, on {where['processor']}, {where['cores']} cores, no accelerator. A device is "
        "then a part of the processor: with two, each computes its half of the environments and of every minibatch, on "
        "one core. Each turn trains the same in several ways, in processes of their own; ratios are of the runs of one "
        "turn, medians over turns with the lowest and the highest. Compiling is not counted. Numbers: "
        "[devices.json](devices.json).",
        "",
        f"| work | turns | {' | '.join(WAYS)} |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in found["speed"].items():
        turns = result["turns"]
        speeds = [_spread([turn[way] for turn in turns if way in turn]) for way in WAYS]
        lines.append(f"| {name} | {len(turns)} | {' | '.join(speeds)} |")
    over = (ONE_CORE, DEFAULT, APART)
    lines += [
        "",
        "Steps per second. Two devices over the other ways:",
        "",
        f"| work | {' | '.join(over)} |",
        "|---|---|---|---|",
    ]
    for name, result in found["speed"].items():
        lines.append(f"| {name} | {' | '.join(_spread(ratios(result['turns'], way)) for way in over)} |")
    lines.append("")
    lines += [f"- **{name}**: {_in_words(result['work'])}" for name, result in found["speed"].items()]
    if found.get("memory"):
        lines += _memory(found["memory"])
    return "\n".join(lines) + "\n"


def _spread(values: list[float]) -> str:
    """The median, and the lowest and the highest."""
    if not values:
        return "not measured"
    words = [f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (statistics.median(values), min(values), max(values))]
    return words[0] if len(values) == 1 else f"{words[0]} [{words[1]}, {words[2]}]"


def _in_words(work: dict[str, Any]) -> str:
    rest = ", ".join(f"{name} {value}" for name, value in work.items() if name not in ("env_id", "iterations"))
    return f"{work['env_id']}, {rest}; {work['iterations']} iterations a run"


def _memory(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "",
        "## Memory",
        "",
        "The largest resident memory of a process that trains IMPALA on StarPilot for one iteration of one epoch "
        "(`--memory N T`), what the same process takes with 2 environments of 8 steps (JAX, EnvPool, programs), and "
        "`trimtab plan`'s lower bound: rollout, batch, parameters and optimizer.",
        "",
        "| N × T | channels | devices | peak | with 2 × 8 | peak less that | `plan` | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        taken = row["peak"] - row["small"]
        sizes = [resource_estimates.format_bytes(row[name]) for name in ("peak", "small")] + [
            resource_estimates.format_bytes(taken)
        ]
        channels = "-".join(map(str, row["channels"]))
        named = f"{row['num_envs']} × {row['num_steps']} | {channels} | {row['devices']}"
        estimate = resource_estimates.format_bytes(row["estimate"])
        lines.append(f"| {named} | {' | '.join(sizes)} | {estimate} | {taken / row['estimate']:.2f} |")
    return lines


def kept(out: Path) -> dict[str, Any]:
    return json.loads(out.read_text()) if out.exists() else {"machine": machine(), "speed": {}, "memory": []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="*", choices=WORK, default=list(WORK))
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--anew", action="store_true", help="forget the turns of the file")
    parser.add_argument("--memory", nargs=2, type=int, metavar=("N", "T"), help="measure memory instead of speed")
    parser.add_argument("--devices", nargs="*", type=int, default=[1, 2], help="with --memory")
    parser.add_argument("--channels", nargs=3, type=int, default=[16, 32, 32], help="of IMPALA, with --memory")
    parser.add_argument("--out", type=Path, default=RESULTS / "devices.json")
    given = parser.parse_args()
    found = kept(given.out)
    if given.memory:
        new = [peak(*given.memory, devices, given.channels) for devices in given.devices]
        key = lambda row: (row["num_envs"], row["num_steps"], *row["channels"], row["devices"])
        rows = {key(row): row for row in [*found["memory"], *new]}
        found["memory"] = [rows[name] for name in sorted(rows)]
    else:
        for name in given.work:
            turns = turns_before(found, name, given.anew)
            for _ in range(given.turns):
                turns.append({way: speed(WORK[name], *WAYS[way]) for way in given.ways})
                found["speed"][name] = {"work": WORK[name], "turns": turns}
                given.out.write_text(json.dumps(found, indent=2) + "\n")
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    given.out.with_suffix(".md").write_text(page(found))
    print(page(found))


if __name__ == "__main__":
    main()
