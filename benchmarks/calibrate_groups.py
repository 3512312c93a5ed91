"""`make calibrate-groups`: do the 95% intervals of `trimtab.anatomy.groups` hold the enumerated truth?

Writes docs/results/calibration-groups.json and its page. NumPy only; minutes.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trimtab.gradient.enumerated_strings import StringTask
from trimtab.gradient.group_baselines import BASELINES
from trimtab.gradient.groups import groups

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
QUANTITIES = ("between", "within", "grad_sq", "best_size")
LARGEST = 64


class Cell(NamedTuple):
    """A task, how advantages are formed, groups in a batch and samples in a group, costs of a group and of a sample."""

    task: str
    advantages: str
    num_groups: int
    size: int
    cost: tuple[float, float]


TASKS = {
    "graded": {"prompts": 64, "tokens": 3, "length": 2, "seed": 0},
    "binary": {"prompts": 64, "tokens": 3, "length": 2, "seed": 3, "binary": True},
    "alike": {"prompts": 64, "tokens": 2, "length": 3, "seed": 5, "spread": 0.3},
}
CELLS = [
    Cell(task, advantages, num_groups, size, (4.0, 0.1))
    for task in TASKS
    for advantages, sizes in (("none", (2, 8)), ("rloo", (3, 4, 8)), ("grpo", (6, 8)))
    for size in sizes
    for num_groups in (64, 256)
]


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the truth, of those that claim one; None where nothing exact is known."""

    cell: Cell
    shares: dict[str, float | None]
    means: dict[str, float]
    exact: dict[str, float]


def exact_answers(task: StringTask, cell: Cell) -> dict[str, float]:
    """The enumerated truth; the best size of GRPO only up to what can be enumerated, so not at all."""
    measured = BASELINES[cell.advantages].measured(cell.size)
    terms = task.exact(cell.advantages, measured)
    exact = {"between": terms.between, "within": terms.within}
    if cell.advantages == "grpo":
        return exact
    fewest = BASELINES[cell.advantages].fewest
    sizes = range(fewest, LARGEST + 1)
    every = [task.exact(cell.advantages, k) for k in sizes]
    prices = [(e.between + e.within) * (cell.cost[0] + k * cell.cost[1]) for k, e in zip(sizes, every)]
    return exact | {"grad_sq": terms.grad_sq, "best_size": float(fewest + int(np.argmin(prices)))}


def one(argument: tuple[int, int]) -> Coverage:
    """One cell, in a process of its own."""
    index, repetitions = argument
    cell = CELLS[index]
    task = StringTask.create(**TASKS[cell.task])
    exact = exact_answers(task, cell)
    held: dict[str, list[bool]] = {name: [] for name in exact}
    values: dict[str, list[float]] = {name: [] for name in exact}
    for repetition in range(repetitions):
        score, group, reward = task.draw(cell.num_groups, cell.size, (index, repetition))
        outside = cell.advantages == "none"
        given = (reward - task.baseline)[:, None] * score if outside else score
        found = groups(
            given,
            group,
            cell.advantages,
            cell.cost,
            rewards=None if outside else reward,
            seed=repetition,
            largest=LARGEST,
        )
        for name, truth in exact.items():
            estimate = getattr(found, name)
            values[name].append(estimate.value)
            held[name].append(not (truth < estimate.lo - 1e-9 or truth > estimate.hi + 1e-9))
    shares = {name: float(np.mean(held[name])) if name in held else None for name in QUANTITIES}
    return Coverage(cell, shares, {name: float(np.mean(v)) for name, v in values.items()}, exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="*", help="cells by number; writes nothing")
    given = parser.parse_args()
    chosen = given.only if given.only is not None else list(range(len(CELLS)))
    found = []
    with ProcessPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        for coverage in pool.map(one, [(index, given.repetitions) for index in chosen]):
            found.append(coverage)
            print(line(coverage), flush=True)
    print(f"| pooled | | | | {' | '.join(shown(pooled(found, name)) for name in QUANTITIES)} |")
    if given.only is None:
        write(found, given.repetitions)


def pooled(found: list[Coverage], name: str) -> float | None:
    """The mean share over the cells that have one."""
    shares = [coverage.shares[name] for coverage in found if coverage.shares[name] is not None]
    return sum(shares) / len(shares) if shares else None


def shown(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def line(coverage: Coverage) -> str:
    """One row of the table."""
    cell = coverage.cell
    shares = " | ".join(shown(coverage.shares[name]) for name in QUANTITIES)
    return f"| {cell.task} | {cell.advantages} | {cell.num_groups} | {cell.size} | {shares} |"


def write(found: list[Coverage], repetitions: int) -> None:
    """The numbers and the page."""
    cells = [{**c.cell._asdict(), "coverage": c.shares, "mean": c.means, "exact": c.exact} for c in found]
    overall = {name: pooled(found, name) for name in QUANTITIES}
    data = {"command": "make calibrate-groups", "repetitions": repetitions, "pooled": overall, "cells": cells}
    (RESULTS / "calibration-groups.json").write_text(json.dumps(data, indent=1) + "\n")
    lines = [
        "# Calibration of groups",
        "",
        f"Made by `make calibrate-groups`: {repetitions} repetitions of every cell. A policy writes strings short "
        "enough to enumerate, so the variance between groups, within groups, |G|² and the best group size are exact. "
        "The table shows the share of 95% intervals that hold them. `grpo` is measured on halves of a group, and its "
        "terms are compared with the enumerated terms of that size. The best size is a whole number, so its share is "
        "often above 95%.",
        "",
        "| task | advantages | groups | size | between | within | \\|G\\|² | best size |",
        "|---|---|---|---|---|---|---|---|",
        "| **pooled** | | | | " + " | ".join(f"**{shown(overall[name])}**" for name in QUANTITIES) + " |",
        *map(line, found),
    ]
    (RESULTS / "calibration-groups.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
