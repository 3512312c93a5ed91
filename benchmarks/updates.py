"""What the EWMA costs of an update, and a light probe of training: the same work with and without, in turns.

Run by `benchmarks.throughput` in a process of its own, alone on the machine. Turns are short and alternate, and what is
reported is the median over turns of the ratio of neighbours, so that a machine that slows down for a while slows down
both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from trimtab.training import device

device.prepare(1)

import jax  # noqa: E402  (after the number of threads is set)
import numpy as np  # noqa: E402

from trimtab.config import Config  # noqa: E402
from trimtab.training import engine  # noqa: E402

PENDULUM = Config(
    env_id="Pendulum-v1",
    total_timesteps=10_000_000,
    num_envs=4,
    num_steps=256,
    update_epochs=10,
    num_minibatches=32,
    ent_coef=0.0,
)


def seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def extra(base: Callable[[], None], others: dict[str, Callable[[], None]], turns: int) -> dict[str, list[float]]:
    """By name: time beyond `base`'s as a share of it: [median, quarter, three quarters] over turns."""
    for work in (base, *others.values()):
        work()  # compile, warm up
    ratios: dict[str, list[float]] = {name: [] for name in others}
    for _ in range(turns):
        for name, work in others.items():
            before, during, after = seconds(base), seconds(work), seconds(base)
            ratios[name].append(2 * during / (before + after) - 1)
    return {name: np.percentile(seen, (50, 25, 75)).tolist() for name, seen in ratios.items()}


def training(config: Config, iterations: int = 20) -> Callable[[], None]:
    """`iterations` of training per call."""
    built = engine.build_engine(config)
    kept = {"state": built.init(1)}
    built.compile(kept["state"])

    def work() -> None:
        kept["state"], _ = engine.advance(built, kept["state"], iterations)

    return work


def update(config: Config, iterations: int = 20) -> Callable[[], None]:
    """Updates only, on one batch over and over."""
    built = engine.build_engine(config)
    algorithm, hypers = built.algorithm, built.hypers
    state = built.init(1)
    _, rows = jax.jit(algorithm.collect)(state, hypers)
    learn = jax.jit(
        lambda state, hypers: jax.lax.fori_loop(
            0, iterations, lambda _, state: engine.strip_weak_types(algorithm.learn(state, rows, hypers)[0]), state
        )
    )
    return lambda: jax.block_until_ready(learn(state, hypers).params)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    # The EWMA needs one forward pass of the proximal policy per minibatch and one average of the weights per step.
    ewma = extra(update(PENDULUM), {"ewma": update(PENDULUM.replace(algo="ppo-ewma"))}, turns)
    probes = {f"every_{k}": training(PENDULUM.replace(probe_every=k)) for k in (1, 10)}
    print(json.dumps({"ewma": ewma["ewma"], "light_probe": extra(training(PENDULUM), probes, turns)}))


if __name__ == "__main__":
    main()
