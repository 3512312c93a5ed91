"""Parameters that a run begins with: those of another run's checkpoint, or arrays that were no run's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import jax
import numpy as np

from trimtab.config import Config, ConfigError
from trimtab.core.errors import RunError
from trimtab.envs.base import Spec
from trimtab.math import ewma, normalize
from trimtab.training import snapshot
from trimtab.training.engine import Engine
from trimtab.training.records import CheckpointReference
from trimtab.training.run_dir import RunDir
from trimtab.training.state import State

NETWORK_FIELDS = ("network", "hidden_sizes", "impala_channels", "arch", "algo", "env_id")


@dataclass(frozen=True)
class WarmStart:
    """Tensors under the names of a checkpoint, and what they come from."""

    source: str
    """For messages: the run, or whose policy it is."""
    config: Config
    """Of what they come from."""
    tensors: dict[str, np.ndarray]
    optimizer: bool = False
    """Whether to take the optimizer state too."""
    reference: CheckpointReference | None = None
    """The checkpoint, so that a resume finds the same one; None where there is no run."""

    @classmethod
    def from_run(cls, path: str | PathLike[str], step: int | None = None, optimizer: bool = False) -> WarmStart:
        """The checkpoint of a run at `step`, the last one if None."""
        run = RunDir.open(path)
        checkpoint = run.checkpoint_at(step)
        source = str(run.path.resolve())
        reference = CheckpointReference(source, checkpoint.step, checkpoint.sha256, optimizer)
        return cls(source, run.config(), run.read_checkpoint(checkpoint), optimizer, reference)

    @classmethod
    def from_reference(cls, reference: CheckpointReference) -> WarmStart:
        """The same checkpoint again; refused if the run was trained anew since."""
        start = cls.from_run(reference.run, reference.step, reference.optimizer)
        if start.reference != reference:
            problem = f"has another checkpoint at step {reference.step} than the one this run started from"
            raise RunError(f"{reference.run} {problem}")
        return start

    @property
    def place(self) -> str:
        """Where the parameters come from, in words."""
        return f"{self.source} at step {self.reference.step:,}" if self.reference else self.source


def transferred_parts(engine: Engine, start: WarmStart) -> list[str]:
    """What a run takes from `start`, in words; a policy or optimizer state that cannot fit is refused.

    Critic and normalizers are taken where both runs have them. Counters, schedules and environments restart; so does
    the optimizer unless its state is requested.
    """
    config, source, agent = engine.algorithm.config, start.config, engine.algorithm.agent
    _check_shapes(config, agent.policy_layout, start)
    if config.norm_obs != source.norm_obs:
        problem = f"the policy of {start.source} was trained with norm_obs={str(source.norm_obs).lower()}"
        raise ConfigError("norm_obs", config.norm_obs, f"{problem}; nearest: {str(source.norm_obs).lower()}")
    _check_observations(engine.algorithm.env.spec, start)
    if start.optimizer and config.optimizer != source.optimizer:
        problem = f"the optimizer state is that of {source.optimizer}; nearest: {source.optimizer}"
        raise ConfigError("optimizer", config.optimizer, problem)
    parts = {
        "policy": True,
        "value function": bool(agent.value_layout)
        and config.norm_reward == source.norm_reward  # otherwise its units differ
        and _fits(agent.value_layout, start.tensors, "value"),
        "observation normalizer": config.norm_obs,
        "reward normalizer": config.norm_reward and source.norm_reward,
        "optimizer state": start.optimizer,
    }
    if start.optimizer and agent.value_layout and not parts["value function"]:
        raise RunError(f"the optimizer state of {start.source} does not fit these networks; leave it out")
    return [part for part, is_taken in parts.items() if is_taken]


def warm_start(engine: Engine, state: State, start: WarmStart, parts: Collection[str]) -> State:
    """`state` with parts of what a run starts from.

    Args:
        engine: of the run.
        state: before its first iteration.
        start: where the parts come from.
        parts: what `transferred_parts` listed.

    Returns:
        The state to train from.
    """
    tensors, agent = start.tensors, engine.algorithm.agent
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


def _critic(engine: Engine, state: State, tensors: dict[str, np.ndarray]) -> tuple[jax.Array, normalize.Moments | None]:
    """The value network of a checkpoint, in the units of this run, and the moments it rests on (PopArt).

    Under PopArt predictions are μ + σ V: the moments come along, or are put into the head where this run has none. A
    network without moments is one whose μ is 0 and σ 1, their initial values.
    """
    agent, prefix = engine.algorithm.agent, "state.value_stats"
    value = snapshot.vector(agent.value_layout, tensors, "value")
    if not any(name.startswith(f"{prefix}.") for name in tensors):
        return value, state.value_stats
    stats = _filled(normalize.moments(), tensors, prefix)
    if state.value_stats is not None:
        return value, stats
    return agent.rescale_value(value, stats.std, stats.mean), None


def _check_shapes(config: Config, layout: dict[str, tuple[int, ...]], start: WarmStart) -> None:
    """Refuse a policy of another shape, naming the field that makes it another."""
    if _fits(layout, start.tensors, "policy"):
        return
    for name in NETWORK_FIELDS:
        own, other = getattr(config, name), getattr(start.config, name)
        if own != other:
            raise ConfigError(name, own, f"the policy of {start.source} has another shape; nearest: {other}")
    raise RunError(f"the policy of {start.source} has another shape: its environment differs")


def _check_observations(spec: Spec, start: WarmStart) -> None:
    shape = start.tensors.get("state.obs_stats.mean", np.empty(spec.obs_shape)).shape
    if shape != tuple(spec.obs_shape):
        normalizer = f"the normalizer of {start.source} is for observations {shape}"
        raise RunError(f"{normalizer}; the environment has {tuple(spec.obs_shape)}")
    if start.reference is None and spec.obs_dtype == "uint8" and len(spec.obs_shape) > 1:
        raise RunError(f"the policy of {start.source} sees images, whose pixels other libraries order differently")


def _fits(layout: dict[str, tuple[int, ...]], tensors: dict[str, np.ndarray], network: str) -> bool:
    """Whether a checkpoint holds every tensor of a network, in its shape."""
    by_name = {name: tensors.get(f"params.{network}.{name}") for name in layout}
    return all(tensor is not None and tensor.shape == tuple(layout[name]) for name, tensor in by_name.items())


def _filled(template: Any, tensors: dict[str, np.ndarray], prefix: str) -> Any:
    """The template with the tensors of its paths under `prefix`."""
    return snapshot.filled(template, [tensors[f"{prefix}.{path}"] for path, _ in snapshot.paths(template)])
