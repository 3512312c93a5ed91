"""All pairwise inner products of per-sample policy gradients: the layer-wise Gram against PyTorch, in one run.

1,024 samples of a 64 × 64 Gaussian policy on Pendulum-sized observations. PyTorch twice: a loop of backward passes plus
a matrix product, and torch.func's vmap(grad) plus a matrix product; on one thread each and on two each.
Also: what a full probe takes after compiling, and the memory of 16,384 IMPALA samples. Writes
docs/results/gradients.{json,md}.
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

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
SAMPLES, TURNS = 1024, 7
WANTED = {"loop": 100, "vmap": 15}  # times the layer-wise Gram should be faster


def fastest(function, repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return min(times)


def jax_gram() -> tuple[float, Any]:
    import jax
    import jax.numpy as jnp

    from trimtab.nets.agent import Agent
    from trimtab.nets.heads import Gaussian
    from trimtab.training.sample_gradients import PerSample, Samples

    agent = Agent((3,), "float32", Gaussian((-2.0,), (2.0,)), hidden_sizes=(64, 64))
    params = agent.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 3)
    samples = Samples(
        jax.random.normal(keys[0], (SAMPLES, 3)),
        jax.random.normal(keys[1], (SAMPLES, 1)),
        jax.random.normal(keys[2], (SAMPLES,)),
        jnp.zeros(SAMPLES),
    )
    gram = jax.jit(PerSample(agent, "layers").gram)
    seconds = fastest(lambda: gram(params, samples).block_until_ready(), 200)
    return seconds, (agent, params, samples, gram(params, samples))


def torch_times(threads: int, state) -> dict[str, float]:
    """The same network and samples in PyTorch."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    agent, params, samples, gram = state
    net = agent.policy_net(params.policy)
    tensors = [
        torch.tensor(np.asarray(x)) for layer in (*net.trunk.layers, net.head) for x in (layer.weight, layer.bias)
    ]
    tensors.append(torch.tensor(np.asarray(net.log_std)))
    leaves = tuple(t.clone().requires_grad_() for t in tensors)
    obs, action, advantage = (torch.tensor(np.asarray(x)) for x in samples[:3])

    def objective(leaves, o, a, adv):
        x = torch.tanh(o @ leaves[0] + leaves[1])
        x = torch.tanh(x @ leaves[2] + leaves[3])
        mean, log_std = x @ leaves[4] + leaves[5], leaves[6]
        return (adv * (-0.5 * ((a - mean) / log_std.exp()) ** 2 - log_std).sum(-1)).sum()

    def loop():
        rows = []
        for i in range(SAMPLES):
            gradient = torch.autograd.grad(objective(leaves, obs[i], action[i], advantage[i]), leaves)
            rows.append(torch.cat([g.reshape(-1) for g in gradient]))
        matrix = torch.stack(rows)
        return matrix @ matrix.T

    per_sample = torch.func.vmap(torch.func.grad(objective), in_dims=(None, 0, 0, 0))

    def vmapped():
        gradient = per_sample(tuple(tensors), obs, action, advantage)
        matrix = torch.cat([g.reshape(SAMPLES, -1) for g in gradient], 1)
        return matrix @ matrix.T

    scale = float(np.abs(np.asarray(gram)).max())
    error = float(np.abs(vmapped().numpy() - np.asarray(gram)).max()) / scale
    return {"loop": fastest(loop, 3), "vmap": fastest(vmapped, 15), "relative_difference": error}


def full_probe_seconds() -> dict[str, float]:
    """A full probe of Pendulum 4 × 256 with 32 replicates and every quantity, before and after compiling."""
    from trimtab.config import from_dict
    from trimtab.gradient.probe_options import ProbeOptions
    from trimtab.gradient.probing import Prober
    from trimtab.presets import load
    from trimtab.training.engine_setup import load_engine
    from trimtab.training.loop import train

    with tempfile.TemporaryDirectory() as folder:
        config = from_dict(load("ppo/Pendulum-v1") | {"num_envs": 4, "num_steps": 256, "total_timesteps": 20_480})
        run = train(config, Path(folder) / "run", checkpoints=1)
        config, engine, state, step = load_engine(run.path, None)
        prober = Prober(config, engine.algorithm, state, ProbeOptions(replicates=32))
        begun = time.perf_counter()
        prober.anatomy(step)
        first = time.perf_counter() - begun
        return {"first": first, "after_compiling": fastest(lambda: prober.anatomy(step), 1)}


