"""What `test_devices` starts in a process of its own, since JAX keeps the number of devices it started with.

python sharded.py COUNT CASE: one iteration on COUNT host devices against one device on the same samples in the same
minibatches, or a probe on both; ends with an AssertionError where they differ.
"""

import sys
import tempfile
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import tiny
from jax.sharding import PartitionSpec

from trimtab import envs
from trimtab.config import Config
from trimtab.config.device_shares import with_devices
from trimtab.gradient.measurements import frame_of
from trimtab.gradient.probing import probe
from trimtab.math import across_devices, minibatch
from trimtab.training import device, sharding
from trimtab.training.algorithm import Algorithm, hypers_of
from trimtab.training.engine import advance
from trimtab.training.engine_setup import build_engine
from trimtab.training.loop import train

ENVS = 8
BASE = {"num_envs": ENVS, "total_timesteps": 512, "update_epochs": 2, "learning_rate": 0.003}
CASES = {
    "ewma": {
        "algo": "ppo-ewma",
        "probe_every": 1,
        "norm_obs": True,
        "norm_reward": True,
        "norm_value": "popart",
        "norm_adv": "minibatch",
        "target_kl": 1.0,
    },
    "phasic": {"algo": "ppg", "policy_iterations": 1, "aux_epochs": 2, "minibatch_by": "rows", "anneal_lr": "adaptive"},
    "episodes": {"algo": "reinforce", "baseline": False, "num_steps": 32, "time_limit": 32},
    "host": {
        "algo": "ppg-ewma",
        "backend": "gymnasium",
        "policy_iterations": 1,
        "aux_epochs": 1,
        "probe_every": 1,
        "norm_obs": True,
        "norm_reward": True,
    },
}


def plan_orders(count: int) -> None:
    """Let device d shuffle by key d, and one device take the minibatches that `count` devices would share."""

    def planned(original):
        def order(key, size, *more):
            if across_devices.device_count() > 1:
                return original(jax.random.key(jax.lax.axis_index(across_devices.DEVICES)), size, *more)
            parts = [original(jax.random.key(d), size // count, *more) for d in range(count)]
            return jnp.concatenate([numbered(part, d, count) for d, part in enumerate(parts)], axis=1)

        return order

    minibatch.epoch, minibatch.epoch_of_rows = planned(minibatch.epoch), planned(minibatch.epoch_of_rows)


def numbered(index, d: int, count: int):
    """Sample t n + e of device d is sample t N + d n + e of all."""
    each = ENVS // count
    return index // each * ENVS + d * each + index % each


def both_ways(config: Config):
    """(State, Info) after the first iteration on all devices, and of one device on what they collected."""
    env = envs.make(config.env_id, num_envs=ENVS, time_limit=config.time_limit)
    algorithm, hypers = Algorithm(config, env), hypers_of(config)
    compiled = jax.jit
    state = compiled(algorithm.init)(jax.random.key(3), hypers)

    def step(state, hypers):
        state, rows = algorithm.collect(state, hypers)
        return state, rows, *algorithm.learn(state, rows, hypers)

    info = jax.tree.map(lambda _: PartitionSpec(), jax.eval_shape(step, state, hypers)[3])
    info = info._replace(**dict.fromkeys(("done", "episode_return", "episode_length"), sharding.along(1)))
    parts = sharding.parts_of(state)
    shared = jax.shard_map(
        step,
        mesh=sharding.mesh_of(config),
        in_specs=(parts, PartitionSpec()),
        out_specs=(parts, sharding.along(1), parts, info),
        check_vma=False,
    )
    collected, rows, *many = compiled(shared)(state, hypers)
    assert_equal_on_all_devices(many, (parts, info))
    collected, rows = jax.device_put((collected, rows), jax.devices()[0])
    return many, compiled(algorithm.learn)(collected, rows, hypers)


def both_engines(config: Config):
    """The same of host environments, which start alike and are given the same noise, by the engines themselves."""

    def first(config: Config):
        engine = build_engine(config)
        state = engine.init(3)
        engine.compile(state)
        found = advance(engine, state, 1)
        engine.close()
        return found

    return first(config), first(with_devices(config, 1))


def probe_on_both(count: int) -> None:
    """What a probe measures on one device and on many, of a run on many, is the same to the last bit."""
    config = tiny.config(devices=count, num_envs=2 * count, num_steps=16)
    for backend, options in (("auto", {"blocks": (8,), "bias": False}), ("gymnasium", {"advantages": "fixed"})):
        with tempfile.TemporaryDirectory() as place:
            run = train(config.replace(backend=backend), f"{place}/run", checkpoints=2)
            look = partial(probe, run, "all", replicates=5, correlations=False, save=False, **options)
            one, many = (frame_of(look(devices=devices)) for devices in (1, count))
        assert one.height > 10 and one.equals(many)


def plain(leaf) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def assert_equal_on_all_devices(tree, parts) -> None:
    """What is said to be everywhere is the same everywhere, bit for bit."""
    for leaf, part in zip(jax.tree.leaves(tree), jax.tree.leaves(tuple(parts)), strict=True):
        if part == PartitionSpec():
            copies = [plain(shard.data) for shard in leaf.addressable_shards]
            assert all(np.array_equal(copies[0], copy, equal_nan=copy.dtype.kind == "f") for copy in copies)


def assert_close(config: Config, many, one) -> None:
    """All of State and Info, to float32 rounding; buffers are laid out device by device."""
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(tuple(many)), jax.tree.leaves(one), strict=True):
        a, b, where = plain(a), plain(b), jax.tree_util.keystr(path)
        if ".phase" in where:
            index = np.arange(config.batch // config.devices)
            b = b[:, np.concatenate([numbered(index, d, config.devices) for d in range(config.devices)])]
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=where)


if __name__ == "__main__":
    count, case = int(sys.argv[1]), sys.argv[2]
    device.prepare(1, count)
    if case == "probe":
        sys.exit(probe_on_both(count))
    plan_orders(count)
    config = tiny.config(**BASE | CASES[case], devices=count)
    both = both_ways if config.backend == "auto" else both_engines
    assert_close(config, *both(config))
