"""How fast a configuration runs here: steps per second, processor load, memory, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.config import Config
from trimtab.nets.heads import clip_action
from trimtab.training import device, rollout
from trimtab.training.algorithm import Algorithm, hypers_of
from trimtab.training.engine import advance
from trimtab.training.engine_setup import build_engine, prepare_jax

LEAST = 3  # times a program is run to be timed


def measure(config: Config, seconds: float = 1.0) -> dict[str, Any]:
    """Train for so many seconds, then time the parts of an iteration alone; nothing is written."""
    import psutil

    prepare_jax(config)
    engine = build_engine(config)
    try:
        state = engine.init(config.seed)
        engine.compile(state)
        state, _ = advance(engine, state, 1)  # the first iteration warms caches up, the second is timed
        start_time = time.perf_counter()
        state, _ = advance(engine, state, 1)
        count = max(1, min(engine.chunk, round(seconds / 4 / (time.perf_counter() - start_time))))
        process = psutil.Process()
        start_time, used = time.perf_counter(), _processor_seconds(process)
        psutil.cpu_percent()
        done = 0
        while time.perf_counter() - start_time < seconds:
            state, info = advance(engine, state, count)
            done += len(next(iter(info.finite.values())))
        wall = time.perf_counter() - start_time
        measurements = {
            "num_envs": config.num_envs,
            "steps_per_second": done * config.batch / wall,
            "load": (_processor_seconds(process) - used) / wall / device.cores(),
            "machine_load": psutil.cpu_percent() / 100,
            "memory": process.memory_info().rss,
        }
        return measurements | _parts_of(engine.algorithm, state, seconds / 3)
    finally:
        engine.close()


def _processor_seconds(process: Any) -> float:
    """Processor time of this process and its children (host environments may step in processes of their own)."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except Exception:  # it ended meanwhile
            continue
        total += times.user + times.system
    return total


def _parts_of(algorithm: Algorithm, state: Any, seconds: float) -> dict[str, float]:
    """Shares of an iteration's time: stepping environments, the policy acting, the update."""
    config, hypers = algorithm.config, hypers_of(algorithm.config)
    if algorithm.env.spec.compiled:
        environment, collecting, rows = _compiled_parts(algorithm, state, hypers, seconds)
    elif algorithm.env.stream() is not None:
        environment, collecting, rows = _streamed_parts(algorithm, state, hypers, seconds)
    else:
        environment, collecting, rows = _host_parts(algorithm, state, hypers)
    learn = jax.jit(algorithm.learn)
    update = _timed(lambda: learn(state, rows, hypers), seconds)
    policy = max(0.0, collecting - environment)
    whole = environment + policy + update
    named = {"environment": environment, "policy": policy, "update": update}
    return {f"{name}_share": value / whole for name, value in named.items()} | {"batch": config.batch}


def _compiled_parts(algorithm: Algorithm, state: Any, hypers: Any, seconds: float):
    """Collecting, and collecting with a policy that costs nothing: always the same distribution."""
    acting = algorithm.policy(state.params, state.obs_stats, hypers)
    shape = jax.eval_shape(acting, state.env.obs)
    idle = lambda obs: jnp.zeros(shape.shape, shape.dtype)
    alone = jax.jit(
        lambda carry, key: rollout.collect(algorithm.env, algorithm.dist, idle, carry, key, algorithm.config.num_steps)
    )
    collect = jax.jit(algorithm.collect)
    environment = _timed(lambda: alone(state.env, state.key), seconds)
    collecting = _timed(lambda: collect(state, hypers), seconds)
    return environment, collecting, collect(state, hypers)[1]


def _streamed_parts(algorithm: Algorithm, state: Any, hypers: Any, seconds: float):
    """The same of host environments that a compiled program steps."""
    stream, dist, noise = algorithm.env.stream(), algorithm.dist, algorithm.noise(state.key)[1]
    shapes = jax.eval_shape(algorithm.act, state.params, state.obs_stats, state.env.obs, noise[0], hypers)

    def idle(obs, noise) -> rollout.Acted:
        nothing = jax.tree.map(lambda x: jnp.zeros((len(obs), *x.shape[1:]), x.dtype), shapes)
        return nothing._replace(action=dist.sample(nothing.dist, noise))

    with device.not_cached():
        alone = jax.jit(partial(rollout.collect_stream, stream, dist, idle)).lower(state.env, noise).compile()
        arguments = state.params, state.obs_stats, state.env, noise, hypers
        collect = jax.jit(partial(algorithm.collect_stream, stream)).lower(*arguments).compile()
    environment = _timed(lambda: alone(state.env, noise), seconds)
    collecting = _timed(lambda: collect(*arguments), seconds)
    return environment, collecting, collect(*arguments)[1]


def _host_parts(algorithm: Algorithm, state: Any, hypers: Any):
    """Stepping with random actions, and one batch with the policy."""
    config, env = algorithm.config, algorithm.make_env(algorithm.config.num_envs)
    try:
        carry = rollout.begun(env.reset(config.seed))
        sample = jax.jit(lambda key: algorithm.dist.uniform(key, config.num_envs))
        action = np.asarray(clip_action(algorithm.dist, sample(jax.random.key(0))))
        start_time = time.perf_counter()
        for _ in range(config.num_steps):
            env.step(action)
        environment = time.perf_counter() - start_time
        step = jax.jit(lambda obs, noise: algorithm.act(state.params, state.obs_stats, obs, noise, hypers))
        noise = np.asarray(algorithm.noise(jax.random.key(1))[1])
        jax.block_until_ready(step(np.asarray(carry.obs), noise[0]))
        start_time = time.perf_counter()
        _, rows = rollout.collect_host(env, algorithm.dist, step, noise, carry)
        return environment, time.perf_counter() - start_time, jax.tree.map(jnp.asarray, rows)
    finally:
        env.close()


def _timed(program: Callable[[], Any], seconds: float) -> float:
    """Seconds of one call: the median of as many as fit, at least three, after one that compiles."""
    jax.block_until_ready(program())
    durations: list[float] = []
    while len(durations) < LEAST or sum(durations) < seconds:
        start_time = time.perf_counter()
        jax.block_until_ready(program())
        durations.append(time.perf_counter() - start_time)
    return float(np.median(durations))
