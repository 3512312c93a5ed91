"""What a probe and a split can be asked. Light: no JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trimtab.fields import ConfigError, check_types, nearest_divisors


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


@dataclass
class SplitOptions:
    """How much effort to spend."""

    splits: str | None = None
    """Splits to measure, for example 4x256,16x64 (default: a ladder in steps of 4)."""
    run: str | None = None
    """Probe this run instead of training one."""
    seeds: int = 3
    """Seeds to train each split from scratch on (0: do not train)."""
    points: int = 3
    """Points of training at which every split is probed."""
    replicates: int = 32
    """Batches per probe (fewer where a batch has many rows)."""
    quick: bool = False
    """A first answer in about a minute: fewer splits, and 1 seed, 1 point and 16 replicates unless others are given."""


QUICK = {"seeds": 1, "points": 1, "replicates": 16}  # of a quick split, where nothing else is asked for


def check(options: ProbeOptions) -> None:
    """Refuse options that mean nothing."""
    check_types(options)
    if options.replicates < 2:
        raise ConfigError("replicates", options.replicates, "a variance needs at least 2; nearest: 2")
    for name in ("num_envs", "num_steps"):
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


def check_split(options: SplitOptions) -> None:
    """Refuse efforts that mean nothing."""
    for name, least in (("seeds", 0), ("points", 1), ("replicates", 2)):
        if getattr(options, name) < least:
            raise ConfigError(name, getattr(options, name), f"must be at least {least}; nearest: {least}")
