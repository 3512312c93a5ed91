"""State to named tensors and back.

Parameters are stored under their tree paths; everything else under its path in State. The PPG phase and the staleness
queue can be far larger than all the rest, so they go into shards of their own, one per iteration, each written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.training.algorithm import Algorithm
from trimtab.training.run_dir import Damaged, RunDir
from trimtab.training.sharding import gathered
from trimtab.training.state import State

NETWORKS = ("policy", "value")


def paths(tree) -> list[tuple[str, jax.Array]]:
    """Every leaf with its path, in order."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def _plain(leaf: jax.Array) -> np.ndarray:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return gathered(leaf)


def pack(algorithm: Algorithm, state: State) -> dict[str, np.ndarray]:
    """Everything but the buffers, by name."""
    layouts = {"policy": algorithm.agent.policy_layout, "value": algorithm.agent.value_layout}
    rest = replace(state, params=None, queue=None, phase=None)  # type: ignore[arg-type]
    tensors = {f"state.{path}": _plain(leaf) for path, leaf in paths(rest)}
    for network in NETWORKS:
        vector, start = gathered(getattr(state.params, network)), 0
        for name, shape in layouts[network].items():
            size = int(np.prod(shape))
            tensors[f"params.{network}.{name}"] = vector[start : start + size].reshape(shape)
            start += size
    return tensors


def unpack(algorithm: Algorithm, template: State, tensors: dict[str, np.ndarray]) -> State:
    """A state of the template's structure with these tensors; its buffers stay the template's."""
    tensors = _of_today(tensors)
    layouts = {"policy": algorithm.agent.policy_layout, "value": algorithm.agent.value_layout}
    params = {}
    for network in NETWORKS:
        _refuse_others({f"params.{network}.{name}": shape for name, shape in layouts[network].items()}, tensors)
        params[network] = vector(layouts[network], tensors, network)
    rest = replace(template, params=None, queue=None, phase=None)  # type: ignore[arg-type]
    shapes = {f"state.{path}": _stored_shape(leaf) for path, leaf in paths(rest)}
    _refuse_others(shapes, tensors)
    rest = filled(rest, [tensors[name] for name in shapes])
    return replace(rest, params=type(template.params)(**params), queue=template.queue, phase=template.phase)


def _stored_shape(leaf: jax.Array) -> tuple[int, ...]:
    """The shape in which a leaf is stored; a typed key is stored as its words."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    return leaf.shape


def _refuse_others(shapes: Mapping[str, tuple[int, ...]], tensors: Mapping[str, np.ndarray]) -> None:
    """Raise where a tensor is missing or has another shape."""
    for name, shape in shapes.items():
        if name not in tensors:
            raise Damaged(f"the checkpoint lacks {name}")
        if tensors[name].shape != tuple(shape):
            raise Damaged(f"the checkpoint's {name} has shape {tensors[name].shape}, not {tuple(shape)}")


def _of_today(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs of version 0.1.0 kept the sums of advantages and of their squares, not mean and deviation."""
    names = [f"state.advantages.{name}" for name in ("count", "total", "square")]
    if not all(name in tensors for name in names):
        return tensors
    count, total, square = (np.float64(tensors[name]) for name in names)
    mean = total / max(count, 1e-8)
    today = {"mean": mean, "deviation": max(square - count * mean**2, 0.0)}
    return tensors | {f"state.advantages.{name}": np.asarray(value, np.float32) for name, value in today.items()}


def vector(layout: dict[str, tuple[int, ...]], tensors: dict[str, np.ndarray], network: str) -> jax.Array:
    """A network's tensors as its one flat vector."""
    parts = [tensors[f"params.{network}.{name}"].reshape(-1) for name in layout]
    return jnp.asarray(np.concatenate([*parts, np.zeros(0, np.float32)]))


def filled(template, values: list[np.ndarray]):
    """The template's structure and types with these values, in the order of `paths`."""
    leaves = [_restore(leaf, value) for (_, leaf), value in zip(paths(template), values)]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _restore(leaf: jax.Array, value: np.ndarray):
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(value))
    return jnp.asarray(value, leaf.dtype)


def _needed_shards(config, iteration: int) -> dict[str, range]:
    """The iterations whose data a state before `iteration` still holds, by buffer."""
    needed = {}
    if config.staleness:
        needed["queue"] = range(max(0, iteration - config.staleness), iteration)
    if config.is_ppg:
        needed["phase"] = range(iteration - iteration % config.policy_iterations, iteration)
    return needed


def _slots(config) -> dict[str, int]:
    return {"queue": config.staleness, "phase": config.policy_iterations}


def save_buffers(run: RunDir, config, state: State, oldest_resumable: int) -> None:
    """Write the shards that are not on disk yet, and drop what no resumable checkpoint needs."""
    for kind, iterations in _needed_shards(config, int(state.iteration)).items():
        for iteration in iterations:
            if not run.has_buffer(kind, iteration):
                slot = iteration % _slots(config)[kind]
                run.write_buffer(kind, iteration, {p: _plain(leaf[slot]) for p, leaf in paths(getattr(state, kind))})
        still = _needed_shards(config, oldest_resumable)[kind]
        run.prune_buffers(kind, still.start if len(still) else oldest_resumable)


def load_buffers(run: RunDir, config, state: State) -> State:
    """Fill the buffers of `state` from their shards."""
    for kind, iterations in _needed_shards(config, int(state.iteration)).items():
        buffer = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), getattr(state, kind))
        for iteration in iterations:
            shard = run.read_buffer(kind, iteration)
            _refuse_others({path: leaf.shape[1:] for path, leaf in paths(buffer)}, shard)
            for path, leaf in paths(buffer):
                leaf[iteration % _slots(config)[kind]] = shard[path]
        state = replace(state, **{kind: jax.tree.map(jnp.asarray, buffer)})
    return state
