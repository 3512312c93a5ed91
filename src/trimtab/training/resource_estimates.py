"""The memory and disk a run needs, from its configuration alone, to refuse early what cannot fit. No JAX.

Memory is a lower bound: what is kept from one iteration to the next or for a whole iteration. Activations,
environments and the compiler's own buffers come on top.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.config import Config, ConfigError
from trimtab.envs.base import Continuous, Spec, numbers_in, outputs_of

FLOAT_BYTES = 4  # of a float32 or int32
USUAL_CHECKPOINTS = 20  # over a run where they are small
FEWEST_CHECKPOINTS = 2  # however large they are, so that a run that is killed half-way can resume
MOST_CHECKPOINT_BYTES = 512_000_000  # of all checkpoints of a run, unless their number is given
METRICS_ROW_BYTES = 1_000  # about what an iteration adds to metrics.jsonl


def format_bytes(size: float) -> str:
    """A size as 25.8 GB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def _parameter_copies(config: Config) -> int:
    """Vectors of the parameters' size in a State: parameters, optimizer state, the EWMA, PPG's second optimizer."""
    moments = config.optimizer_kind.vectors
    return 1 + moments + (1 if config.is_ewma else 0) + (moments if config.is_ppg else 0)


# Memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by purpose."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def __str__(self) -> str:
        """The total and its largest parts."""
        large = sorted(self.parts.items(), key=lambda part: -part[1])
        shown = ", ".join(f"{name} {format_bytes(size)}" for name, size in large if size * 20 >= self.total)
        return f"{format_bytes(self.total)} ({shown})"


def estimate_memory(config: Config, spec: Spec, parameters: int, **sizes: int) -> MemoryEstimate:
    """The memory of a run over all its devices.

    Args:
        config: the run.
        spec: its environment.
        parameters: numbers in its networks.
        sizes: values that replace the configuration's num_envs, staleness or policy_iterations, valid or not.

    Returns:
        Bytes by purpose.
    """
    samples = sizes.get("num_envs", config.num_envs) * config.num_steps
    staleness = sizes.get("staleness", config.staleness)
    phase = sizes.get("policy_iterations", config.policy_iterations) * samples if config.is_ppg else 0
    rollout, batch, phase_sample = _sample_bytes(config, spec)
    parts = {
        "rollout": samples * rollout,
        "batch": samples * batch,
        "staleness queue": staleness * samples * batch,
        "PPG phase": phase * phase_sample,
        # The policy before the phase, and the order of every epoch.
        "auxiliary epochs": phase * FLOAT_BYTES * (_policy_outputs(spec) + config.aux_epochs),
        # A gradient besides what the state holds.
        "parameters and optimizer": parameters * FLOAT_BYTES * (_parameter_copies(config) + 1) * config.devices,
    }
    return MemoryEstimate({name: size for name, size in parts.items() if size})


def estimate_device_memory(config: Config, spec: Spec, parameters: int) -> MemoryEstimate:
    """The memory of one device of a run: its share of the samples, all parameters and optimizer state."""
    whole = estimate_memory(config, spec, parameters)
    return MemoryEstimate({name: size // config.devices for name, size in whole.parts.items()})


def _policy_outputs(spec: Spec) -> int:
    """Distribution parameters: a logit per choice, or means and log standard deviations."""
    return outputs_of(spec.action) * (2 if isinstance(spec.action, Continuous) else 1)


def _sample_bytes(config: Config, spec: Spec) -> tuple[int, int, int]:
    """Bytes of a sample in `rollout.Rollout`, `state.Batch` and `state.Phase`."""
    numbers = math.prod(spec.obs_shape)
    observation = numbers * (1 if spec.obs_dtype == "uint8" else FLOAT_BYTES)
    learned = numbers * FLOAT_BYTES if config.norm_obs else observation
    acted = FLOAT_BYTES * (numbers_in(spec.action) + _policy_outputs(spec) + 1)  # action, distribution, log-probability
    rollout = 2 * observation + acted + 3 * FLOAT_BYTES + 3  # obs, next_obs; reward, episode return, length; flags
    batch = learned + acted + 4 * FLOAT_BYTES  # value, target, advantage, weight
    return rollout, batch, learned + 2 * FLOAT_BYTES


def check_memory(config: Config, spec: Spec, parameters: int, available: int | None = None) -> None:
    """Raise ConfigError, before anything is allocated, for a run that needs more memory than there is.

    Args:
        config: the run.
        spec: its environment.
        parameters: numbers in its networks.
        available: bytes of one device, which are for its share of the run; None for the host's, which are for all.
    """
    available = host_memory() if available is None else available * config.devices
    needed = estimate_memory(config, spec, parameters)
    if available is None or needed.total <= available:
        return
    name, near = _field_to_reduce(config, spec, parameters, needed, available)
    problem = f"the run needs at least {needed} of memory and {format_bytes(available)} are available"
    advice = "no value fits" if near is None else f"nearest: {near}"
    raise ConfigError(name, getattr(config, name), f"{problem}; {advice}")


def _field_to_reduce(
    config: Config, spec: Spec, parameters: int, needed: MemoryEstimate, available: int
) -> tuple[str, int | None]:
    """The field behind the largest part, and its largest value that fits; num_envs if that field alone cannot help."""
    parts = needed.parts
    shares = {
        "policy_iterations": parts.get("PPG phase", 0) + parts.get("auxiliary epochs", 0),
        "staleness": parts.get("staleness queue", 0),
        "num_envs": parts["rollout"] + parts["batch"],
        "hidden_sizes": parts.get("parameters and optimizer", 0),
    }
    name = max(shares, key=shares.__getitem__)
    if name == "hidden_sizes":
        return name, None
    for field in dict.fromkeys((name, "num_envs")):
        near = _largest_fitting(config, spec, parameters, field, available)
        if near is not None:
            return field, near
    return name, None


def _largest_fitting(config: Config, spec: Spec, parameters: int, name: str, available: int) -> int | None:
    """The largest value of a field that fits and that a Config accepts; sizes grow linearly in it."""
    base, one = (estimate_memory(config, spec, parameters, **{name: n}).total for n in (0, 1))
    fits = (available - base) // max(1, one - base)
    for value in range(fits, max(-1, fits - 10_000), -1):
        try:
            config.replace(**{name: value})
        except ConfigError:
            continue
        return value
    return None


def host_memory() -> int | None:
    """Bytes this machine can still give: MemAvailable, else free physical pages; None where neither is known."""
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


# Disk ------------------------------------------------------------------------------------------------------


def checkpoint_bytes(config: Config, parameters: int) -> int:
    """Bytes of one checkpoint of a run with `parameters` numbers in its networks; the rest of it is small."""
    return FLOAT_BYTES * parameters * _parameter_copies(config)


def default_checkpoint_count(size: int) -> int:
    """Checkpoints over a run, besides the one at its start: 20, or fewer so that all stay within 512 MB."""
    return max(FEWEST_CHECKPOINTS, min(USUAL_CHECKPOINTS, MOST_CHECKPOINT_BYTES // max(size, 1) - 1))


def checkpoint_iterations(iterations: int, count: int) -> list[int]:
    """The iterations after which a run writes its `count` checkpoints: evenly spaced, the last iteration among them."""
    count = max(1, min(count, iterations))
    return sorted({round(k * iterations / count) for k in range(1, count + 1)})


def run_bytes(config: Config, size: int, checkpoints: int) -> int:
    """Bytes of a whole run: its checkpoints of `size` bytes, with the one at the start, and its rows of metrics."""
    return (checkpoints + 1) * size + config.iterations * METRICS_ROW_BYTES
