"""`python -m benchmarks.impala`: speed of the IMPALA network on this machine, into docs/results/impala.json.

Samples per second of the gradient and of the forward pass, inside a compiled loop as in training, for trimtab's
network, for the same network with XLA's own convolution and pooling, and for PyTorch's (channels last, its fastest
layout) where torch can be imported, here or by the interpreter given with --torch. Contenders take turns and the best
of many short repeats counts, so that other work on the machine disturbs the ratios as little as it can. `--profile`
shows where the gradient's time goes: every convolution of the network by itself, here and in PyTorch.
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

from trimtab.training import device

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


# The profile -----------------------------------------------------------------------------------------------

# Convolutions of the network: how many of them, their size, inputs and outputs.
LAYERS = ((1, 64, 3, 16), (4, 32, 16, 16), (1, 32, 16, 32), (4, 16, 32, 32), (1, 16, 32, 32), (4, 8, 32, 32))


def profile(batch: int, threads: int, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of every kind of convolution, forward and with its gradients, inside a loop as in training."""
    clock = time.process_time if threads == 1 else time.perf_counter
    rows = []
    for count, size, inputs, outputs in LAYERS:
        row: dict[str, Any] = {"layers": count, "size": size, "inputs": inputs, "outputs": outputs}
        flops = count * 2 * 9 * inputs * outputs * size**2 * batch
        sides = {"trimtab": _jax_convolution, "PyTorch": _torch_convolution}
        for name, make in sides.items():
            forward, both = make(batch, size, inputs, outputs, threads)
            seconds = [best_of(run, repeats, clock) / LOOPS * count for run in (forward, both)]
            row[name] = {"forward_ms": 1e3 * seconds[0], "gradient_ms": 1e3 * seconds[1]}
            row[name] |= {"forward_gflops": flops / seconds[0] / 1e9, "gradient_gflops": 3 * flops / seconds[1] / 1e9}
        rows.append(row)
    return rows


def _jax_convolution(batch: int, size: int, inputs: int, outputs: int, threads: int) -> tuple[Callable, Callable]:
    """(forward, forward and gradients) of LOOPS batches."""
    import jax

    from trimtab.nets import impala

    few = inputs <= 4  # the first one is computed together with its pooling
    layer = impala._convolve_and_pool if few else impala.convolve
    x = jax.random.normal(jax.random.key(0), (LOOPS, batch, size, size, inputs))
    weight = jax.random.normal(jax.random.key(1), (3, 3, inputs, outputs)) / 10
    value = lambda x, weight: (layer(x, weight) ** 2).sum()
    wrt = 1 if few else (0, 1)  # nobody asks for the gradient of the image
    forward = jax.jit(lambda x, w: jax.lax.map(lambda x: layer(x, w).sum(), x)).lower(x, weight).compile()
    both = jax.jit(lambda x, w: jax.lax.map(lambda x: jax.grad(value, wrt)(x, w), x)).lower(x, weight).compile()
    return (lambda: jax.block_until_ready(forward(x, weight))), (lambda: jax.block_until_ready(both(x, weight)))


def _torch_convolution(batch: int, size: int, inputs: int, outputs: int, threads: int) -> tuple[Callable, Callable]:
    """The same in PyTorch."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    few = inputs <= 4
    x = torch.randn(batch, inputs, size, size).contiguous(memory_format=torch.channels_last).requires_grad_(not few)
    weight = (torch.randn(outputs, inputs, 3, 3) / 10).contiguous(memory_format=torch.channels_last)
    weight.requires_grad_()

    def apply():
        y = F.conv2d(x, weight, padding=1)
        return F.max_pool2d(y, 3, 2, 1) if few else y

    def forward():
        with torch.no_grad():
            for _ in range(LOOPS):
                apply()

    def both():
        for _ in range(LOOPS):
            weight.grad = x.grad = None
            (apply() ** 2).sum().backward()

    return forward, both


def print_profile(rows: list[dict[str, Any]]) -> None:
    """A table in Markdown: milliseconds of all layers of a kind, and their GFLOP/s."""
    print("| convolutions | trimtab forward | PyTorch forward | trimtab gradient | PyTorch gradient |")
    print("|---|---|---|---|---|")
    for row in rows:
        cells = [
            f"{row[name][f'{what}_ms']:.2f} ms ({row[name][f'{what}_gflops']:.0f} GFLOP/s)"
            for what in ("forward", "gradient")
            for name in ("trimtab", "PyTorch")
        ]
        size, first = row["size"], ", pooled" if row["inputs"] <= 4 else ""
        kind = f"{row['layers']} of {row['inputs']} to {row['outputs']} at {size} × {size}{first}"
        print(f"| {kind} | {' | '.join(cells)} |")
    for what in ("forward", "gradient"):
        ours, theirs = (sum(row[name][f"{what}_ms"] for row in rows) for name in ("trimtab", "PyTorch"))
        print(f"all, {what}: {ours:.1f} ms against {theirs:.1f} ms")


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
    parser.add_argument("--profile", action="store_true", help="time every convolution by itself (torch needed here)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(given.batch, given.threads)
    os.environ["NPROC"] = str(given.threads)  # XLA's threads; read when JAX starts
    if given.profile:
        rows = profile(given.batch, given.threads, given.repeats)
        print_profile(rows)
        return keep(f"profile, batch {given.batch}, threads {given.threads}", {"layers": rows})
    result = compare(given.batch, given.threads, given.repeats, given.torch, not given.no_library)
    for name, rows in result["samples_per_second"].items():
        told = [f"{what} {rows[what]:8.1f}/s (x {rows[f'{what}_ratio']:.2f})" for what in ("gradient", "forward")]
        print(f"{name:22s}", *told)
    keep(f"batch {given.batch}, threads {given.threads}", result)


def keep(name: str, result: dict[str, Any]) -> None:
    """Into docs/results/impala.json, with the machine and the command."""
    command = "python -m benchmarks.impala " + " ".join(sys.argv[1:])
    file = ROOT / "docs" / "results" / "impala.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    kept[name] = result | {"machine": machine(), "command": command.strip()}
    file.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
