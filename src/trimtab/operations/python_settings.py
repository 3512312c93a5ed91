"""Configurations from Python: at another size, before they run, from other libraries."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, Unpack

from trimtab.advise import planning as planning
from trimtab.advise import rescaling as rescaling
from trimtab.config import Config
from trimtab.config.keywords import Fields
from trimtab.libraries.common import translation as translating
from trimtab.libraries.common.library import Translated
from trimtab.operations.source import Source, configure, refuse_constructor, run_of
from trimtab.training.run import Run
from trimtab.training.run_dir import RunDir


def rescale(
    source: Source,
    *,
    num_envs: int | None = None,
    num_steps: int | None = None,
    minibatch_size: int | None = None,
    num_minibatches: int | None = None,
    devices: int | None = None,
    devices_before: int | None = None,
    rule: Literal["invariant", "linear", "none", "fixed-inner"] = "invariant",
    skip: Collection[str] = (),
    adam_betas: bool = False,
    noise_scale: float | None = None,
    auxiliary: Literal["constant", "paper"] = "constant",
    workers: int | None = None,
    workers_before: int | None = None,
) -> rescaling.Rescaled:
    """The configuration of a source at a new size, everything else adjusted so that it learns the same per step.

    `num_envs`, `num_steps`, and one of `minibatch_size` and `num_minibatches` are the new size; the number of
    minibatches stays unless a minibatch is given. `devices` is data-parallel: environments per device stay, so N grows
    from the configuration's devices (or `devices_before`) to these. `rule`: the paper's ("invariant"), the same with
    Adam's step size in proportion ("linear"), only the sizes ("none"), or minibatch and step size kept
    ("fixed-inner"). `skip` names adjustments to leave out; `adam_betas` adds one that the paper leaves out. A
    `noise_scale` (in samples; a run's own probe if it has one) is only warned about. `auxiliary`: what PPG's auxiliary
    phase does, "paper" with the numbers of `workers`.
    """
    if noise_scale is None and (isinstance(source, Run) or (not isinstance(source, Config) and RunDir.began(source))):
        newest = run_of(source).newest("noise_scale")
        noise_scale = newest["value"] if newest else None
    return rescaling.rescale(
        configure(source),
        num_envs=num_envs,
        num_steps=num_steps,
        minibatch_size=minibatch_size,
        num_minibatches=num_minibatches,
        devices=devices,
        devices_before=devices_before,
        rule=rule,
        skip=skip,
        adam_betas=adam_betas,
        noise_scale=noise_scale,
        auxiliary=auxiliary,
        workers=workers,
        workers_before=workers_before,
    )


def plan(source: Source, *, preset: str | None = None, **fields: Unpack[Fields]) -> planning.Plan:
    """What the rules of thumb say of a configuration before it runs, most pressing first; arguments of `configure`."""
    refuse_constructor(fields)
    return planning.plan(configure(source, preset=preset, **fields))


def translate(library: str, fields: dict[str, Any], *, defaults: bool = True) -> Translated:
    """Hyperparameters of another library here; `.config(env_id)` makes a Config of them.

    `library`: sb3 (also RL Zoo's), cleanrl, rllib, rsl_rl, skrl, rl_games, brax or ppo-ewma; `fields` by its own names.
    With `defaults`, what the library does where nothing is given is carried over too.
    """
    return translating.translate(library, fields, defaults)
