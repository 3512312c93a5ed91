"""Which device has what of a run: environments and samples are cut into shares, everything else is on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trimtab.config import Config, ConfigError
from trimtab.math.across_devices import DEVICES
from trimtab.training.state import Info, State

EVERYWHERE = PartitionSpec()


def along(axis: int) -> PartitionSpec:
    """Cut into shares along one axis."""
    return PartitionSpec(*[None] * axis, DEVICES)


def first_devices(count: int) -> list[jax.Device]:
    """So many devices, over all processes; too few are refused."""
    there = jax.devices()
    if len(there) < count or (jax.process_count() > 1 and len(there) != count):
        problem = (
            f"JAX has {len(there)} in this process" if jax.process_count() == 1 else f"the processes have {len(there)}"
        )
        raise ConfigError("devices", count, f"{problem}; nearest: {len(there)}")
    return there[:count]


def mesh_of(config: Config) -> Mesh:
    """The devices of a run."""
    return Mesh(np.array(first_devices(config.devices)), (DEVICES,))


def here(mesh: Mesh) -> Mesh:
    """The devices of a run that are this process's own."""
    return Mesh(np.array([d for d in mesh.devices if d.process_index == jax.process_index()]), (DEVICES,))


def envs_here(config: Config) -> int:
    """Environments whose devices are this process's own."""
    return config.num_envs // config.devices * here(mesh_of(config)).size


def parts_of(state: State) -> State:
    """How each leaf of a State is cut: environments by number, batches by sample."""
    same = jax.tree.map(lambda _: EVERYWHERE, state)
    cut = lambda tree, axis: jax.tree.map(lambda _: along(axis), tree)
    scale = same.reward_scale
    return replace(
        same,
        env=cut(same.env, 0),
        reward_scale=None if scale is None else scale._replace(total=along(0)),
        queue=cut(same.queue, 1),
        phase=cut(same.phase, 1),
    )


def parts_of_infos(infos: Info) -> Info:
    """The same for the Infos of several iterations, whose episodes are [iteration, T, N]."""
    same = jax.tree.map(lambda _: EVERYWHERE, infos)
    return same._replace(done=along(2), episode_return=along(2), episode_length=along(2))


def placed(mesh: Mesh, parts: Any) -> Any:
    """Cuts as JAX's shardings on these devices."""
    is_cut = lambda x: isinstance(x, PartitionSpec)
    return jax.tree.map(lambda part: NamedSharding(mesh, part), parts, is_leaf=is_cut)


def put(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array where it belongs; every process must have the whole of it, or have it there already."""
    if isinstance(array, jax.Array) and array.sharding == sharding:
        return array
    whole = np.asarray(array)
    piece: Callable[[Any], np.ndarray] = lambda index: whole[index]
    return jax.make_array_from_callback(whole.shape, sharding, piece)


def joined(mine: Any, sharding: NamedSharding) -> jax.Array:
    """An array that is cut into shares, from the shares of this process's devices, side by side."""
    return jax.make_array_from_process_local_data(sharding, np.asarray(mine))


def mine(array: jax.Array) -> np.ndarray:
    """The shares of this process's devices, side by side, of an array that is cut along its first axis."""
    pieces = sorted(array.addressable_shards, key=lambda piece: piece.index[0].start or 0)
    return np.concatenate([np.asarray(piece.data) for piece in pieces])


def held(tree: Any, here: Mesh) -> Any:
    """What every device of a run has, as arrays of this process's devices alone; nothing is copied."""
    where = placed(here, EVERYWHERE)
    view = lambda x: jax.make_array_from_single_device_arrays(x.shape, where, [p.data for p in x.addressable_shards])
    return jax.tree.map(view, tree)


def one_copy(tree: Any) -> Any:
    """Of what every device has, this process's first copy."""
    return jax.tree.map(lambda x: x.addressable_data(0), tree)


def gathered(array: Any) -> np.ndarray:
    """The whole of an array in this process; all processes must ask for it."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable and not array.is_fully_replicated:
        from jax.experimental import multihost_utils

        array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)
