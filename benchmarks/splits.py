"""`make splits`: the split studies of docs/results/splits.md,
on Pendulum (γ .99 and .9), FrozenLake8x8 and CartPole."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
RUNS = ROOT / "runs" / "splits"

STUDIES = {
    "pendulum-099": ["Pendulum-v1", "--batch", "1024", "--gamma", "0.99"],
    "pendulum-09": ["Pendulum-v1", "--batch", "1024", "--gamma", "0.9"],
    # Rewards are rare here: a policy that has not met many of them has no gradient to measure.
    "frozenlake8x8": ["FrozenLake8x8-v1", "--batch", "1024", "--total-timesteps", "1000000"],
    "cartpole": ["CartPole-v1", "--batch", "512"],
}
FIGURES = ("split_error", "learning_curves", "lag_covariance")


def run(name: str, argv: list[str], extra: list[str]) -> dict[str, Any]:
    shutil.rmtree(RUNS / name, ignore_errors=True)
    command = [sys.executable, "-m", "trimtab.cli", "split", *argv, *extra, "--run-dir", str(RUNS / name), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()}")
    result = json.loads(done.stdout) | {"command": " ".join(["trimtab split", *argv, *extra])}
    for row in result["rows"]:
        row.pop("lag_covariance", None)
    for place in ("run", "page"):  # where it ran is of no use to a reader
        result.pop(place)
    result["machine"] = json.loads((RUNS / name / "base" / "manifest.json").read_text())["machine"]
    (RESULTS / f"split-{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    for figure in (RUNS / name / "figures").glob("*.svg"):
        if figure.stem in FIGURES:
            shutil.copy(figure, RESULTS / f"split-{name}-{figure.stem}.svg")
    return result


def cell(e: dict[str, Any]) -> str:
    if e["value"] is None or e["lo"] is None:
        return "not resolved"
    text = f"{e['value']:.3g} [{e['lo']:.3g}, {e['hi']:.3g}]"
    return text if e.get("resolved", True) else f"not resolved ({text})"


def section(name: str, r: dict[str, Any]) -> list[str]:
    horizon = "∞" if r["horizon_gamma"] is None else f"{r['horizon_gamma']:.3g}"
    lines = [
        f"## {r['env_id']}, γ = {r['gamma']:g}",
        "",
        f"`{r['command']}` on {r['machine']['processor']}. Horizons: 1/(1-γ) = {horizon}, 1/(1-γλ) = "
        f"{r['horizon_gamma_lambda']:.3g}. Gradient measured at step {r['at']:,}.",
        "",
        f"**{r['sentence']}**",
        "",
        f"{r['marginal']}",
        "",
        *(f"- Doubt: {doubt}." for doubt in r["doubts"]),
        "",
        "| N × T | variance | individual | covariance | bias² | MSE / G² | ESS | steps/s | AUC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in r["rows"]:
        mark = " ←" if f"{row['num_envs']}x{row['num_steps']}" == r["recommended"] else ""
        cells = [cell(row[k]) for k in ("variance", "individual", "covariance", "bias_sq", "mse_relative", "ess")]
        speed = row["fps"]["value"]
        lines.append(
            f"| {row['num_envs']} × {row['num_steps']}{mark} | {' | '.join(cells)} | "
            f"{speed:,.0f} | {cell(row['auc'])} |"
        )
    for figure in FIGURES:
        if (RESULTS / f"split-{name}-{figure}.svg").exists():
            lines += ["", f"![{figure.replace('_', ' ')}](split-{name}-{figure}.svg)"]
    return [*lines, "", *against_the_post(r), ""]


def against_the_post(r: dict[str, Any]) -> list[str]:
    """What the post claims, and what this measurement says, resolved or not."""
    rows = sorted(r["rows"], key=lambda row: row["num_steps"])
    short, long = rows[0], rows[-1]
    name = lambda row: f"{row['num_envs']}x{row['num_steps']}"
    lines = ["Against the post:", ""]
    share = lambda row: row["covariance"]["value"] / row["variance"]["value"]
    cov = long["covariance"]
    sign = "resolved above 0" if cov["lo"] > 0 else "resolved below 0" if cov["hi"] < 0 else "not told from 0"
    lines.append(
        f"- *Long rollouts add a large covariance term.* At {name(long)} it is {share(long):.0%} of the variance "
        f"({sign}); at {name(short)} {share(short):.0%}."
    )
    lower = short["variance"]["hi"] < long["variance"]["lo"]
    higher = short["variance"]["lo"] > long["variance"]["hi"]
    verdict = "agrees" if lower else "contradicts" if higher else "does not decide"
    lines.append(
        f"- *Short rollouts have much lower variance.* {name(short)}: {cell(short['variance'])}, {name(long)}: "
        f"{cell(long['variance'])}: the measurement {verdict}."
    )
    b_short, b_long = short["bias_sq"], long["bias_sq"]
    if b_short["value"] is not None and b_long["value"] is not None:
        more = b_short["lo"] > b_long["hi"]
        lines.append(
            f"- *Short rollouts are more biased.* bias² {cell(b_short)} at {name(short)}, "
            f"{cell(b_long)} at {name(long)}: "
            + ("the measurement agrees." if more else "not decided by the intervals.")
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(STUDIES))
    parser.add_argument("extra", nargs="*", help="options handed to trimtab split (after --)")
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        result = run(name, STUDIES[name], given.extra)
        print(f"{name}: {result['sentence']}", flush=True)
    lines = ["# How should a batch be split?", "", "Made by `make splits`.", ""]
    for name in STUDIES:
        file = RESULTS / f"split-{name}.json"
        if file.exists():
            lines += section(name, json.loads(file.read_text()))
    (RESULTS / "splits.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
