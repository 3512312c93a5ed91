"""`make invariance`: stale data under three losses, and one configuration at four batch sizes, adjusted and not.

Writes docs/results/staleness.* and docs/results/rescale-GAME.*. Each configuration is a process of its own, one per
core.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.curves import curve, final_returns, machine, smoothed
from trimtab import presets, stats
from trimtab.config import Config, from_dict
from trimtab.playbook.rescale import rescale

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
SEEDS = [1, 2, 3, 4, 5]
STALENESS = (0, 1, 2, 4, 8, 16)
LOSSES = ("decoupled", "behavior", "recent")
SIZES = (64, 16, 4, 1)


def one(argument: tuple[str, dict[str, Any]]) -> tuple[str, list[float], list[dict[str, Any]]]:
    """A named configuration on every seed: final returns, and curves as rows."""
    name, values = argument
    config = from_dict(values)
    frame = curve(config, SEEDS)
    return name, final_returns(frame, config.steps, SEEDS), smoothed(frame, config.steps, name).to_dicts()


def run(configs: dict[str, Config]) -> tuple[dict[str, list[float]], pl.DataFrame]:
    from trimtab.studies.workers import cores

    finals, rows = {}, []
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for name, values, curves in pool.map(one, [(n, c.as_dict()) for n, c in configs.items()]):
            finals[name] = values
            rows += curves
            print(f"{name}: {', '.join(f'{v:.4g}' for v in values)}", flush=True)
    return finals, pl.DataFrame(rows)


def estimate(values: list[float]) -> dict[str, float]:
    found = stats.mean_interval(values)
    return {"mean": found.value, "lo": found.lo, "hi": found.hi}


def difference(a: list[float], b: list[float]) -> dict[str, float]:
    """Mean of a - b over seeds with its interval (the same seeds, so paired)."""
    return estimate([x - y for x, y in zip(a, b)])


def shown(e: dict[str, float]) -> str:
    return f"{e['mean']:.1f} [{e['lo']:.1f}, {e['hi']:.1f}]"


def staleness() -> None:
    """PPO on CartPole-v1, one policy epoch more than once stale: final return by staleness and loss."""
    base = from_dict(
        presets.load("ppo/CartPole-v1")
        | {"num_envs": 8, "num_steps": 64, "total_timesteps": 200_000, "learning_rate": 1e-3, "update_epochs": 2}
    )
    configs = {"fresh": base}
    for loss in LOSSES:
        for k in STALENESS[1:]:
            configs[f"{loss} {k}"] = base.replace(staleness=k, staleness_loss=loss)
    finals, _ = run(configs)
    table = {loss: {k: finals["fresh" if k == 0 else f"{loss} {k}"] for k in STALENESS} for loss in LOSSES}
    result = {
        "command": "make invariance",
        "machine": machine(),
        "seeds": SEEDS,
        "config": base.as_dict(),
        "final_returns": {loss: {str(k): v for k, v in row.items()} for loss, row in table.items()},
    }
    (RESULTS / "staleness.json").write_text(json.dumps(result, indent=1) + "\n")
    lines = [
        "# Stale data",
        "",
        "PPO on CartPole-v1, 200,000 steps, batch 8 × 64, every batch used after waiting k iterations; mean final "
        "return (last tenth of training) over 5 seeds with its 95% interval (Student t). Made by `make invariance` on "
        f"{_where(result['machine'])}.",
        "",
        "- `decoupled`: importance weights against the policy that acted, updates kept near the policy just before.",
        "- `behavior`: both against the policy that acted.",
        "- `recent`: both against the policy just before (biased on purpose).",
        "",
        "| loss | " + " | ".join(f"k = {k}" for k in STALENESS) + " |",
        "|---|" + "---|" * len(STALENESS),
    ]
    for loss, row in table.items():
        lines.append(f"| {loss} | " + " | ".join(shown(estimate(row[k])) for k in STALENESS) + " |")
    lines += ["", "![Final return by staleness](staleness.svg)", "", *_staleness_findings(table), ""]
    (RESULTS / "staleness.md").write_text("\n".join(lines))
    from trimtab.report import study, style

    rows = [{"loss": loss, "staleness": k, **estimate(row[k])} for loss, row in table.items() for k in STALENESS]
    style.save(study.by_staleness(pl.DataFrame(rows)), RESULTS / "staleness.svg")


def _staleness_findings(table: dict[str, dict[int, list[float]]]) -> list[str]:
    """What the intervals say, in words, whatever it is."""
    found = []
    for k in STALENESS[1:]:
        for other in ("behavior", "recent"):
            gap = difference(table["decoupled"][k], table[other][k])
            if gap["lo"] > 0:
                found.append(f"- k = {k}: decoupled beats {other} by {shown(gap)}.")
            elif gap["hi"] < 0:
                found.append(f"- k = {k}: decoupled loses to {other} by {shown(gap)}.")
    return found or ["No difference between the losses is resolved on five seeds."]


GAMES = {
    "CartPole-v1": {"total_timesteps": 300_000, "learning_rate": 2e-3, "policy_iterations": 8},
    "Breakout-MinAtar": {
        "total_timesteps": 600_000,
        "learning_rate": 2e-3,
        "policy_iterations": 8,
        "update_epochs": 1,
        "hidden_sizes": [64, 64],
    },
}
COMMON = {
    "num_envs": 64,
    "num_steps": 32,
    "num_minibatches": 8,
    "aux_minibatch_size": 1024,
    "max_grad_norm": None,
    "anneal_lr": "constant",
}
UNADJUSTED = ("learning_rate", "prox_com", "norm_adv")


def invariance(game: str) -> None:
    """PPG-EWMA from 64 environments down to 1, with the paper's adjustments and without."""
    base = from_dict(presets.load(f"ppg-ewma/{game}") | COMMON | GAMES[game])
    configs = {"64 environments": base}
    for n in SIZES[1:]:
        configs[f"{n} adjusted"] = rescale(base, num_envs=n).config
        configs[f"{n} unadjusted"] = rescale(base, num_envs=n, skip=UNADJUSTED).config
    finals, curves = run(configs)
    reference = finals["64 environments"]
    rows = {name: {"final": estimate(v), "difference": difference(v, reference)} for name, v in finals.items()}
    result = {
        "command": f"python -m benchmarks.invariance --only {game}",
        "machine": machine(),
        "seeds": SEEDS,
        "config": base.as_dict(),
        "final_returns": finals,
        "summary": rows,
    }
    name = f"rescale-{game}"
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(page(game, base, result))
    from trimtab.report import style

    for kind in ("adjusted", "unadjusted"):
        names = ["64 environments", *(f"{n} {kind}" for n in SIZES[1:])]
        shown_curves = curves.filter(pl.col("series").is_in(names))
        chart = style.learning_curves(shown_curves, f"PPG-EWMA at four batch sizes, {kind}", game, names)
        style.save(chart, RESULTS / f"{name}-{kind}.svg")


