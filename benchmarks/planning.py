"""`python -m benchmarks.planning`: the paper's full experiment on 1, 4 and 8 devices, into docs/results/planning.md.

Runs, steps and gradient steps are those of `trimtab study run paper/invariance --full`; the time of a step is that of
`python -m benchmarks.devices --work phasic` (docs/results/devices.json); bytes are those of the networks' parameters.
Nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.devices import DEFAULT, RESULTS
from trimtab.advise.planning import _look, _number_of_parameters
from trimtab.config import Config
from trimtab.config.device_shares import averaged_gradients, with_devices
from trimtab.experiments.paper.invariance import Invariance
from trimtab.studies.job import Train
from trimtab.training.resource_estimates import FLOAT_BYTES, estimate_device_memory, format_bytes

COUNTS = (1, 4, 8)
NETWORKS = {"1 Gbit/s": 1e9 / 8, "10 Gbit/s": 10e9 / 8, "100 Gbit/s": 100e9 / 8}  # bytes per second
DAYS = {"days": 1, "years": 365.25}
FASTER = (1, 100, 1_000)  # devices that compute so many times as fast as the measured one


@dataclass(frozen=True)
class Kind:
    """Runs of one algorithm and number of environments."""

    config: Config
    runs: int
    parameters: int

    @property
    def steps(self) -> int:
        return self.runs * self.config.steps

    @property
    def gradients(self) -> int:
        """Averaged over a run."""
        return averaged_gradients(self.config)

    def sent(self, devices: int) -> float:
        """Bytes that each device sends (and receives) for one average, by a ring: 2 (k - 1) / k of the gradient."""
        return 2 * (devices - 1) / devices * FLOAT_BYTES * self.parameters

    def between(self, seconds: float, devices: int) -> float:
        """Seconds of computing between two averages, if `devices` share it without loss."""
        return self.config.steps * seconds / self.gradients / devices


def kinds() -> Iterator[Kind]:
    """The runs of the experiment, largest batch first."""
    groups: dict[tuple[str, int], list[Config]] = {}
    for job in Invariance(size="full").jobs():
        if isinstance(job, Train):
            groups.setdefault((job.config.algo, job.config.num_envs), []).append(job.config)
    for _, configs in sorted(groups.items(), key=lambda group: -group[0][1]):
        yield Kind(configs[0], len(configs), _number_of_parameters(configs[0], _look(configs[0])))


def measured(devices: Path) -> tuple[dict[str, Any], list[float]]:
    """Where, and the steps per second of one device, turn by turn."""
    found = json.loads(devices.read_text())
    turns = found["speed"].get("phasic", {"turns": []})["turns"]
    return found["machine"], [turn[DEFAULT] for turn in turns if DEFAULT in turn]


def page(devices: Path) -> str:
    where, speeds = measured(devices)
    found = list(kinds())
    steps, runs = sum(kind.steps for kind in found), sum(kind.runs for kind in found)
    text = [
        "# Planning the paper's experiment",
        "",
        "`python -m benchmarks.planning`, from the measurement of [one run on two devices](devices.md). Nothing here "
        "was trained: runs and steps are those of `trimtab study run paper/invariance --full` (16 Procgen games, 100 "
        "million steps each, PPG-EWMA and its ablations at every batch size, 3 seeds).",
        "",
        f"**{runs:,} runs, {steps:.3g} environment steps.** {_speed(where, speeds)}",
        "",
        *(_time_table(steps, found[0], speeds) if speeds else []),
        *_memory(found[0]),
        "",
        *_volume(found),
        "",
        *(_dominates(found, 1 / statistics.median(speeds)) if speeds else []),
    ]
    return "\n".join(text).rstrip() + "\n"


def _speed(where: dict[str, Any], speeds: list[float]) -> str:
    if not speeds:
        return (
            "The speed of PPG-EWMA with IMPALA is not in the measurement yet (`python -m benchmarks.devices --work "
            "phasic`), so no times are given."
        )
    return (
        f"One device as measured ({where['processor']}, {where['cores']} cores, no accelerator) trains PPG-EWMA with "
        f"IMPALA on StarPilot at {statistics.median(speeds):.3g} steps/s (lowest {min(speeds):.3g}, highest "
        f"{max(speeds):.3g} of {len(speeds)} turns; small batches, assumed for all: on a processor the network "
        "is computed 16 images at once). An accelerator was not measured: put its own steps/s in place of this one."
    )


def _time_table(steps: int, largest: Kind, speeds: list[float]) -> list[str]:
    text = [
        "## Time",
        "",
        "All runs side by side, each on one device, need no communication; one run on k devices ends k times as soon "
        "at best. These are costs, not a proposal: nobody would wait that long for processors.",
        "",
        "| devices | whole experiment, runs side by side | one run of 100 million steps, shared by all of them |",
        "|---|---|---|",
    ]
    for count in COUNTS:
        whole, one = _duration(steps / count, speeds, "years"), _duration(largest.config.steps / count, speeds, "days")
        text.append(f"| {count} | {whole} | {one} |")
    return [*text, ""]


def _duration(steps: float, speeds: list[float], unit: str) -> str:
    """With the fastest and the slowest turn."""
    days = [steps / speed / (24 * 3600) for speed in (statistics.median(speeds), max(speeds), min(speeds))]
    usual, short, long = (day / DAYS[unit] for day in days)
    return f"{usual:,.3g} {unit} [{short:,.3g}, {long:,.3g}]"


def _memory(kind: Kind) -> list[str]:
    spec = _look(kind.config)
    each = {k: estimate_device_memory(with_devices(kind.config, k), spec, kind.parameters) for k in COUNTS}
    words = "; ".join(f"{k}: {format_bytes(size.total)}" for k, size in each.items())
    return [
        f"Memory of each device at {kind.config.num_envs} × {kind.config.num_steps}, at least (mostly the buffer of "
        f"a PPG phase), by devices: {words}.",
    ]


def _volume(found: list[Kind]) -> list[str]:
    """Bytes."""
    text = [
        "## Communication",
        "",
        f"Devices average one gradient per step: 4 bytes × {found[0].parameters:,} parameters = "
        f"{format_bytes(FLOAT_BYTES * found[0].parameters)}. "
        "In a ring each of k devices sends and receives 2 (k − 1) / k of that. "
        "Moments and statistics besides are a few numbers. k must divide N.",
        "",
        "| N | algorithm | runs | minibatch | gradient steps of a run | sent by each of 4 devices, a run | of 8 |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in found:
        c = kind.config
        sent = [
            format_bytes(kind.sent(k) * kind.gradients) if c.num_envs % k == 0 else "cannot be shared"
            for k in COUNTS[1:]
        ]
        sizes = f"{c.minibatch:,}, auxiliary {c.aux_minibatch:,}"
        text.append(f"| {c.num_envs} | {c.algo} | {kind.runs} | {sizes} | {kind.gradients:,} | {' | '.join(sent)} |")
    return text


def _dominates(found: list[Kind], seconds: float) -> list[str]:
    """Where sending takes as long as computing."""
    largest = {kind.config.num_envs: kind for kind in reversed(found) if kind.config.is_ewma}
    text = [
        "## Where communication would dominate",
        "",
        "The bandwidth below which averaging takes longer than computing between two averages (nothing overlaps), for "
        "devices as measured and for ones that are, by assumption, 100 and 1,000 times as fast; and the share of the "
        "time that averaging takes at a given bandwidth.",
        "",
        f"| N | devices | times as fast | computing between averages | dominates below | {' | '.join(NETWORKS)} |",
        "|---|---|---|---|---|" + "---|" * len(NETWORKS),
    ]
    for envs, kind in sorted(largest.items(), reverse=True):
        for count in (k for k in COUNTS[1:] if envs % k == 0):
            for faster in FASTER:
                computing, sent = kind.between(seconds / faster, count), kind.sent(count)
                shares = [f"{sent / speed / (sent / speed + computing):.1%}" for speed in NETWORKS.values()]
                text.append(
                    f"| {envs} | {count} | {faster:,} | {_time(computing)} | {format_bytes(sent / computing)}/s | "
                    f"{' | '.join(shares)} |"
                )
    text += [
        "",
        "Runs with fewer environments than devices cannot be shared: they go side by side, which costs nothing.",
    ]
    return text


def _time(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60), ("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=Path, default=RESULTS / "devices.json", help="what was measured")
    parser.add_argument("--out", type=Path, default=RESULTS / "planning.md")
    given = parser.parse_args()
    given.out.write_text(page(given.devices))
    print(page(given.devices))


if __name__ == "__main__":
    main()
