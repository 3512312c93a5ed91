"""Preparing JAX before its first use: threads, precision and the compilation cache."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Where compiled programs are kept between runs (TRIMTAB_CACHE overrides)."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "trimtab"
    return Path(os.environ.get("TRIMTAB_CACHE", default)) / "jax"


def prepare(threads: int | None = None) -> None:
    """Call before JAX's first computation.

    Small networks run two to three times as fast on one XLA CPU thread as on several, which spend their time waiting
    for each other; image networks want all cores, or this process's share of them (TRIMTAB_THREADS). XLA reads the
    pool's size from NPROC when its CPU client starts. Accelerators are not affected.
    """
    wanted = os.environ.get("TRIMTAB_THREADS") if threads is None else str(threads)
    if wanted:
        os.environ.setdefault("NPROC", wanted)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import jax

    if "JAX_DEFAULT_MATMUL_PRECISION" not in os.environ:  # by default GPUs round the factors of products to 10 bits
        jax.config.update("jax_default_matmul_precision", "float32")
    jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@contextmanager
def not_cached() -> Iterator[None]:
    """Programs compiled here, which no other process could use, are not kept."""
    import jax

    least = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", math.inf)
    try:
        yield
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


def threads_for(network: str) -> int | None:
    """XLA CPU threads that suit a network family (not `auto`): one for dense ones, all (None) for images."""
    return 1 if network == "mlp" else None


def processor() -> str:
    """The processor's name, for manifests and results."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
