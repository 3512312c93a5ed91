"""The memory a run needs, from its configuration alone, so that what cannot fit is refused before it starts. No JAX.

A lower bound: what is held from one iteration to the next or for all of one. Activations, environments and what the
compiler needs besides come on top.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.config import Config, ConfigError
from trimtab.envs.base import Continuous, Spec, numbers_in, outputs_of

FLOAT = 4  # bytes of a float32 or int32


@dataclass(frozen=True)
class Estimate:
    """Bytes, by what they are for."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def __str__(self) -> str:
        """The total and its largest parts, in units a person reads."""
        large = sorted(self.parts.items(), key=lambda part: -part[1])
        shown = ", ".join(f"{name} {human(size)}" for name, size in large if size * 20 >= self.total)
        return f"{human(self.total)} ({shown})"


def human(size: float) -> str:
    """Bytes as 25.8 GB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def estimate(config: Config, spec: Spec, parameters: int) -> Estimate:
    """Bytes of one run with `parameters` numbers in its networks, over all its devices."""
    return _estimate(config, spec, parameters, config.num_envs, config.staleness, config.policy_iterations)


def estimate_each(config: Config, spec: Spec, parameters: int) -> Estimate:
    """Bytes of one device: its share of the samples, and networks and optimizer whole."""
    return _each(config, estimate(config, spec, parameters))


def _each(config: Config, whole: Estimate) -> Estimate:
    return Estimate({name: size // config.devices for name, size in whole.parts.items()})


def _estimate(config: Config, spec: Spec, parameters: int, envs: int, staleness: int, iterations: int) -> Estimate:
    """The same at another N, staleness or N_π, whether or not a configuration could have them."""
    samples = envs * config.num_steps
    rollout, batch, phase_bytes = _sample_bytes(config, spec)
    phase = iterations * samples if config.is_ppg else 0
    moments = config.descent.vectors
    copies = 2 + moments + (1 if config.is_ewma else 0) + (moments if config.is_ppg else 0)
    parts = {
        "rollout": samples * rollout,
        "batch": samples * batch,
        "staleness queue": staleness * samples * batch,
        "PPG phase": phase * phase_bytes,
        # The policy before the phase, and the order of every epoch.
        "auxiliary epochs": phase * FLOAT * (_outputs(spec) + config.aux_epochs),
        "parameters and optimizer": parameters * FLOAT * copies * config.devices,
    }
    return Estimate({name: size for name, size in parts.items() if size})


def _outputs(spec: Spec) -> int:
    """Distribution parameters: a logit per choice, or means and log standard deviations."""
    return outputs_of(spec.action) * (2 if isinstance(spec.action, Continuous) else 1)


def _sample_bytes(config: Config, spec: Spec) -> tuple[int, int, int]:
    """Bytes of a sample in `rollout.Rollout`, in `algos.state.Batch` and in `algos.state.Phase`."""
    numbers = math.prod(spec.obs_shape)
    observation = numbers * (1 if spec.obs_dtype == "uint8" else FLOAT)
    learned = numbers * FLOAT if config.norm_obs else observation
    action = FLOAT * numbers_in(spec.action)
    acted = action + FLOAT * _outputs(spec) + FLOAT  # action, distribution, log-probability
    rollout = 2 * observation + acted + 3 * FLOAT + 3  # obs, next_obs; reward, episode return and length; three flags
    batch = learned + acted + 4 * FLOAT  # value, target, advantage, weight
    return rollout, batch, learned + 2 * FLOAT


def refuse_what_cannot_fit(config: Config, spec: Spec, parameters: int, available: int | None = None) -> None:
    """Raise, before anything is allocated, if a run needs more than `available` bytes (the host's, if not given).

    What an accelerator has is for its share of the run; what the host has is for all of it.
    """
    available = host_memory() if available is None else available * config.devices
    needed = estimate(config, spec, parameters)
    if available is None or needed.total <= available:
        return
    name, near = _dominating(config, spec, parameters, needed, available)
    problem = f"the run needs at least {needed} of memory and {human(available)} are available"
    advice = "no value fits" if near is None else f"nearest: {near}"
    raise ConfigError(name, getattr(config, name), f"{problem}; {advice}")


def _dominating(config: Config, spec: Spec, parameters: int, needed: Estimate, available: int) -> tuple[str, Any]:
    """The field behind the largest part, and its largest value that would fit; N if that field alone cannot help."""
    shares = {
        "policy_iterations": needed.parts.get("PPG phase", 0) + needed.parts.get("auxiliary epochs", 0),
        "staleness": needed.parts.get("staleness queue", 0),
        "num_envs": needed.parts["rollout"] + needed.parts["batch"],
        "hidden_sizes": needed.parts.get("parameters and optimizer", 0),
    }
    name = max(shares, key=shares.__getitem__)
    if name == "hidden_sizes":
        return name, None
    size_of: dict[str, Callable[[int], int]] = {
        "policy_iterations": lambda n: _estimate(config, spec, parameters, config.num_envs, config.staleness, n).total,
        "staleness": lambda n: _estimate(config, spec, parameters, config.num_envs, n, config.policy_iterations).total,
        "num_envs": lambda n: _estimate(config, spec, parameters, n, config.staleness, config.policy_iterations).total,
    }
    for field in dict.fromkeys((name, "num_envs")):
        near = _largest(config, field, size_of[field], available)
        if near is not None:
            return field, near
    return name, None


def _largest(config: Config, name: str, size: Callable[[int], int], available: int) -> int | None:
    """The largest value of a field that fits and that a configuration can have (sizes grow linearly in it)."""
    base = size(0)
    fits = (available - base) // max(1, size(1) - base)
    for value in range(fits, max(-1, fits - 10_000), -1):
        try:
            config.replace(**{name: value})
        except ConfigError:
            continue
        return value
    return None


def host_memory() -> int | None:
    """Bytes this machine can still give: MemAvailable, or the physical pages that are free; None if it does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def device_memory(device: Any) -> int | None:
    """Bytes a JAX device can still give; None where it does not say, as on CPUs (then the host's memory counts)."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    return None if limit is None else limit - stats.get("bytes_in_use", 0)
