"""`trimtab probe`: open the gradient of checkpoints and measure what it is made of."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from trimtab.config import ConfigError
from trimtab.config.device_shares import with_devices
from trimtab.gradient.anatomy import Anatomy
from trimtab.gradient.checkpoint_choice import choose
from trimtab.gradient.measurements import write
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.prober import Prober, static_key
from trimtab.training import snapshot
from trimtab.training.engine_setup import load_engine
from trimtab.training.run import Run, load

__all__ = ["Anatomy", "Prober", "measure", "probe"]

MOST_KEPT = 4  # probers whose programs stay compiled for the next probe of this process
_kept: OrderedDict[tuple, Prober] = OrderedDict()


def probe(
    run: Run | str | Path,
    at: int | Sequence[int] | Literal["last", "all"] | None = None,
    gae_lambda: float | Sequence[float] | None = None,
    options: ProbeOptions | None = None,
    *,
    save: bool = True,
    tick: Callable[[int, int, str], None] = lambda done, total, doing: None,
    **given: Any,
) -> Anatomy | list[Anatomy]:
    """Measure the gradient at checkpoints of a run.

    Args:
        run: the run.
        at: a step, several, "last" or "all"; by default the last checkpoint after which the return still changed.
        gae_lambda: λ to measure; the run's own by default.
        options: what to measure, and how.
        save: write the table of measurements into the run.
        tick: called with the batches done, all of them, and what is being done.
        given: fields of `ProbeOptions`, in place of `options`.

    Returns:
        What was measured; a list where several checkpoints or several λ are requested.
    """
    run = run if isinstance(run, Run) else load(run)
    options = ProbeOptions(**given) if options is None else options
    lambdas = _lambdas(run, gae_lambda)
    steps, reason = _steps(run, at)
    anatomies = measure(run, steps, lambdas, options, tick)
    if reason:
        anatomies = [dataclasses.replace(anatomy, notes=(reason, *anatomy.notes)) for anatomy in anatomies]
    if save:
        write(run.path, anatomies)
    several = at == "all" or isinstance(at, list | tuple) or isinstance(gae_lambda, list | tuple)
    return anatomies if several else anatomies[0]


def measure(
    run: Run,
    steps: Sequence[int],
    lambdas: Sequence[float | None],
    options: ProbeOptions,
    tick: Callable[[int, int, str], None] = lambda done, total, doing: None,
) -> list[Anatomy]:
    """Every λ (None: the run's own) at every checkpoint; nothing is written."""
    anatomies: list[Anatomy] = []
    prober: Prober | None = None
    try:
        for step in steps:
            prober = _prober(run, step, options)
            for value in lambdas:
                progress = _Told(tick, prober.passes, len(anatomies), len(steps) * len(lambdas), step)
                anatomies.append(prober.anatomy(step, value, progress))
    finally:
        if prober:
            prober.close()
    return anatomies


class _Told:
    """Progress through one of several anatomies, told as progress through all of them."""

    def __init__(self, tick: Callable[[int, int, str], None], passes: int, before: int, anatomies: int, step: int):
        self.tick, self.done, self.total = tick, before * passes, anatomies * passes
        self.where = f"step {step:,}, " if anatomies > 1 else ""
        tick(self.done, self.total, f"{self.where}compiling")

    def __call__(self, doing: str) -> None:
        self.done = min(self.done + 1, self.total)  # more batches than planned, where a precision asks for them
        self.tick(self.done, self.total, self.where + doing)


def _lambdas(run: Run, gae_lambda: float | Sequence[float] | None) -> list[float | None]:
    lambdas: list[float | None] = [*gae_lambda] if isinstance(gae_lambda, Sequence) else [gae_lambda]
    for value in lambdas:
        if value is not None and not 0 <= value <= 1:
            raise ConfigError("gae_lambda", value, f"must be from 0 to 1; nearest: {0 if value < 0 else 1}")
    if gae_lambda is not None and not run.config.uses_gae:
        problem = f"{run.config.traits.title} has none (it is PPO's at 1); leave it out"
        raise ConfigError("gae_lambda", gae_lambda, problem)
    return lambdas


def _steps(run: Run, at: int | Sequence[int] | str | None) -> tuple[list[int], str | None]:
    """The checkpoints to measure, and why, if nobody named one."""
    if at is None:
        chosen = choose(run)
        return [chosen.step], chosen.reason
    if at in ("all", "last"):
        return [c.step for c in run.checkpoints][0 if at == "all" else -1 :], None
    if isinstance(at, str):
        raise ConfigError("at", at, "must be a step, several, last or all; nearest: last, all")
    steps: list[int] = [at] if isinstance(at, int) else list(at)
    if not steps:
        raise ConfigError("at", at, "names no step; nearest: last, all")
    return steps, None


def _prober(run: Run, step: int, options: ProbeOptions) -> Prober:
    """A prober at a checkpoint: one of this process that has compiled the same already, or a new one."""
    config = with_devices(run.config, 1)  # a probe spreads replicates over its own devices, whatever trained the run
    key = static_key(config, options, step // config.batch)
    if key in _kept:
        prober = _kept[key]
        tensors = run.files.read_checkpoint(run.files.checkpoint_at(step))
        state = snapshot.unpack(prober.algorithm, prober.sampler.state, tensors)
        _kept.move_to_end(key)
        return prober.at(state, config, options.replicates)
    config, engine, state, _ = load_engine(run.path, step, devices=options.devices)
    engine.close()
    _kept[key] = prober = Prober(config, engine.algorithm, state, options)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return prober
