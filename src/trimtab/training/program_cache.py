"""Traced programs kept between processes, beside the compiled ones that JAX keeps.

Tracing and lowering a training loop takes longer than loading its compiled code. So a program is exported once (JAX's
own format, no pickle) under a key of everything it depends on: the shape of the configuration, this library's source,
the versions of what it is made with, and the device. A program is always run from its exported form, also when it has
just been made, so that the first run and all later ones run the same code and give the same bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array

import trimtab
from trimtab.core.writing import write_atomically
from trimtab.envs.backends import BACKENDS, installed_versions
from trimtab.training.compilation_cache import with_digest, without_digest
from trimtab.training.device import cache_dir

FOUNDATIONS = ("jax", "jaxlib", "equinox", "numpy")  # what every program is made with


@cache
def _source() -> str:
    """A hash of this library's own code and of the versions of what programs are made with."""
    digest = hashlib.sha256()
    root = Path(trimtab.__file__).parent
    for room in ("core", "math", "config", "envs", "nets", "training"):
        for file in sorted((root / room).rglob("*.py")):
            digest.update(file.read_bytes())
    for package, version in package_versions(compiled=True).items():
        digest.update(f"{package} {version}".encode())
    return digest.hexdigest()


def package_versions(compiled: bool = False) -> dict[str, str]:
    """The versions of what runs are computed with; `compiled`: only of what is part of compiled programs."""
    versions = installed_versions(FOUNDATIONS)
    for backend in BACKENDS.values():
        if backend.compiled or not compiled:
            versions |= backend.versions
    return versions


class Flat:
    """Trees as plain arrays and back: exported programs know neither our types nor typed keys."""

    def __init__(self, example: Any):
        leaves, self._tree = jax.tree.flatten(example)
        self._keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]

    def flatten(self, tree: Any) -> list[Array]:
        return [jax.random.key_data(x) if key else x for x, key in zip(jax.tree.leaves(tree), self._keys)]

    def unflatten(self, leaves: Sequence[Array]) -> Any:
        whole = [jax.random.wrap_key_data(x) if key else x for x, key in zip(leaves, self._keys)]
        return jax.tree.unflatten(self._tree, whole)


class Placement(NamedTuple):
    """Where the arguments and results of a program on several devices are."""

    in_shardings: Any
    out_shardings: Any


def exported(
    name: str,
    key: tuple,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    donate: tuple[int, ...] = (),
    placement: Placement | None = None,
) -> Callable[..., Any]:
    """`function` of flat arguments, compiled from its exported form; traced only where that is not kept yet."""
    jit = partial(jax.jit, donate_argnums=donate, **({} if placement is None else placement._asdict()))
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    settings = (precision, str(jax.devices()[0].device_kind), jax.default_backend())
    words = repr((name, key, settings, _source())).encode()
    file = cache_dir().parent / "programs" / f"{name}-{hashlib.sha256(words).hexdigest()[:32]}.bin"
    program = _read(file)
    if program is None:
        data = export.export(jit(function))(*arguments).serialize()
        program = export.deserialize(data)
        _keep(file, with_digest(bytes(data)))
    return jit(program.call).lower(*arguments).compile()


def _read(file: Path) -> Any:
    """The program in a file; None where there is none, or it is damaged or of another version, to make it again."""
    try:
        data = without_digest(file.read_bytes())
        return None if data is None else export.deserialize(bytearray(data))
    except Exception:  # whatever JAX makes of another version's
        return None


def _keep(file: Path, data: bytes) -> None:
    """A cache that cannot be written costs time, not the run."""
    try:
        write_atomically(file, data)
    except OSError:
        if os.environ.get("TRIMTAB_CACHE"):
            raise