def page(game: str, base: Config, result: dict[str, Any]) -> str:
    name, finals = f"rescale-{game}", result["final_returns"]
    gains = {n: difference(finals[f"{n} adjusted"], finals[f"{n} unadjusted"]) for n in SIZES[1:]}
    lines = [
        f"# From 64 environments to 1: {game}",
        "",
        f"PPG-EWMA on {game}, {base.steps:,} steps, T = {base.num_steps}, {base.minibatches} minibatches, "
        f"{base.update_epochs} policy epoch(s): `trimtab rescale --num-envs N` against the same with step size, "
        f"proximal COM and advantage span left alone (`--skip {','.join(UNADJUSTED)}`; N_π is scaled in both, so "
        f"that a phase holds the same data). Mean final return (last tenth) over {len(result['seeds'])} seeds with its "
        "95% interval; differences are paired by seed. "
        f"Made by `{result['command']}` on {_where(result['machine'])}.",
        "",
        "| configuration | final return | difference to 64 environments |",
        "|---|---|---|",
        *(f"| {n} | {shown(r['final'])} | {shown(r['difference'])} |" for n, r in result["summary"].items()),
        "",
        "| environments | adjusted − unadjusted | |",
        "|---|---|---|",
        *(f"| {n} | {shown(gain)} | {_verdict(gain)} |" for n, gain in gains.items()),
        "",
        *(f"![{kind}]({name}-{kind}.svg)\n" for kind in ("adjusted", "unadjusted")),
    ]
    return "\n".join(lines)


def _verdict(gain: dict[str, float]) -> str:
    if gain["lo"] <= 0 <= gain["hi"]:
        return "not resolved"
    return "the adjustments help" if gain["lo"] > 0 else "the adjustments hurt"


def _where(machine: dict[str, Any]) -> str:
    return f"{machine['processor']}, {machine['cores']} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("staleness", *GAMES), help="one study")
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if given.only in (None, "staleness"):
        staleness()
    for game in GAMES:
        if given.only in (None, game):
            invariance(game)


if __name__ == "__main__":
    main()
