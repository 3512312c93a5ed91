"""`make calibrate`: do the 95% intervals hold the truth? Writes docs/results/calibration.json and its page."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from trimtab.training.device import cores, machine

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


def one(argument: tuple[int, int]) -> dict[str, Any]:
    """One cell, in a process of its own."""
    from trimtab.training import device

    device.prepare(1)
    from trimtab.gradient.calibration import Bench, cells, coverage

    index, repetitions = argument
    cell = cells()[index]
    begun = time.time()
    outcome = Bench(cell).run(repetitions)
    value = outcome.estimates[:, :, 0].mean(0)
    return {
        "cell": cell.name,
        "mdp": cell.mdp.name,
        "num_steps": cell.num_steps,
        "gae_lambda": cell.gae_lambda,
        "limited": cell.limited,
        "gamma": cell.gamma,
        "rows": cell.num_rows,
        "repetitions": repetitions,
        "coverage": {name: None if math.isnan(share) else share for name, share in coverage(outcome).items()},
        "covariance_share": float(value[2] / value[0]),
        "bias_sq": {"exact": outcome.exact_bias_sq, "mean_estimate": float(value[4])},
        "mean_error_sq": outcome.mean_error_sq,
        "seconds": time.time() - begun,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="*", help="cells by number")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from trimtab.gradient.calibration import cells

    chosen = given.only if given.only is not None else range(len(cells()))
    found = []
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for result in pool.map(one, [(i, given.repetitions) for i in chosen]):
            found.append(result)
            shares = ", ".join(f"{k} {shown(v)}" for k, v in result["coverage"].items())
            print(f"{result['cell']}: {shares} ({result['seconds']:.0f} s)", flush=True)
    if given.only is None:  # some cells are a look, not the page
        write(found)


def shown(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def write(found: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for f in found for name in f["coverage"]))
    seen = {n: [s for f in found if (s := f["coverage"].get(n)) is not None] or [math.nan] for n in names}
    pooled = {n: sum(shares) / len(shares) for n, shares in seen.items()}
    lowest = {n: min(shares) for n, shares in seen.items()}
    hold = sum(f["mean_error_sq"][1] <= 0 <= f["mean_error_sq"][2] for f in found)
    result = {
        "command": "make calibrate",
        "machine": machine(),
        "repetitions": found[0]["repetitions"],
        "pooled": pooled,
        "lowest": lowest,
        "mean_gradient_intervals_that_hold_0": [hold, len(found)],
        "cells": found,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "calibration.json").write_text(json.dumps(result, indent=1) + "\n")
    lines = [
        "# Calibration",
        "",
        f"Made by `make calibrate` on {result['machine']['processor']}, {result['machine']['cores']} cores: "
        f"{found[0]['repetitions']} repetitions of {found[0]['rows']:,} rows in every cell, "
        f"γ = {found[0]['gamma']}, a small neural policy and a wrong critic. Share of 95% intervals that hold "
        "the truth: exact for |G|² and |bias|², the mean over all repetitions for the variance and its terms. One "
        "step has no covariance, and one advantage whatever λ is. Lockstep: the rows are 32 iterations of environments "
        "that reset together; variance_floor is the covariance between rows, exact.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        "| pooled | " + " | ".join(f"{pooled[n]:.1%}" for n in names) + " |",
        "| lowest cell | " + " | ".join(f"{lowest[n]:.1%}" for n in names) + " |",
        "",
        f"The interval of |sampled mean - exact E[G_B]|² holds 0 in {hold} of {len(found)} cells. Wanted: 92 to 97% "
        "pooled for the variance, its terms and |bias|², and no cell below 88%.",
        "",
        "| cell | " + " | ".join(names) + " | covariance / variance | bias² exact | bias² estimated |",
        "|---|" + "---|" * (len(names) + 3),
    ]
    for f in found:
        shares = " | ".join(shown(f["coverage"].get(n)) for n in names)
        bias = f["bias_sq"]
        lines.append(
            f"| {f['cell']} | {shares} | {f['covariance_share']:.2f} | "
            f"{bias['exact']:.3g} | {bias['mean_estimate']:.3g} |"
        )
    (RESULTS / "calibration.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
