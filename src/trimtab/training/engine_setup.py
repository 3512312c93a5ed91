"""Building a run's engine and bringing back the state of one of its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from typing import Any

import jax

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.config.device_shares import with_devices
from trimtab.training import device, hosts, resource_estimates, snapshot
from trimtab.training.engine import Engine, build
from trimtab.training.engine_cache import EngineCache
from trimtab.training.records import LOGS, Checkpoint, Damaged, RunDir, RunError
from trimtab.training.state import State
from trimtab.training.warm_start import StartCheckpoint, warm_start


def prepare_jax(config: Config, env: Callable[..., Any] | None = None, devices: int | None = None) -> None:
    """Prepare JAX for the network a run will have, on its devices or so many; call before its first computation."""
    here = max(1, config.devices // hosts.processes()) if devices is None else devices
    device.prepare(device.threads_for(device.network_of(config, env), here), here)


def count_all_devices(config: Config) -> int:
    """All accelerators, of all processes; where there are none, a device for every core. Starts JAX."""
    prepare_jax(config, devices=device.cores())
    return jax.device_count()


def use_all_devices(config: Config) -> Config:
    """The run on all devices."""
    return with_devices(config, count_all_devices(config))


def build_engine_checked(
    config: Config, env: Callable[..., Any] | None = None, engines: EngineCache | None = None
) -> Engine:
    """The engine, before it allocates anything; what cannot fit in memory is refused."""
    engine = engines.get(config) if engines and env is None else build(config, env)
    try:
        available = resource_estimates.device_memory(jax.local_devices()[0])
        if available is None and jax.process_count() > 1 and (here := resource_estimates.host_memory()):
            available = here // jax.local_device_count()
        resource_estimates.check_memory(config, engine.algorithm.env.spec, count_parameters(engine), available)
    except configuration.ConfigError:
        engine.close()
        raise
    return engine


def count_parameters(engine: Engine) -> int:
    """Numbers in the networks."""
    agent = engine.algorithm.agent
    return sum(math.prod(shape) for shape in (*agent.policy_layout.values(), *agent.value_layout.values()))


def restore_newest(run: RunDir, config: Config, engine: Engine, say: Callable[[str], None]) -> State:
    """The newest state that can be read; damaged checkpoints are passed over with a message."""
    template = engine.template(config.seed)
    for checkpoint in reversed(run.checkpoints()):
        try:
            state = snapshot.unpack(engine.algorithm, template, run.read_checkpoint(checkpoint))
            state = snapshot.load_buffers(run, config, state)
        except Damaged as error:
            say(f"{error}; falling back to the one before")
            continue
        run.rewind(checkpoint)
        iteration = int(state.iteration)
        begun_anew = iteration or (config.stagger_resets and not engine.exact)  # the template was not staggered
        return engine.adopt(state, iteration) if begun_anew else state
    if run.metrics():
        raise RunError(f"no checkpoint of {run.path} can be read, and its records would be lost; begin another run")
    run.rewind(Checkpoint(0, run.path, 0, lengths=dict.fromkeys(LOGS, 0)))
    begun_from, state = run.manifest().get("started_from"), engine.init(config.seed)
    if begun_from and "start" not in begun_from:
        raise RunError(f"what {run.path} began with is lost with its checkpoint; adopt it again")
    return warm_start(engine, state, StartCheckpoint(**begun_from["start"])) if begun_from else state


def load_engine(
    path: str | PathLike[str], step: int | None, engines: EngineCache | None = None, devices: int = 1
) -> tuple[Config, Engine, State, int]:
    """A run's engine and the state of one of its checkpoints (the last if `step` is None), for measuring.

    Both are of one device, on however many the run was trained; `devices` are those that JAX is to have.
    """
    run = RunDir.open(path)
    config = with_devices(configuration.from_dict(run.config()), 1)
    prepare_jax(config, devices=devices)
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise RunError(f"{run.path} has no checkpoint")
    checkpoint = checkpoints[-1] if step is None else run.checkpoint_at(step)
    engine = engines.get(config) if engines else build(config)
    try:
        state = snapshot.unpack(engine.algorithm, engine.template(config.seed), run.read_checkpoint(checkpoint))
    except BaseException:
        engine.close()
        raise
    return config, engine, state, checkpoint.step