IMPALA = """
import jax, jax.numpy as jnp, resource
from trimtab.training.sample_gradients import PerSample, Samples, chunked_vectors
from trimtab.nets.agent import Agent
from trimtab.nets.heads import Categorical
agent = Agent((64, 64, 3), "uint8", Categorical(15), network="impala", hidden_sizes=(256,), arch="shared")
params, way, count = agent.init(jax.random.key(0)), PerSample(agent), {count}
samples = Samples(
    jnp.zeros((count, 64, 64, 3), jnp.uint8), jnp.zeros(count, jnp.int32), jnp.ones(count), jnp.ones(count)
)
rows = jax.jit(lambda p, s: chunked_vectors(way, p, s))
total = jnp.zeros(way.width)
for start in range(0, count, 256):
    part = jax.tree.map(lambda x: x[start : start + 256], samples)
    total = total + rows(params, part).sum(0)
total.block_until_ready()
print(way.method, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def impala_memory(count: int) -> dict[str, Any]:
    out = subprocess.run([sys.executable, "-c", IMPALA.format(count=count)], capture_output=True, text=True, check=True)
    method, gib = out.stdout.split()
    return {"samples": count, "method": method, "peak_gib": float(gib), "wanted_gib": 4}


def gram_seconds(threads: int) -> float:
    """The layer-wise Gram in a process with this many XLA threads."""
    command = [sys.executable, "-c", "from benchmarks.gradients import jax_gram; print(jax_gram()[0])"]
    environment = os.environ | {"NPROC": str(threads)}
    cwd = Path(__file__).resolve().parents[1]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=cwd).stdout)


def grams() -> dict[str, Any]:
    """The layer-wise Gram and PyTorch's two ways in turns, on one thread each and on two each.

    Of a turn the best of many repeats counts; medians over turns, and the lowest and highest ratio of a turn.
    """
    _, state = jax_gram()
    turns = {threads: [] for threads in (1, 2)}
    for _ in range(TURNS):
        for threads, found in turns.items():
            found.append({"layers": gram_seconds(threads)} | torch_times(threads, state))
    return {"samples": SAMPLES, "turns": TURNS, "threads": {str(k): summary(found) for k, found in turns.items()}}


def summary(turns: list[dict[str, float]]) -> dict[str, Any]:
    """Medians and ratios of the turns at one number of threads."""
    median = lambda key: statistics.median(turn[key] for turn in turns)
    ratios = {way: [turn[way] / turn["layers"] for turn in turns] for way in WANTED}
    return {
        "layers_seconds": median("layers"),
        "relative_difference": max(turn["relative_difference"] for turn in turns),
        "pytorch": {
            way: {
                "seconds": median(way),
                "ratio": median(way) / median("layers"),
                "ratio_of_turns": [min(ratios[way]), max(ratios[way])],
                "wanted": wanted,
            }
            for way, wanted in WANTED.items()
        },
    }


PARTS = {
    "grams": grams,
    "full_probe": lambda: full_probe_seconds() | {"wanted": 20},
    "impala": lambda: impala_memory(16_384),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), help="measure one part again, keep the others")
    given = parser.parse_args()
    from trimtab.training import device

    device.prepare(1)
    file = RESULTS / "gradients.json"
    result = json.loads(file.read_text()) if given.only and file.exists() else {}
    result |= {"command": "python -m benchmarks.gradients", "machine": machine()}
    for name, part in PARTS.items():
        if given.only in (None, name):
            result[name] = part()
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "gradients.md").write_text(page(result))
    print(json.dumps(result, indent=1))


def page(result: dict[str, Any]) -> str:
    gram, probe, impala, where = (result[k] for k in ("grams", "full_probe", "impala", "machine"))
    ratio = lambda found: (
        f"{found['ratio']:.1f} times ({found['ratio_of_turns'][0]:.1f} to {found['ratio_of_turns'][1]:.1f}; "
        f"wanted {found['wanted']})"
    )
    rows = "".join(
        f"| {threads} | {found['layers_seconds'] * 1e3:.1f} "
        + "".join(f"| {way['seconds'] * 1e3:.0f} | {ratio(way)} " for way in found["pytorch"].values())
        + "|\n"
        for threads, found in gram["threads"].items()
    )
    difference = max(found["relative_difference"] for found in gram["threads"].values())
    return (
        "# Per-sample gradients\n\n"
        f"Made by `{result['command']}` on {where['processor']}, {where['cores']} cores, otherwise idle. All pairwise "
        f"inner products of {SAMPLES:,} samples of a 64 × 64 policy: the layer-wise Gram, a PyTorch loop of backward "
        "passes plus a matrix product, and torch.func's vmap(grad) plus a matrix product, both sides on the same "
        f"number of threads. {gram['turns']} turns, in each the best of many repeats; medians are shown and in "
        "brackets the lowest and highest ratio of a turn. A probe runs on one thread.\n\n"
        "| threads | Gram, ms | loop, ms | the Gram is faster by | vmap(grad), ms | the Gram is faster by |\n"
        f"|---|---|---|---|---|---|\n{rows}\n"
        f"The ways agree to {difference:.1e} of the largest entry.\n\n"
        f"A full probe of Pendulum 4 × 256 with 32 replicates and every quantity: {probe['after_compiling']:.1f} s "
        f"after compiling (wanted at most {probe['wanted']}), {probe['first']:.1f} s the first time.\n\n"
        f"{impala['samples']:,} samples of the IMPALA network ({impala['method']}): peak memory "
        f"{impala['peak_gib']:.2f} GiB (wanted below {impala['wanted_gib']}).\n"
    )


if __name__ == "__main__":
    main()
