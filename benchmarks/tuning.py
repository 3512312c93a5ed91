"""`make tuning`: `trimtab tune` on CartPole from its preset, into docs/results/tune-cartpole.{json,md} and figures.

A tuning that was interrupted goes on; a finished one only writes its page again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from trimtab.report.tune import changed
from trimtab.wording import plain

ROOT = Path(__file__).resolve().parents[1]
RESULTS, RUN = ROOT / "docs" / "results", ROOT / "runs" / "tuning" / "cartpole"
FIGURES = ("learning_curves", "sweeps")


def tuned() -> dict[str, Any]:
    begun = (RUN / "tune.json").exists()
    argv = ["resume", str(RUN)] if begun else ["tune", "CartPole-v1", "--run-dir", str(RUN)]
    done = subprocess.run([sys.executable, "-m", "trimtab.cli", *argv, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    found = json.loads(done.stdout)
    manifest = json.loads(next(RUN.glob("trials/*/manifest.json")).read_text())
    return {key: value for key, value in found.items() if key not in ("run", "page", "config", "command")} | {
        "command": "trimtab tune CartPole-v1",
        "machine": manifest["machine"],
    }


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Tuning CartPole by the playbook",
        "",
        f"Made by `make tuning` (`{result['command']}`) on {result['machine']['processor']}. "
        f"{result['total_timesteps']:,} steps a run.",
        "",
        result["sentence"],
        "",
        "![start and tuned on new seeds](tune-cartpole-learning_curves.svg)",
        "",
        "| configuration | area under the learning curve on new seeds |",
        "|---|---|",
        *(f"| {changed(r['changes'])} | {r['area']:.4g} ({r['lo']:.4g} to {r['hi']:.4g}) |" for r in result["final"]),
        "",
        "![area by value of every field that was swept](tune-cartpole-sweeps.svg)",
        "",
        "| phase | field | from | kept |",
        "|---|---|---|---|",
        *(f"| {s['phase']} | {s['field']} | {plain(s['before'])} | {plain(s['kept'])} |" for s in result["sweeps"]),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    result = tuned()
    (RESULTS / "tune-cartpole.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "tune-cartpole.md").write_text(page(result))
    for name in FIGURES:
        shutil.copy(RUN / "figures" / f"{name}.svg", RESULTS / f"tune-cartpole-{name}.svg")


if __name__ == "__main__":
    main()
