"""Building a run's engine and bringing back the state of one of its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from trimtab import config as configuration
from trimtab import envs
from trimtab.algos.state import State
from trimtab.config import Config
from trimtab.nets.choice import choose_network
from trimtab.runs import device, memory, snapshot
from trimtab.runs.engine import Engine, build
from trimtab.runs.records import Checkpoint, Damaged, RunDir, RunError


def prepare(config: Config, env: Callable[..., Any] | None = None) -> None:
    """Prepare JAX for the network a run will have; call before its first computation."""
    network = config.network
    if network == "auto":
        spec = envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit, env)
        network = choose_network(network, spec.obs_shape)
    device.prepare(device.threads_for(network))


def fitting(config: Config, env: Callable[..., Any] | None = None) -> Engine:
    """The engine, before it allocates anything; what cannot fit in memory is refused."""
    engine = build(config, env)
    agent = engine.algorithm.agent
    layouts = (*agent.policy_layout.values(), *agent.value_layout.values())
    parameters = sum(math.prod(shape) for shape in layouts)
    try:
        available = memory.device_memory(jax.devices()[0])
        memory.refuse_what_cannot_fit(config, engine.algorithm.env.spec, parameters, available)
    except configuration.ConfigError:
        engine.close()
        raise
    return engine


def restore(run: RunDir, config: Config, engine: Engine, say: Callable[[str], None]) -> State:
    """The newest state that can be read; damaged checkpoints are passed over with a message."""
    template = engine.init(config.seed)
    for checkpoint in reversed(run.checkpoints()):
        try:
            state = snapshot.unpack(engine.algorithm, template, run.read_checkpoint(checkpoint))
            state = snapshot.load_buffers(run, config, state)
        except Damaged as error:
            say(f"{error}; falling back to the one before")
            continue
        run.rewind(checkpoint)
        iteration = int(state.iteration)
        return engine.adopt(state, iteration) if iteration else state
    run.rewind(Checkpoint(0, run.path, {"lengths": {"metrics.jsonl": 0, "evaluations.jsonl": 0}, "iteration": 0}))
    return template


def opened(path: str | Path, step: int | None) -> tuple[Config, Engine, State, int]:
    """A run's engine and the state of one of its checkpoints (the last if `step` is None), for measuring."""
    run = RunDir.open(path)
    config = configuration.from_dict(run.config())
    prepare(config)
    found = run.checkpoints()
    if not found:
        raise RunError(f"{run.path} has no checkpoint")
    checkpoint = found[-1] if step is None else run.checkpoint_at(step)
    engine = build(config)
    state = snapshot.unpack(engine.algorithm, engine.init(config.seed), run.read_checkpoint(checkpoint))
    return config, engine, state, checkpoint.step
