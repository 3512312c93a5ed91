"""A trained policy taken out of its run: a function of observations that needs NumPy only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Num, Shaped

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.runs.export import standalone_numpy
from trimtab.runs.records import RunDir, RunError

_STD_FLOOR = 1e-8  # inside the square root of `normalize.Moments.std`


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` is the action; a batch of observations gives a batch of actions.

    `weights` are plain arrays by name, in the words of the standalone file that `trimtab export --to numpy` writes,
    whose functions do the computing here too. Discrete actions are whole numbers from 0, continuous ones float32
    vectors within their box.
    """

    weights: dict[str, np.ndarray] = field(repr=False)
    env_id: str
    step: int
    generator: np.random.Generator | None = field(default=None, repr=False)

    def __call__(self, observation: Shaped[np.ndarray, " ..."]) -> Num[np.ndarray, " ..."]:
        shape, given = self.observation_shape, np.shape(observation)
        if given != shape and given[1:] != shape:
            raise ValueError(f"observation: has shape {given}; {self.env_id} gives {shape}, or a batch of such")
        return standalone_numpy.act(self.weights, observation, self.generator)

    def outputs(self, observations: Shaped[np.ndarray, "B ..."]) -> Float[np.ndarray, "B outputs"]:
        """Scores of the choices (logits), or means of the actions."""
        return standalone_numpy.outputs(self.weights, observations)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return tuple(map(int, self.weights["obs.shape"]))

    @property
    def discrete(self) -> bool:
        return "log_std" not in self.weights


def policy_of(run: RunDir, step: int | None = None, sample: bool = False, seed: int = 0) -> Policy:
    """The policy of a checkpoint (the last if `step` is None); actions are drawn if `sample`, with this seed."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise RunError(f"{run.path} has no checkpoint")
    checkpoint = checkpoints[-1] if step is None else run.checkpoint_at(step)
    config = configuration.from_dict(run.config())
    weights = _weights(config, run.manifest().get("environment", {}), run.read_checkpoint(checkpoint), run)
    return Policy(weights, config.env_id, checkpoint.step, np.random.default_rng(seed) if sample else None)


def _weights(config: Config, env: dict[str, Any], tensors: dict[str, np.ndarray], run: RunDir) -> dict[str, np.ndarray]:
    if "observation" not in env:
        raise RunError(f"{run.path}/manifest.json does not say what observations look like; train it again")
    prefix = "params.policy."
    weights = {
        _plain_name(name.removeprefix(prefix)): value
        for name, value in tensors.items()
        if name.startswith(prefix) and ".auxiliary." not in name
    }
    weights["obs.shape"] = np.asarray(env["observation"]["shape"], np.int64)
    weights["activation"] = np.asarray("relu" if config.network == "impala" else config.activation)
    if config.network == "impala":
        weights["obs.scale"] = np.asarray(1 / 255 if env["observation"]["dtype"] == "uint8" else 1.0, np.float32)
    if config.norm_obs:
        weights |= _normalizer(config, tensors)
    if "bounds" in env:
        for name, beyond in (("low", -np.inf), ("high", np.inf)):
            bounds = [beyond if bound is None else bound for bound in env["bounds"][name]]
            weights[name] = np.asarray(bounds, np.float32)
    return weights


def _plain_name(name: str) -> str:
    """trunk.layers[0].weight is layers.0.weight."""
    return re.sub(r"\[(\d+)\]", r".\1", name).removeprefix("trunk.")


def _normalizer(config: Config, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean and deviation as `normalize.normalize_obs` uses them."""
    count, mean, deviation = (tensors[f"state.obs_stats.{name}"] for name in ("count", "mean", "deviation"))
    std = np.sqrt(deviation / max(count, 1.0) + _STD_FLOOR) if count > 1 else np.ones_like(mean)
    return {"obs.mean": mean, "obs.std": std.astype(np.float32), "obs.clip": np.asarray(config.clip_obs, np.float32)}
