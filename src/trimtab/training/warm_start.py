"""Where a run begins and how far it goes: parameters of another run to start from, and segments of its length.

A run that is made longer has two schedules: that of the first length up to a step, and that of the new length from
there on. The manifest keeps a segment for each, {"step": where it begins, "total_timesteps": the length it has}, so
that the same steps can be done again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trimtab import config as configuration
from trimtab.config import Config, ConfigError
from trimtab.envs.base import Spec
from trimtab.math import ewma, normalize
from trimtab.training import snapshot
from trimtab.training.engine import Engine
from trimtab.training.records import RunDir, RunError
from trimtab.training.state import State

NETWORK_FIELDS = ("network", "hidden_sizes", "impala_channels", "arch", "algo", "env_id")


@dataclass(frozen=True)
class StartCheckpoint:
    """A checkpoint whose parameters another run begins with. `sha256` is the checkpoint's, so that it stays the one."""

    run: str
    step: int
    sha256: str
    optimizer: bool = False

    @classmethod
    def from_run(cls, path: str | Path, step: int | None = None, optimizer: bool = False) -> StartCheckpoint:
        """The checkpoint of a run at `step`, the last if None."""
        run = RunDir.open(path)
        checkpoints = run.checkpoints()
        if not checkpoints:
            raise RunError(f"{run.path} has no checkpoint to start from")
        checkpoint = checkpoints[-1] if step is None else run.checkpoint_at(step)
        return cls(str(run.path.resolve()), checkpoint.step, checkpoint.sha256, optimizer)

    @property
    def config(self) -> Config:
        return configuration.from_dict(RunDir.open(self.run).config())

    @property
    def place(self) -> str:
        return f"{self.run} at step {self.step:,}"

    def tensors(self) -> dict[str, np.ndarray]:
        """The checkpoint's contents; refused if they are not the ones of then."""
        run = RunDir.open(self.run)
        checkpoint = run.checkpoint_at(self.step)
        if checkpoint.sha256 != self.sha256:
            raise RunError(f"{run.path} has another checkpoint at step {self.step} than the one this run started from")
        return run.read_checkpoint(checkpoint)


@dataclass(frozen=True)
class ForeignParameters:
    """Parameters that were no run's: arrays under the names of a checkpoint, and whose they are (`run`)."""

    run: str
    config: Config
    arrays: dict[str, np.ndarray]
    optimizer: bool = False

    @property
    def place(self) -> str:
        return self.run

    def tensors(self) -> dict[str, np.ndarray]:
        return self.arrays


def transferred_parts(engine: Engine, start: StartCheckpoint | ForeignParameters) -> list[str]:
    """What a run takes from `start`: policy, critic and normalizers where both have them; what cannot fit is refused.

    Counters, schedules and environments start anew; so does the optimizer unless it is asked for.
    """
    config, source = engine.algorithm.config, start.config
    tensors, agent = start.tensors(), engine.algorithm.agent
    _refuse_other_shapes(config, source, agent.policy_layout, tensors, start)
    if config.norm_obs != source.norm_obs:
        problem = f"the policy of {start.run} sees its observations otherwise; nearest: {str(source.norm_obs).lower()}"
        raise ConfigError("norm_obs", config.norm_obs, problem)
    _refuse_other_observations(engine.algorithm.env.spec, tensors, start)
    if start.optimizer and config.optimizer != source.optimizer:
        raise ConfigError("optimizer", config.optimizer, f"the state taken is of another; nearest: {source.optimizer}")
    parts = {
        "policy": True,
        "value function": bool(agent.value_layout)
        and config.norm_reward == source.norm_reward  # otherwise it is in other units
        and _fits(agent.value_layout, tensors, "value"),
        "observation normalizer": config.norm_obs,
        "reward normalizer": config.norm_reward and source.norm_reward,
        "optimizer state": start.optimizer,
    }
    if start.optimizer and agent.value_layout and not parts["value function"]:
        raise RunError(f"the optimizer state of {start.run} does not fit these networks; leave it out")
    return [part for part, is_taken in parts.items() if is_taken]


