"""`python -m benchmarks.impala`: speed of the IMPALA network on this machine, into docs/results/impala.json.

Samples per second of the gradient and of the forward pass, inside a compiled loop as in training, for trimtab's
network, for the same network with XLA's own convolution and pooling, and for PyTorch's (channels last, its fastest
layout) where torch can be imported, here or by the interpreter given with --torch. Contenders take turns and the best
of many short repeats counts, so that other work on the machine disturbs the ratios as little as it can.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from trimtab.runs import device

ROOT = Path(__file__).resolve().parents[1]
CHANNELS, OUTPUTS, SIZE = (16, 32, 32), 256, 64
LOOPS = 2  # minibatches per call


def torch_contender(batch: int, threads: int) -> dict[str, Callable[[], Any]]:
    """{"forward", "gradient"} of the same network in PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(threads)

    class Stack(nn.Module):
        def __init__(self, inputs: int, outputs: int):
            super().__init__()
            self.entry = nn.Conv2d(inputs, outputs, 3, padding=1)
            self.residual = nn.ModuleList(nn.Conv2d(outputs, outputs, 3, padding=1) for _ in range(4))

        def forward(self, x):
            x = F.max_pool2d(self.entry(x), 3, 2, 1)
            for first, second in ((0, 1), (2, 3)):
                x = x + self.residual[second](F.relu(self.residual[first](F.relu(x))))
            return x

    class Impala(nn.Module):
        def __init__(self):
            super().__init__()
            inputs = (3, *CHANNELS)
            self.stacks = nn.ModuleList(Stack(a, b) for a, b in itertools.pairwise(inputs))
            self.dense = nn.Linear((SIZE // 8) ** 2 * CHANNELS[-1], OUTPUTS)

        def forward(self, x):
            x = x.float() / 255
            for stack in self.stacks:
                x = stack(x)
            return F.relu(self.dense(F.relu(x).flatten(1)))

    net = Impala().to(memory_format=torch.channels_last)
    images = torch.randint(0, 256, (batch, 3, SIZE, SIZE), dtype=torch.uint8)
    images = images.contiguous(memory_format=torch.channels_last)

    def forward():
        with torch.no_grad():
            for _ in range(LOOPS):
                net(images)

    def gradient():
        for _ in range(LOOPS):
            net.zero_grad()
            (net(images) ** 2).sum().backward()

    return {"forward": forward, "gradient": gradient}


def jax_contender(batch: int, on_cpu: bool) -> dict[str, Callable[[], Any]]:
    """{"forward", "gradient"} of trimtab's network, in its CPU form or with XLA's own operations."""
    import jax
    import jax.numpy as jnp

    from trimtab.nets import impala

    chosen = impala._on_cpu
    impala._on_cpu = lambda: on_cpu
    try:
        net = impala.Impala(jax.random.key(0), (SIZE, SIZE, 3), CHANNELS, (OUTPUTS,), 1 / 255)
        images = jax.random.randint(jax.random.key(1), (LOOPS, batch, SIZE, SIZE, 3), 0, 256).astype(jnp.uint8)

        def descend(net, images):
            def step(net, images):
                gradient = jax.grad(lambda net: (net(images) ** 2).sum())(net)
                return jax.tree.map(lambda w, g: w - 1e-9 * g, net, gradient), None

            return jax.lax.scan(step, net, images)[0]

        programs = {
            "forward": jax.jit(lambda net, images: jax.lax.map(net, images)).lower(net, images).compile(),
            "gradient": jax.jit(descend).lower(net, images).compile(),
        }
    finally:
        impala._on_cpu = chosen
    return {name: lambda run=run: jax.block_until_ready(run(net, images)) for name, run in programs.items()}


def best_of(run: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    """Seconds of the fastest repeat."""
    seconds = []
    for _ in range(repeats):
        begun = clock()
        run()
        seconds.append(clock() - begun)
    return min(seconds)


def serve(batch: int, threads: int) -> None:
    """PyTorch in another interpreter: measures what is asked for, line by line."""
    import torch

    clock = time.process_time if threads == 1 else time.perf_counter
    contender = torch_contender(batch, threads)
    print(json.dumps({"version": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": best_of(contender[line.strip()], 1, clock)}), flush=True)


class OtherInterpreter:
    """PyTorch's side of the comparison, in a process of its own."""

    def __init__(self, python: str, batch: int, threads: int):
        command = [python, __file__, "--serve", "--batch", str(batch), "--threads", str(threads)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, **pipes)
        line = self.process.stdout.readline()
        self.version = json.loads(line)["version"] if line else None

    def seconds(self, what: str) -> float:
        print(what, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())["seconds"]


def compare(batch: int, threads: int, repeats: int, torch_python: str, library_too: bool) -> dict[str, Any]:
    """Samples per second of every contender, in turns."""
    clock = time.process_time if threads == 1 else time.perf_counter
    ours = {"trimtab": jax_contender(batch, True)}
    if library_too:
        ours["XLA's own operations"] = jax_contender(batch, False)
    peer = OtherInterpreter(torch_python, batch, threads)
    best: dict[str, dict[str, float]] = {}
    for repeat in range(repeats):
        for what in ("forward", "gradient"):
            taken = {name: best_of(c[what], 1, clock) for name, c in ours.items() if repeat < 3 or name == "trimtab"}
            if peer.version:
                taken["PyTorch"] = peer.seconds(what)
            for name, seconds in taken.items():
                rows = best.setdefault(name, {})
                rows[what] = min(rows.get(what, seconds), seconds)
    peer.process.stdin.close()
    peer.process.wait()
    rates = {name: {what: LOOPS * batch / s for what, s in rows.items()} for name, rows in best.items()}
    for rows in rates.values():  # ratios: trimtab's rate over this one
        rows |= {f"{what}_ratio": rates["trimtab"][what] / rows[what] for what in ("forward", "gradient")}
    return {
        "samples_per_second": rates,
        "batch": batch,
        "threads": threads,
        "clock": "processor time" if threads == 1 else "wall clock",
        "load_average": os.getloadavg()[0],
        "torch": peer.version,
    }


def machine() -> dict[str, Any]:
    versions = {"jax": metadata.version("jax"), "python": platform.python_version()}
    return {"processor": device.processor(), "cores": os.cpu_count()} | versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="images of one gradient")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="1 measures processor time, not wall time")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="interpreter that has torch")
    parser.add_argument("--no-library", action="store_true", help="leave out XLA's own operations, which are slow")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.batch, given.threads)
    os.environ["NPROC"] = str(given.threads)  # XLA's threads; read when JAX starts
    result = compare(given.batch, given.threads, given.repeats, given.torch, not given.no_library)
    for name, rows in result["samples_per_second"].items():
        told = [f"{what} {rows[what]:8.1f}/s (x {rows[f'{what}_ratio']:.2f})" for what in ("gradient", "forward")]
        print(f"{name:22s}", *told)
    command = "python -m benchmarks.impala " + " ".join(a for a in sys.argv[1:])
    file = ROOT / "docs" / "results" / "impala.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept[f"batch {given.batch}, threads {given.threads}"] = result | {"machine": machine(), "command": command.strip()}
    file.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
