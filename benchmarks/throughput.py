"""`make bench`: training throughput against Stable-Baselines3 on the same work, side by side in one run.

Both run in turns on the otherwise idle machine, several times each: the same N, T, epochs, minibatches and network. SB3
runs at the better of one and two torch threads. Ratios of medians matter, not the figures. Writes
docs/results/bench.json, a page and a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trimtab.runs.device import machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"

WORK: dict[str, dict[str, Any]] = {
    "pendulum": {
        "env_id": "Pendulum-v1", "num_envs": 4, "num_steps": 256, "update_epochs": 10, "num_minibatches": 32,
        "ent_coef": 0.0, "wanted": 30,
    },
    "cartpole": {
        "env_id": "CartPole-v1", "num_envs": 4, "num_steps": 128, "update_epochs": 4, "num_minibatches": 4,
        "wanted": 40,
    },
    "cartpole-envpool": {
        "env_id": "CartPole-v1", "backend": "envpool", "num_envs": 64, "num_steps": 64, "update_epochs": 4,
        "num_minibatches": 16, "wanted": 5,
    },
}  # fmt: skip

SB3 = """
import json, sys, time, torch
work, threads, steps = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
batch = work["num_envs"] * work["num_steps"]
model = PPO("MlpPolicy", make_vec_env(work["env_id"], work["num_envs"]), n_steps=work["num_steps"],
            batch_size=batch // work["num_minibatches"], n_epochs=work["update_epochs"], device="cpu",
            policy_kwargs={"net_arch": [64, 64]})
