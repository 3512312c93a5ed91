"""`make learn`: every learning result, run for real, into docs/results/learning.json and the page made from it.

Each study is a declaration: environment, algorithm, seeds, what is measured and what it should reach. Results that are
already in the JSON are kept unless --again is given, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from trimtab import presets, stats
from trimtab.config import Config, from_dict
from trimtab.runs.records import RunDir, write_atomically
from trimtab.runs.run import load
from trimtab.studies.workers import Task, run_all

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
RUNS = ROOT / "runs" / "learn"


@dataclass(frozen=True)
class Study:
    """One row of the page.

    `reach` is the value at least `enough` of the seeds must reach, `mean` the mean over seeds.
    """

    name: str
    env_id: str
    algo: str = "ppo"
    seeds: tuple[int, ...] = (1, 2, 3)
    measure: str = "last 100 episodes"
    reach: float | None = None
    enough: int = 0
    mean: float | None = None
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        return from_dict(presets.load(presets.find(self.env_id, self.algo)) | self.overrides)


TEN, FIVE = tuple(range(1, 11)), tuple(range(1, 6))
SHORT = {"total_timesteps": 2_000_000}
STUDIES = [
    Study("cartpole-batch", "CartPole-v1", seeds=TEN, reach=475, enough=9, mean=485),
    Study(
        "cartpole-minibatch",
        "CartPole-v1",
        seeds=TEN,
        reach=475,
        enough=9,
        mean=485,
        overrides={"norm_adv": "minibatch"},
    ),
    Study("pendulum", "Pendulum-v1", seeds=TEN, measure="evaluation", reach=-200, enough=8),
    Study("acrobot", "Acrobot-v1", seeds=TEN, mean=-90),
    Study("frozenlake8x8", "FrozenLake8x8-v1", seeds=FIVE, measure="exact greedy value", reach=0.37, enough=5),
    Study("breakout-minatar", "Breakout-MinAtar", mean=20),
    Study("asterix-minatar", "Asterix-MinAtar", seeds=(1, 2), overrides=SHORT),
    Study("halfcheetah-v4", "HalfCheetah-v4", mean=1400),
    Study("reinforce-cartpole", "CartPole-v1", "reinforce", FIVE, reach=475, enough=4),
    *(
        Study(f"{algo}-cartpole", "CartPole-v1", algo, TEN, reach=475, enough=9)
        for algo in ("ppo-ewma", "ppg", "ppg-ewma")
    ),
    *(Study(f"{algo}-pendulum", "Pendulum-v1", algo) for algo in ("ppo-ewma", "ppg", "ppg-ewma")),
    *(
        Study(f"{algo}-{game.lower()}-minatar", f"{game}-MinAtar", algo, (1, 2), overrides=SHORT)
        for game in ("Breakout", "Asterix")
        for algo in ("ppo-ewma", "ppg", "ppg-ewma")
    ),
]


def measured(study: Study, path: Path, summary: dict[str, Any]) -> float:
    """The number a study is about, for one seed."""
    if study.measure == "last 100 episodes":
        return summary["ep_rew_mean"]
    if study.measure == "evaluation":
        from trimtab.runs.evaluate import evaluate_run

        return evaluate_run(path, episodes=20)["eval/mean_reward"]
    return exact_greedy_value(path)


def exact_greedy_value(path: Path) -> float:
    """Discounted value of the greedy policy from the start, solved exactly on the finite MDP (no time limit)."""
    from trimtab.anatomy import exact
    from trimtab.runs.opening import opened

    config, engine, state, _ = opened(path, None)
    algorithm, env = engine.algorithm, engine.algorithm.env
    obs = algorithm.seen(state.obs_stats, env.state_obs(), engine.hypers)
    greedy = np.asarray(algorithm.dist.mode(algorithm.agent.policy(state.params.policy, obs)))
    policy = np.eye(env.mdp.num_actions)[greedy]
    problem = exact.problem(env.mdp, policy, config.gamma)
    return float(problem.rho @ exact.values(problem))


def measure_again(study: Study) -> dict[str, Any]:
    """Measure the runs that are there, without training."""
    paths = {seed: RUNS / study.name / f"seed{seed}" for seed in study.seeds}
    summaries = {s: load(p).summary() for s, p in paths.items()}
    values = {s: measured(study, paths[s], summaries[s]) for s in study.seeds}
    return result_of(study, load(paths[study.seeds[0]]).config, values, summaries, paths)


def run_study(study: Study) -> dict[str, Any]:
    """Train every seed, measure, compare with what it should reach."""
    folder = RUNS / study.name
    shutil.rmtree(folder, ignore_errors=True)
    config = study.config
    write_atomically(folder / "config.yaml", yaml.safe_dump(config.as_dict(), sort_keys=False).encode())
    paths = {seed: folder / f"seed{seed}" for seed in study.seeds}
    tasks = [
        Task(f"{study.name} seed {s}", ["train", "--config", str(folder / "config.yaml"), "--seed", str(s)])
        for s in study.seeds
    ]
    for task, path in zip(tasks, paths.values()):
        task.argv += ["--run-dir", str(path), "--checkpoints", "2", "--json"]
    outputs = run_all(tasks)
    summaries = {s: json.loads(outputs[f"{study.name} seed {s}"]) for s in study.seeds}
    values = {s: measured(study, paths[s], summaries[s]) for s in study.seeds}
    return result_of(study, config, values, summaries, paths)


def result_of(study: Study, config: Config, values: dict[int, float], summaries, paths) -> dict[str, Any]:
    numbers = list(values.values())
    mean = stats.mean_interval(numbers)
    reached = None if study.reach is None else sum(v >= study.reach for v in numbers)
    passed = (study.reach is None or reached >= study.enough) and (study.mean is None or mean.value >= study.mean)
    return {
        "env_id": study.env_id,
        "algo": study.algo,
        "measure": study.measure,
        "total_timesteps": summaries[study.seeds[0]]["total_timesteps"],
        "returns": {str(s): round(v, 4) for s, v in values.items()},
        "mean": mean.value,
        "interval": [mean.lo, mean.hi],
        "iqm": stats.iqm(numbers),
        "wanted": {"reach": study.reach, "seeds": study.enough, "mean": study.mean},
        "reached": reached,
        "passed": bool(passed),
        "fps": float(np.mean([s["fps"] for s in summaries.values()])),
        "overrides": study.overrides,
        "command": f"python -m benchmarks.learn --only {study.name}",
        "manifest": RunDir.open(paths[study.seeds[0]]).manifest() | {"command": None},
        "curve": curve(paths),
    }


def curve(paths: dict[int, Path], points: int = 60) -> dict[str, list]:
    """Learning curves, thinned for drawing: step, return and seed."""
    columns: dict[str, list] = {"step": [], "return": [], "seed": []}
    for seed, path in paths.items():
        rows = [r for r in RunDir.open(path).metrics() if "rollout/ep_rew_mean" in r]
        for r in rows[:: max(1, len(rows) // points)]:
            columns["step"].append(r["time/total_timesteps"])
            columns["return"].append(round(r["rollout/ep_rew_mean"], 3))
            columns["seed"].append(seed)
    return columns


def page(results: dict[str, Any]) -> str:
    """The results as Markdown, beside figures saved from the same JSON."""
    from trimtab.report import style

    first = next(iter(results.values()))["manifest"]
    lines = [
        "# Learning results",
        "",
        "Made by `make learn` (each row by `python -m benchmarks.learn --only STUDY`) on "
        f"{first['machine']['processor']}, {first['machine']['device']}, JAX {first['packages']['jax']}. "
        "Mean over seeds with its 95% interval (Student t). Machine-readable: `learning.json`.",
        "",
        "| study | environment | algorithm | steps | seeds | measure | mean [95%] | wanted | met | steps/s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, r in results.items():
        wanted = []
        if r["wanted"]["reach"] is not None:
            wanted.append(f"≥ {r['wanted']['reach']:g} on {r['wanted']['seeds']} (got {r['reached']})")
        if r["wanted"]["mean"] is not None:
            wanted.append(f"mean ≥ {r['wanted']['mean']:g}")
        met = "yes" if r["passed"] else "no"
        lines.append(
            f"| {name} | {r['env_id']} | {r['algo']} | {r['total_timesteps']:,} | {len(r['returns'])} | "
            f"{r['measure']} | {r['mean']:.4g} [{r['interval'][0]:.4g}, {r['interval'][1]:.4g}] | "
            f"{'; '.join(wanted) or 'reported'} | {met if wanted else ''} | {r['fps']:,.0f} |"
        )
    lines += ["", "`exact greedy value`: the greedy policy's discounted value, solved on the MDP (optimum 0.412).", ""]
    for env_id in dict.fromkeys(r["env_id"] for r in results.values()):
        frames = [
            pl.DataFrame(r["curve"]).with_columns(pl.lit(name).alias("series"))
            for name, r in results.items()
            if r["env_id"] == env_id
        ]
        file = f"learning-{env_id}.svg"
        style.save(style.learning_curves(pl.concat(frames), env_id, "mean over seeds, band: all seeds"), RESULTS / file)
        lines += [f"![Learning curves on {env_id}]({file})", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="studies to run, by name")
    parser.add_argument("--again", action="store_true", help="run studies again that have results")
    parser.add_argument("--measure", action="store_true", help="measure existing runs again, without training")
    given = parser.parse_args()
    file = RESULTS / "learning.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for study in STUDIES:
        if given.only is not None and study.name not in given.only:
            continue
        if study.name in results and not given.again and given.only is None:
            continue
        r = measure_again(study) if given.measure else run_study(study)
        results = (json.loads(file.read_text()) if file.exists() else {}) | {study.name: r}
        print(f"{study.name}: mean {r['mean']:.4g}, reached {r['reached']}, passed {r['passed']}", flush=True)
        ordered = {s.name: results[s.name] for s in STUDIES if s.name in results}
        write_atomically(file, (json.dumps(ordered, indent=1) + "\n").encode())
    ordered = {s.name: results[s.name] for s in STUDIES if s.name in results}
    write_atomically(RESULTS / "learning.md", page(ordered).encode())


if __name__ == "__main__":
    main()
