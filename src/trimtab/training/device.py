"""Preparing JAX before its first use: threads, precision and the compilation cache."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trimtab import envs
from trimtab.config import Config
from trimtab.envs.own_environments import Constructor
from trimtab.nets.families import FAMILIES, choose_network
from trimtab.training import compilation_cache


def cache_dir() -> Path:
    """Where compiled programs are kept between runs (TRIMTAB_CACHE overrides)."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "trimtab"
    return Path(os.environ.get("TRIMTAB_CACHE", default)) / "jax"


def prepare(threads: int | None = None, devices: int = 1) -> None:
    """Call before JAX's first computation; without accelerators it will have this many devices.

    Small networks run two to three times as fast on one XLA CPU thread as on several, which spend their time waiting
    for each other; image networks want all cores, or this process's share of them (TRIMTAB_THREADS). XLA reads the
    pool's size from NPROC when its CPU client starts. Accelerators are not affected.
    """
    pool_size = os.environ.get("TRIMTAB_THREADS") if threads is None else str(threads)
    if pool_size:
        os.environ.setdefault("NPROC", pool_size)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import jax

    if devices > 1:
        with suppress(RuntimeError):  # JAX has started already: whether it has enough is seen when they are needed
            jax.config.update("jax_num_cpu_devices", max(devices, jax.config.jax_num_cpu_devices))  # type: ignore
    if "JAX_DEFAULT_MATMUL_PRECISION" not in os.environ:  # by default GPUs round the factors of products to 10 bits
        jax.config.update("jax_default_matmul_precision", "float32")
    compilation_cache.check_entries()
    jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small programs are a long start too
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def limits(threads: int) -> dict[str, str]:
    """Environment of a process that is to use so many threads: XLA's, and those of NumPy's matrix library.

    Processes that share a machine and each take all its cores wait for each other in every product.
    """
    names = ("NPROC", "TRIMTAB_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


@contextmanager
def not_cached() -> Iterator[None]:
    """Programs compiled here, which no other process could use, are not kept."""
    import jax

    least = jax.config.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", math.inf)
    try:
        yield
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


def threads_for(network: str, devices: int = 1) -> int | None:
    """XLA CPU threads that suit a network family (not `auto`): one for dense ones, all (None) for images.

    Several devices have their share of the cores each; XLA adds the threads that they need at least.
    """
    if not FAMILIES[network].sees_images:
        return 1
    return None if devices == 1 else max(1, cores() // devices)


def network_of(config: Config, constructor: Constructor | None = None) -> str:
    """The network family a run will have: the requested one, or what its observations call for. No JAX."""
    if config.network != "auto":
        return config.network
    spec = envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit, constructor)
    return choose_network(config.network, spec.obs_shape)


def sees_images(config: Config) -> bool:
    """Whether the run's network is one for images."""
    return FAMILIES[network_of(config)].sees_images


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """What a result ran on."""
    return {"processor": processor(), "platform": platform.platform(), "cores": cores()}


def processor() -> str:
    """The processor's name, for manifests and results."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
