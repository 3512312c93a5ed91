"""What a probe can be asked. Light: no JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trimtab.core.fields import ConfigError, nearest_divisors, option
from trimtab.core.options import Options


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(Options):
    """What to measure."""

    num_envs: int | None = option(None, low=1)
    """N (default: the run's own)."""
    num_steps: int | None = option(None, low=1)
    """T (default: the run's own)."""
    replicates: int = 32
    """Independent batches to draw."""
    precision: float | None = option(None, low=0, positive=True)
    """Relative half-width of the variance's 95% interval to reach: the replicates double until it is reached, up to 8
    times as many (default: draw as many as given)."""
    start: Literal["training", "stationary", "reset", "carry"] = "training"
    """Where rows start: training (whole iterations, in the phases of training), stationary (every row at a random
    time of an episode), reset (fresh episodes) or carry (the run's own environment states)."""
    advantages: Literal["raw", "fixed", "batch"] = "raw"
    """Use advantages as they are (raw), standardized by an independent sample (fixed) or by their own batch (batch)."""
    objective: Literal["policy", "full"] = "policy"
    """The policy term alone (policy), or with the entropy and value terms (full)."""
    method: Literal["auto", "layers", "chunks", "projection"] = "auto"
    """How per-sample gradients are computed."""
    bias: bool = True
    """Also simulate the paired reference, to measure the bias."""
    blocks: tuple[int, ...] = ()
    """Also predict the variance of the same batch at these smaller T, cutting the rows into blocks."""
    correlations: bool = True
    """Also measure correlations between pairs of samples, replicates and minibatches."""
    seed: int = option(0, low=0)
    """Seed of the replicates and of every bootstrap."""
    devices: int = option(1, low=1)
    """Devices that share the replicates; the numbers do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replicates < 2:
            raise ConfigError("replicates", self.replicates, "a variance needs at least 2; nearest: 2")
        _check_blocks(self)


def _check_blocks(options: ProbeOptions) -> None:
    """Blocks divide the rows, and are predicted for raw advantages of rows that start alike."""
    for steps in options.blocks:
        if options.num_steps is not None and (steps >= options.num_steps or options.num_steps % steps):
            near = [d for d in nearest_divisors(options.num_steps, steps) if d < options.num_steps]
            hint = f"nearest: {near[0]}" if near else "leave it out"
            raise ConfigError("blocks", steps, f"must be a smaller divisor of num_steps={options.num_steps}; {hint}")
    if options.blocks and options.advantages != "raw":
        raise ConfigError("advantages", options.advantages, "blocks predict for raw advantages; nearest: raw")
    if options.blocks and options.start not in ("training", "stationary"):
        problem = "blocks of a row start alike only with training or stationary; nearest: training"
        raise ConfigError("start", options.start, problem)
