"""A trained policy taken out of its run: a function of observations that needs NumPy only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Num, Shaped

from trimtab.config import Config
from trimtab.core.errors import RunError
from trimtab.nets.families import FAMILIES, choose_network
from trimtab.training import standalone_numpy
from trimtab.training.records import ActionRecord, EnvironmentRecord, ObservationRecord
from trimtab.training.run_dir import RunDir

_STD_FLOOR = 1e-8  # inside the square root of `normalize.Moments.std`


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` is the action; a batch of observations gives a batch of actions.

    `weights` are plain arrays by name, in the words of the standalone file that `trimtab export --to numpy` writes,
    whose functions do the computing here too. Discrete actions are whole numbers from 0 (several of them for
    MultiDiscrete and MultiBinary), continuous ones float32 vectors within their box. A Dict or Tuple observation whose
    entries are arrays may be given as it is; otherwise, and in batches, as the flat vector of its parts.
    """

    weights: dict[str, np.ndarray] = field(repr=False)
    env_id: str
    step: int
    generator: np.random.Generator | None = field(default=None, repr=False)
    parts: tuple[tuple[str, int], ...] = field(default=(), repr=False)  # of a Dict or Tuple: name and numbers of each

    def __call__(self, observation: Shaped[np.ndarray, " ..."] | dict | tuple) -> Num[np.ndarray, " ..."]:
        if self.parts and isinstance(observation, dict | tuple):
            observation = self._flat(observation)
        shape, input_shape = self.observation_shape, np.shape(np.asarray(observation))
        if input_shape != shape and input_shape[1:] != shape:
            raise ValueError(f"observation: has shape {input_shape}; {self.env_id} gives {shape}, or a batch of such")
        return standalone_numpy.act(self.weights, observation, self.generator)

    def _flat(self, observation: dict | tuple) -> Float[np.ndarray, " numbers"]:
        """The parts of an observation one after another, in the order of training."""
        pieces = []
        for name, size in self.parts:
            piece = _inside(observation, name)
            numbers = np.asarray(piece, np.float32).reshape(-1)
            if len(numbers) != size:
                total = self.observation_shape[0]
                raise ValueError(f"observation: {name} has {len(numbers)} numbers, not {size}; give all {total} in one")
            pieces.append(numbers)
        return np.concatenate(pieces)

    def outputs(self, observations: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B outputs"]:
        """Scores of the choices (logits), or means of the actions."""
        return standalone_numpy.outputs(self.weights, observations)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return tuple(map(int, self.weights["obs.shape"]))

    @property
    def discrete(self) -> bool:
        return "log_std" not in self.weights


def _inside(observation: Any, name: str) -> Any:
    """The entry of that name: keys joined by points, which keys may have themselves."""
    for path, entry in _entries(observation, ()):
        if ".".join(path) == name:
            return entry
    raise ValueError(f"observation: has no {name}")


def _entries(observation: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(observation, dict | tuple):
        yield path, observation
        return
    pairs = observation.items() if isinstance(observation, dict) else enumerate(observation)
    for key, inner in pairs:
        yield from _entries(inner, (*path, str(key)))


def policy_of(run: RunDir, step: int | None = None, sample: bool = False, seed: int = 0) -> Policy:
    """The policy of a run's checkpoint.

    Args:
        run: the run.
        step: the checkpoint; the last one if None.
        sample: draw actions as in training, instead of taking the most likely ones.
        seed: of these draws.

    Returns:
        A function of observations.
    """
    checkpoint = run.checkpoint_at(step)
    config, env = run.config(), run.manifest().environment or EnvironmentRecord()
    action, observation = _complete(config, env, run)
    return Policy(
        weights=_weights(config, env, action, observation, run.read_checkpoint(checkpoint)),
        env_id=config.env_id,
        step=checkpoint.step,
        generator=np.random.default_rng(seed) if sample else None,
        parts=tuple((name, stop - start) for name, start, stop in observation.parts),
    )


def _complete(config: Config, env: EnvironmentRecord, run: RunDir) -> tuple[ActionRecord | None, ObservationRecord]:
    """The actions and observations; refused where an earlier version did not record all that its policy needs."""
    action, observation = env.action, env.observation
    several = action is not None and action.kind == "multi-discrete" and action.choices is None
    unseen = observation is not None and bool(config.actor_obs) and observation.seen is None
    missing = "what observations look like" if observation is None else ""
    missing = missing or ("how many choices there are" if several else "")
    missing = missing or ("where the parts of an observation lie" if unseen else "")
    if observation is None or missing:
        raise RunError(f"{run.path}/manifest.json does not record {missing}; train it again")
    return action, observation


def _weights(
    config: Config,
    env: EnvironmentRecord,
    action: ActionRecord | None,
    observation: ObservationRecord,
    tensors: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The arrays of the standalone file."""
    prefix = "params.policy."
    weights = {
        _plain_name(name.removeprefix(prefix)): value
        for name, value in tensors.items()
        if name.startswith(prefix) and ".auxiliary." not in name
    }
    family = FAMILIES[choose_network(config.network, observation.shape)]
    weights["obs.shape"] = np.asarray(observation.shape, np.int64)
    weights["activation"] = np.asarray("relu" if family.sees_images else config.activation)
    if observation.dtype == "uint8" and (family.sees_images or not config.norm_obs):
        weights["obs.scale"] = np.asarray(1 / 255, np.float32)
    weights |= family.kernels(weights)
    if config.actor_obs:
        weights["obs.parts"] = np.asarray(observation.seen, np.int64)
    if action is not None and action.choices is not None:
        weights["choices"] = np.asarray(action.choices, np.int64)
    if action is not None and action.kind == "multi-binary":
        weights["switches"] = np.asarray(action.size, np.int64)
    if config.norm_obs:
        weights |= _normalizer(config, tensors)
    if env.bounds is not None:
        for name, side, beyond in (("low", env.bounds.low, -np.inf), ("high", env.bounds.high, np.inf)):
            weights[name] = np.asarray([beyond if bound is None else bound for bound in side], np.float32)
    return weights


def _plain_name(name: str) -> str:
    """trunk.layers[0].weight is layers.0.weight."""
    return re.sub(r"\[(\d+)\]", r".\1", name).removeprefix("trunk.")


def _normalizer(config: Config, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean and deviation as `normalize.normalize_obs` uses them."""
    count, mean, deviation = (tensors[f"state.obs_stats.{name}"] for name in ("count", "mean", "deviation"))
    std = np.sqrt(deviation / max(count, 1.0) + _STD_FLOOR) if count > 1 else np.ones_like(mean)
    return {"obs.mean": mean, "obs.std": std.astype(np.float32), "obs.clip": np.asarray(config.clip_obs, np.float32)}
