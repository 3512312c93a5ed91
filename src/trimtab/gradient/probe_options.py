"""What a probe can be asked. Light: no JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trimtab.core.fields import ConfigError, check_types, nearest_divisors


@dataclass(frozen=True)
class ProbeOptions:
    """What to measure."""

    num_envs: int | None = None
    """N (the run's own by default)."""
    num_steps: int | None = None
    """T (the run's own by default)."""
    replicates: int = 32
    """Independent batches to draw."""
    start: Literal["stationary", "reset", "carry"] = "stationary"
    """Where rows start: stationary, reset or carry (the run's own environment states)."""
    advantages: Literal["raw", "fixed", "batch"] = "raw"
    """Advantages as they are (raw), standardized by an independent sample (fixed), or by their own batch (batch)."""
    objective: Literal["policy", "full"] = "policy"
    """The policy term alone, or full: with entropy and value terms."""
    method: Literal["auto", "layers", "chunks", "projection"] = "auto"
    """How per-sample gradients are computed: auto, layers, chunks or projection."""
    bias: bool = True
    """Also simulate the paired reference, to measure the bias."""
    blocks: tuple[int, ...] = ()
    """Also predict the variance of the same batch at these smaller T, cutting the rows into blocks."""
    correlations: bool = True
    """Also look at pairs of samples, replicates and minibatches."""
    seed: int = 0
    """Seed of the replicates and of every bootstrap."""
    devices: int = 1
    """Devices that replicates are spread over; the numbers do not depend on it."""


def check(options: ProbeOptions) -> None:
    """Refuse options that mean nothing."""
    check_types(options)
    if options.replicates < 2:
        raise ConfigError("replicates", options.replicates, "a variance needs at least 2; nearest: 2")
    for name in ("num_envs", "num_steps", "devices"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ConfigError(name, getattr(options, name), "must be at least 1; nearest: 1")
    for steps in options.blocks:
        if steps < 1:
            raise ConfigError("blocks", steps, "must be at least 1; nearest: 1")
        if options.num_steps is not None and (steps >= options.num_steps or options.num_steps % steps):
            near = [d for d in nearest_divisors(options.num_steps, steps) if d < options.num_steps]
            hint = f"nearest: {near[0]}" if near else "leave it out"
            raise ConfigError("blocks", steps, f"must be a smaller divisor of num_steps={options.num_steps}; {hint}")
    if options.blocks and options.advantages != "raw":
        raise ConfigError("advantages", options.advantages, "blocks predict for raw advantages; nearest: raw")
    if options.blocks and options.start != "stationary":
        raise ConfigError("start", options.start, "blocks of a row all start alike only there; nearest: stationary")
    if options.seed < 0:
        raise ConfigError("seed", options.seed, "must be at least 0; nearest: 0")
    if options.start == "carry" and options.replicates < 8:
        raise ConfigError("replicates", options.replicates, "carried states need at least 8; nearest: 8")
