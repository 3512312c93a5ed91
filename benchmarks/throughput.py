"""`make bench`: training throughput against Stable-Baselines3 on the same work, side by side in one run.

Both run in turns on the otherwise idle machine, several times each: the same N, T, epochs, minibatches and network. SB3
runs at the better of one and two torch threads, in its own environments (ale-py, MuJoCo's Python) where ours are
EnvPool's. Ratios of medians matter, not the figures. Writes docs/results/bench.json, a page and a figure; `--only`
measures some of the work again and leaves the other rows as they were, each with when and where it was measured.
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

from trimtab.training.device import machine

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
    "halfcheetah": {
        "env_id": "HalfCheetah-v4", "backend": "envpool", "num_envs": 8, "num_steps": 256, "update_epochs": 10,
        "num_minibatches": 32, "ent_coef": 0.0, "wanted": 5,
    },
    "hopper": {
        "env_id": "Hopper-v4", "backend": "envpool", "num_envs": 8, "num_steps": 256, "update_epochs": 10,
        "num_minibatches": 32, "ent_coef": 0.0, "wanted": 5,
    },
    "pong": {
        "env_id": "Pong-v5", "backend": "envpool", "num_envs": 8, "num_steps": 128, "update_epochs": 4,
        "num_minibatches": 4, "network": "nature", "arch": "shared", "wanted": 1,
    },
}  # fmt: skip
STEPS = {  # ours, and SB3's
    "pendulum": (400_000, 20_480), "cartpole": (1_000_000, 20_480), "cartpole-envpool": (600_000, 20_480),
    "halfcheetah": (102_400, 8_192), "hopper": (102_400, 8_192), "pong": (8_192, 4_096),
}  # fmt: skip
# Observations and outputs of the dense networks, to count their arithmetic.
SIZES = {"pendulum": (3, 1), "cartpole": (4, 2), "cartpole-envpool": (4, 2), "halfcheetah": (17, 6), "hopper": (11, 3)}

SB3 = """
import json, sys, time, torch
work, threads, steps = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack
batch = work["num_envs"] * work["num_steps"]
images = work.get("network") == "nature"
if images:
    import ale_py
    env = VecFrameStack(make_atari_env(work["env_id"].replace("-v5", "NoFrameskip-v4"), work["num_envs"]), 4)
else:
    env = make_vec_env(work["env_id"], work["num_envs"])
model = PPO("CnnPolicy" if images else "MlpPolicy", env, n_steps=work["num_steps"],
            batch_size=batch // work["num_minibatches"], n_epochs=work["update_epochs"], device="cpu",
            policy_kwargs={} if images else {"net_arch": [64, 64]})
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


def measure(names: list[str], scale: int, turns: int) -> dict[str, dict[str, Any]]:
    """Rows of the table, by name."""
    peak, rows = matmul_peak(), {}
    for name in names:
        ours, theirs = (steps // scale for steps in STEPS[name])
        rows[name] = in_turns(WORK[name], ours, theirs, turns) | {"measured": today()}
        if name in SIZES:
            gflops = rows[name]["trimtab"] * training_flops_per_step(WORK[name], *SIZES[name]) / 1e9
            rows[name] |= {"gflops": gflops, "peak_gflops": peak, "share_of_matmul_peak": gflops / peak}
        low, high = rows[name]["ratio_of_turns"]
        print(f"{name}: {rows[name]['trimtab']:,.0f} against {rows[name]['sb3']:,.0f} steps/s: "
              f"{rows[name]['ratio']:.1f} times ({low:.1f} to {high:.1f})", flush=True)  # fmt: skip
    return rows


def today() -> str:
    """When, on what code and on which machine something is measured."""
    words = ["git", "log", "-1", "--format=%h"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    where = machine()
    return f"{time.strftime('%Y-%m-%d')}, {commit}, {where['processor']}, {where['cores']} cores"


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps and one turn: noisier ratios")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(WORK), help="measure only these")
    given = parser.parse_args()
    scale, turns = (4, 1) if given.quick else (1, given.turns)
    file = RESULTS / "bench.json"
    results = json.loads(file.read_text()) if file.exists() else {"work": {}}
    results["work"] |= measure(given.only or list(WORK), scale, turns)
    if not given.only:
        results["two_seeds"] = two_seeds(STEPS["cartpole"][0] // scale, turns) | {"measured": today()}
        low, high = results["two_seeds"]["ratio_of_turns"]
        told = f"{results['two_seeds']['ratio']:.2f} times one ({low:.2f} to {high:.2f})"
        print(f"two seeds on two cores: {told}", flush=True)
        results |= shares(20 // scale)
    file.write_text(json.dumps(results, indent=1) + "\n")
    write_page(results)


def write_page(results: dict[str, Any]) -> None:
    from benchmarks.charts import throughput
    from trimtab.show import style

    style.save(throughput(results["work"]), RESULTS / "bench.svg")
    lines = [
        "# Throughput",
        "",
        "Made by `make bench` (some rows: `python -m benchmarks.throughput --only NAME`) on an otherwise idle machine. "
        "Both ran in turns, medians are shown and in brackets the lowest and highest ratio of a turn: the same N, T, "
        "epochs, minibatches and networks (64 × 64; Pong: the Nature CNN); SB3 at the better of one and two threads. "
        "Compiling is not counted; a second start of the same work finds its programs in the cache (but for the loop "
        "that steps EnvPool's environments, which is compiled every time). Halfcheetah, hopper and pong are stepped "
        "by EnvPool here and by MuJoCo's Python package and ale-py in SB3, as its users have them.",
        "",
        "| work | trimtab steps/s | SB3 steps/s | ratio | wanted | share of the matrix-product peak | second start "
        "compiles | measured |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, r in results["work"].items():
        share = f"{r['share_of_matmul_peak']:.1%} of {r['peak_gflops']:.0f} GFLOP/s" if name in SIZES else ""
        lines.append(
            f"| {name} | {r['trimtab']:,.0f} | {r['sb3']:,.0f} | {r['ratio']:.2f} ({r['ratio_of_turns'][0]:.2f} to "
            f"{r['ratio_of_turns'][1]:.2f}) | {r['wanted']} | {share} | {r['second_start_compile_seconds']:.1f} s | "
            f"{r['measured']} |"
        )
    two, light, wanted = results["two_seeds"], results["light_probe"], results["wanted"]
    spread = lambda shares: f"{shares[0]:.1%} (half of the turns: {shares[1]:.1%} to {shares[2]:.1%})"
    lines += [
        "",
        f"Two seeds on two cores: {two['ratio']:.2f} times one seed ({two['ratio_of_turns'][0]:.2f} to "
        f"{two['ratio_of_turns'][1]:.2f}; wanted {two['wanted']}; {two['measured']}, as what follows).",
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
