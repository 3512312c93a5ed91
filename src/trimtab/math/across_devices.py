"""Sums, means and keys across the devices that share one run.

Inside a program that is sharded over the axis DEVICES each device sees only its own environments and samples; what
must be true of all of them goes through here. Anywhere else, and so in every run on one device, these are identities:
nothing is added to the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray

DEVICES = "devices"

Tree = TypeVar("Tree")


def device_count() -> int:
    """Devices that share the program being traced."""
    try:
        return jax.lax.axis_size(DEVICES)
    except NameError:  # JAX's word for an axis that no surrounding program has
        return 1


def _at_once(reduce: Callable[..., Array], tree: Tree) -> Tree:
    """All numbers of a tree in one message: small messages cost their latency each."""
    if device_count() == 1:
        return tree
    flat, restored = ravel_pytree(tree)
    return restored(reduce(flat, DEVICES))


def psum_tree(tree: Tree) -> Tree:
    """Σ over devices, of every leaf."""
    return _at_once(jax.lax.psum, tree)


def pmean_tree(tree: Tree) -> Tree:
    """Mean over devices, of every leaf."""
    return _at_once(jax.lax.pmean, tree)


def pmax_tree(tree: Tree) -> Tree:
    """Largest over devices, of every leaf."""
    return _at_once(jax.lax.pmax, tree)


def pall_flags(flags: dict[str, Array]) -> dict[str, Array]:
    """Whether each flag holds on every device."""
    if device_count() == 1:
        return flags
    held = jax.lax.pmin(jnp.stack(list(flags.values())).astype(jnp.int32), DEVICES)
    return dict(zip(flags, held.astype(bool)))


def fold_in_device(key: PRNGKeyArray) -> PRNGKeyArray:
    """A device's own key from one that all share."""
    return key if device_count() == 1 else jax.random.fold_in(key, jax.lax.axis_index(DEVICES))


def global_size(size: int) -> int:
    """What a size seen by one device is over all of them."""
    return size * device_count()
