"""`make advice`: does it help to do what `trimtab doctor` says?

Each case is a configuration with something wrong, or a preset with few steps. It is trained on several seeds, the
doctor looks at the first seed's run, its first suggestion is taken, and so on. Every round is reported, also those
that made things worse. Writes docs/results/doctor.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.curves import machine
from trimtab import stats

ROOT = Path(__file__).resolve().parents[1]
RESULTS, RUNS = ROOT / "docs" / "results", ROOT / "runs" / "advice"
ROUNDS, SEEDS = 4, 5

CASES = {
    "Pendulum, steps far too large": ["Pendulum-v1", "--total-timesteps", "100000", "--learning-rate", "0.02"],
    "Pendulum, steps far too small": ["Pendulum-v1", "--total-timesteps", "100000", "--learning-rate", "0.00005"],
    "CartPole, the preset": ["CartPole-v1", "--total-timesteps", "100000"],
    "CartPole, one environment": [
        *("CartPole-v1", "--total-timesteps", "100000", "--num-envs", "1", "--num-steps", "128"),
    ],
    "Acrobot, steps far too large": ["Acrobot-v1", "--total-timesteps", "200000", "--learning-rate", "0.1"],
    "CartPole with REINFORCE, small batches": [
        *("CartPole-v1", "--algo", "reinforce", "--total-timesteps", "200000", "--num-envs", "4", "--num-steps", "64"),
    ],
}


def trimtab(*argv: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "trimtab.cli", *argv, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"trimtab {' '.join(argv)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def followed(name: str, argv: list[str]) -> list[dict[str, Any]]:
    """The rounds of one case: what was changed, what it returned, what the doctor said then."""
    folder = RUNS / name.replace(" ", "-").replace(",", "")
    shutil.rmtree(folder, ignore_errors=True)
    rounds: list[dict[str, Any]] = []
    changes: dict[str, Any] = {}
    for k in range(ROUNDS + 1):
        extra = [word for field, value in changes.items() for word in (f"--{field.replace('_', '-')}", _word(value))]
        out = folder / f"round{k}"
        summaries = trimtab("train", *argv, *extra, "--seeds", str(SEEDS), "--run-dir", str(out))
        returns = [s["ep_rew_mean"] for s in summaries]
        mean = stats.mean_interval(returns)
        said = trimtab("doctor", summaries[0]["run"])
        first = next((f for f in said["findings"] if f["verdict"] in ("act", "watch") and f["change"]), None)
        rounds.append(
            {
                "changes": dict(changes),
                "returns": returns,
                "interval": [mean.value, mean.lo, mean.hi],
                "said": first and {key: first[key] for key in ("check", "verdict", "seen", "change")},
            }
        )
        print(name, k, changes, [round(r, 1) for r in returns], "->", first and first["change"], flush=True)
        if first is None or all(changes.get(field) == value for field, value in first["change"].items()):
            break
        changes |= first["change"]
    return rounds


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Following the doctor",
        "",
        f"Made by `make advice` on {result['machine']['processor']}, {result['machine']['cores']} cores. Each case is "
        f"trained on {result['seeds']} seeds; `trimtab doctor` looks at the first seed's run, and its first suggestion "
        f"is taken, up to {ROUNDS} times. Mean return of the last 100 episodes, with the 95% interval over seeds. "
        "Every round is shown.",
        "",
    ]
    for name, rounds in result["cases"].items():
        lines += [f"## {name}", "", f"`trimtab train {' '.join(CASES[name])}`", ""]
        lines += ["| taken so far | return | what the doctor says then |", "|---|---|---|"]
        for row in rounds:
            taken = ", ".join(f"{k} {_word(v)}" for k, v in row["changes"].items()) or "nothing"
            mean, lo, hi = row["interval"]
            said = row["said"]
            then = f"{said['check']}: {said['seen']} → {said['change']}" if said else "nothing stands out"
            lines.append(f"| {taken} | {mean:.4g} ({lo:.4g} to {hi:.4g}) | {then} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="CASE", help="cases to follow again; no name: only write the page")
    given = parser.parse_args()
    file = RESULTS / "doctor.json"
    old = json.loads(file.read_text())["cases"] if given.only is not None and file.exists() else {}
    wanted = CASES if given.only is None else given.only
    cases = {name: followed(name, CASES[name]) if name in wanted else old[name] for name in CASES}
    result = {"machine": machine(), "seeds": SEEDS, "cases": cases}
    file.write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "doctor.md").write_text(page(result))


if __name__ == "__main__":
    main()