model.learn(batch)  # warm up
begun = time.perf_counter()
model.learn(steps)
print(json.dumps({"fps": max(1, -(-steps // batch)) * batch / (time.perf_counter() - begun)}))
"""


def train(work: dict[str, Any], steps: int, extra: list[str] | None = None) -> dict[str, Any] | list[dict[str, Any]]:
    """One `trimtab train` process; compiling is not counted in its steps/s."""
    flags = []
    for name, value in work.items():
        if name not in ("wanted", "env_id"):
            flags += [f"--{name.replace('_', '-')}", str(value)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trimtab.cli", "train", work["env_id"], "--preset", "none", *flags]
        command += ["--total-timesteps", str(steps), "--run-dir", f"{folder}/run", "--json", "--checkpoints", "1"]
        out = subprocess.run([*command, *(extra or [])], capture_output=True, text=True, check=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def sb3(work: dict[str, Any], steps: int) -> dict[str, float]:
    """SB3's steps/s at one and at two torch threads."""
    speeds = {}
    for threads in (1, 2):
        command = [sys.executable, "-c", SB3, json.dumps(work), str(threads), str(steps)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        speeds[str(threads)] = json.loads(out.strip().splitlines()[-1])["fps"]
    return speeds


def matmul_peak() -> float:
    """GFLOP/s of a large float32 matrix product on one XLA thread: what training's share is measured against."""
    script = (
        "import jax, jax.numpy as jnp, time\n"
        "a = jnp.ones((1024, 1024)); f = jax.jit(lambda a: a @ a); f(a).block_until_ready(); best = 1e9\n"
        "for _ in range(20):\n"
        "    t = time.perf_counter(); f(a).block_until_ready(); best = min(best, time.perf_counter() - t)\n"
        "print(2 * 1024**3 / best / 1e9)"
    )
    env = os.environ | {"NPROC": "1"}
    return float(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True).stdout
    )


def training_flops_per_step(work: dict[str, Any], obs: int, outputs: int) -> float:
    """Multiply-adds (counted as 2) of two 64 × 64 networks per environment step: acting, values and every update."""
    network = lambda out: 2 * (obs * 64 + 64 * 64 + 64 * out)
    policy, value = network(outputs), network(1)
    return policy + value + 3 * work["update_epochs"] * (policy + value)


def in_turns(work: dict[str, Any], steps: int, sb3_steps: int, turns: int) -> dict[str, Any]:
    """Median steps/s of both sides over several turns, and the ratio with the lowest and highest of any turn."""
    train(work, steps)  # the first start fills the compilation cache
    ours, theirs, ratios = [], [], []
    for _ in range(turns):
        ours.append(train(work, steps))
        theirs.append(sb3(work, sb3_steps))
        ratios.append(ours[-1]["fps"] / max(theirs[-1].values()))
    by_threads = {threads: statistics.median(speeds[threads] for speeds in theirs) for threads in theirs[0]}
    speed, best = statistics.median(run["fps"] for run in ours), max(by_threads.values())
    return {
        "work": work,
        "trimtab": speed,
        "sb3": best,
        "sb3_by_threads": by_threads,
        "ratio": speed / best,
        "ratio_of_turns": [min(ratios), max(ratios)],
        "wanted": work["wanted"],
        "second_start_compile_seconds": ours[0]["compile_seconds"],
    }


def measure(steps: dict[str, int], sb3_steps: int, turns: int) -> dict[str, Any]:
    sizes = {"pendulum": (3, 1), "cartpole": (4, 2), "cartpole-envpool": (4, 2)}
    peak = matmul_peak()
    results: dict[str, Any] = {"matmul_peak_gflops": peak, "work": {}}
    for name, work in WORK.items():
        found = in_turns(work, steps[name], sb3_steps, turns)
        gflops = found["trimtab"] * training_flops_per_step(work, *sizes[name]) / 1e9
        results["work"][name] = found | {"gflops": gflops, "share_of_matmul_peak": gflops / peak}
        low, high = found["ratio_of_turns"]
        print(f"{name}: {found['trimtab']:,.0f} against {found['sb3']:,.0f} steps/s: {found['ratio']:.1f} times "
              f"({low:.1f} to {high:.1f})", flush=True)  # fmt: skip
    results["two_seeds"] = two_seeds(steps["cartpole"], turns)
    low, high = results["two_seeds"]["ratio_of_turns"]
    print(
        f"two seeds on two cores: {results['two_seeds']['ratio']:.2f} times one ({low:.2f} to {high:.2f})", flush=True
    )
    return results


def two_seeds(steps: int, turns: int) -> dict[str, Any]:
    """Steps/s of two seeds at once against one, in turns."""
    one, two = [], []
    for _ in range(turns):
        one.append(train(WORK["cartpole"], steps)["fps"])
        two.append(train(WORK["cartpole"], steps, ["--seeds", "2"])[0]["aggregate_fps"])
    ratios = [together / alone for alone, together in zip(one, two)]
    return {
        "one": statistics.median(one),
        "two_together": statistics.median(two),
        "ratio": statistics.median(two) / statistics.median(one),
        "ratio_of_turns": [min(ratios), max(ratios)],
        "wanted": 1.7,
    }


def shares(turns: int) -> dict[str, Any]:
    """What the EWMA adds to an update and a light probe to training: [median, quartiles] (see benchmarks.updates)."""
    command = [sys.executable, "-m", "benchmarks.updates", str(turns)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    found = json.loads(out.strip().splitlines()[-1])
    light = found["light_probe"]
    print(f"light probe: {light['every_1'][0]:.1%} on every iteration, {light['every_10'][0]:.1%} on every tenth")
    print(f"EWMA: {found['ewma'][0]:.1%} of an update", flush=True)
    return found | {"wanted": {"every_1": 0.25, "every_10": 0.03}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps: noisier ratios")
    given = parser.parse_args()
    scale = 4 if given.quick else 1
    begun = time.time()
    steps = {"pendulum": 400_000 // scale, "cartpole": 1_000_000 // scale, "cartpole-envpool": 600_000 // scale}
    results = measure(steps, 20_480 // scale, 1 if given.quick else 5) | shares(20 // scale)
    results |= {
        "command": "make bench" if not given.quick else "python -m benchmarks.throughput --quick",
        "machine": machine(),
        "seconds": time.time() - begun,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    write_page(results)


def write_page(results: dict[str, Any]) -> None:
    from trimtab.report import bench_charts, style

    style.save(bench_charts.throughput(results["work"]), RESULTS / "bench.svg")
    where = results["machine"]
    lines = [
        "# Throughput",
        "",
        f"Made by `{results['command']}` on {where['processor']}, {where['cores']} cores, otherwise idle. Both ran in "
        "turns, medians are shown and in brackets the lowest and highest ratio of a turn: the same N, T, epochs, "
        "minibatches and 64 × 64 networks; SB3 at the better of one and two threads. Compiling is not counted; a "
        "second start of the same work finds its programs in the cache (but for the loop that steps EnvPool, which is "
        "compiled every time).",
        "",
        "| work | trimtab steps/s | SB3 steps/s | ratio | wanted | share of the matrix-product peak | second start "
        "compiles |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, r in results["work"].items():
        lines.append(
            f"| {name} | {r['trimtab']:,.0f} | {r['sb3']:,.0f} | {r['ratio']:.1f} ({r['ratio_of_turns'][0]:.1f} to "
            f"{r['ratio_of_turns'][1]:.1f}) | {r['wanted']} | "
            f"{r['share_of_matmul_peak']:.1%} of {results['matmul_peak_gflops']:.0f} GFLOP/s | "
            f"{r['second_start_compile_seconds']:.1f} s |"
        )
    two, light, wanted = results["two_seeds"], results["light_probe"], results["wanted"]
    spread = lambda shares: f"{shares[0]:.1%} (half of the turns: {shares[1]:.1%} to {shares[2]:.1%})"
    lines += [
        "",
        f"Two seeds on two cores: {two['ratio']:.2f} times one seed ({two['ratio_of_turns'][0]:.2f} to "
        f"{two['ratio_of_turns'][1]:.2f}; wanted {two['wanted']}).",
        "",
        f"A light probe adds to training time on Pendulum 4 × 256: {spread(light['every_1'])} on every iteration "
        f"(wanted at most {wanted['every_1']:.0%}), {spread(light['every_10'])} on every tenth (wanted at most "
        f"{wanted['every_10']:.0%}).",
        "",
        f"The EWMA adds to the time of an update there: {spread(results['ewma'])}. It is one more forward pass of the "
        "policy per minibatch and one average of the weights per gradient step.",
        "",
        "![Steps per second](bench.svg)",
        "",
    ]
    (RESULTS / "bench.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