def warm_start(engine: Engine, state: State, start: StartCheckpoint | ForeignParameters) -> State:
    """`state` with everything that is `taken` from `start`."""
    parts, tensors, agent = transferred_parts(engine, start), start.tensors(), engine.algorithm.agent
    networks = {"policy": snapshot.vector(agent.policy_layout, tensors, "policy")}
    if "value function" in parts:
        networks["value"], stats = _critic(engine, state, tensors)
        state = replace(state, value_stats=stats)
    params = state.params._replace(**networks)
    state = replace(state, params=params, prox=ewma.init(params.policy) if state.prox is not None else None)
    if "observation normalizer" in parts:
        state = replace(state, obs_stats=_filled(state.obs_stats, tensors, "state.obs_stats"))
    if "reward normalizer" in parts:
        scale: Any = state.reward_scale
        stats = _filled(scale.stats, tensors, "state.reward_scale.stats")
        state = replace(state, reward_scale=scale._replace(stats=stats))
    if "optimizer state" in parts:
        state = replace(state, optimizer=_filled(state.optimizer, tensors, "state.optimizer"))
    return state


def _critic(engine: Engine, state: State, tensors: dict[str, np.ndarray]) -> tuple[Any, Any]:
    """The value network of a checkpoint, in the units of this run, and the moments they rest on (PopArt).

    Under PopArt predictions are μ + σ V: the moments come along, or are put into the head where this run has none. A
    network without moments is one whose μ is 0 and σ 1, as they begin.
    """
    agent, prefix = engine.algorithm.agent, "state.value_stats"
    value = snapshot.vector(agent.value_layout, tensors, "value")
    if not any(name.startswith(f"{prefix}.") for name in tensors):
        return value, state.value_stats
    stats = _filled(normalize.moments(), tensors, prefix)
    if state.value_stats is not None:
        return value, stats
    return agent.rescale_value(value, stats.std, stats.mean), None


def _refuse_other_shapes(
    config: Config, source: Config, layout: dict, tensors: dict, start: StartCheckpoint | ForeignParameters
) -> None:
    if _fits(layout, tensors, "policy"):
        return
    for name in NETWORK_FIELDS:
        own, other = getattr(config, name), getattr(source, name)
        if own != other:
            raise ConfigError(name, own, f"the policy of {start.run} has another shape; nearest: {other}")
    raise RunError(f"the policy of {start.run} has another shape: its environment differs")


def _refuse_other_observations(spec: Spec, tensors: dict, start: StartCheckpoint | ForeignParameters) -> None:
    shape = tensors.get("state.obs_stats.mean", np.empty(spec.obs_shape)).shape
    if shape != tuple(spec.obs_shape):
        raise RunError(
            f"the normalizer of {start.run} is of observations {shape}; the environment has {tuple(spec.obs_shape)}"
        )
    if isinstance(start, ForeignParameters) and spec.obs_dtype == "uint8" and len(spec.obs_shape) > 1:
        raise RunError(f"the policy of {start.run} sees images, whose pixels other libraries order otherwise")


def _fits(layout: dict[str, tuple[int, ...]], tensors: dict[str, np.ndarray], network: str) -> bool:
    """Whether a checkpoint holds every tensor of a network, in its shape."""
    by_name = {name: tensors.get(f"params.{network}.{name}") for name in layout}
    return all(tensor is not None and tensor.shape == tuple(layout[name]) for name, tensor in by_name.items())


def _filled(template: Any, tensors: dict[str, np.ndarray], prefix: str) -> Any:
    """The template with the tensors of its paths under `prefix`."""
    return snapshot.filled(template, [tensors[f"{prefix}.{path}"] for path, _ in snapshot.paths(template)])


Segment = dict[str, Any]


def _segment(step: int, config: Config) -> Segment:
    total = config.total_timesteps
    about = f"from step {step} on, annealing follows a length of {total}"
    segment = {"step": step, "total_timesteps": total, "schedules": about}
    return segment | ({"devices": config.devices} if config.devices > 1 else {})


def devices_of(segment: Segment) -> int:
    return segment.get("devices", 1)


def first_segment(config: Config) -> Segment:
    return _segment(0, config)


def segments_of(run: RunDir, config: Config) -> list[Segment]:
    """The segments a run has recorded."""
    return run.manifest().get("segments") or [first_segment(config)]


def extend_segments(segments: list[Segment], step: int, config: Config, exact: bool) -> list[Segment]:
    """The segments of a run that goes on from `step` as `config` says.

    A new one begins where the length or the number of devices becomes another, and at every resume of environments
    whose states are not kept.
    """
    before, now = [segment for segment in segments if segment["step"] < step], _segment(step, config)
    same = bool(before) and devices_of(before[-1]) == config.devices
    if same and exact and before[-1]["total_timesteps"] == config.total_timesteps:
        return before
    if before and not same:
        now["not_bit_for_bit"] = f"devices {devices_of(before[-1])} -> {config.devices}: other keys, other shuffles"
    return [*before, now]
