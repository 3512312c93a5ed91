"""Stable-Baselines3 and sb3-contrib: a callback for PPO, A2C and RecurrentPPO."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trimtab.core.errors import MissingPackage
from trimtab.gradient.meter_report import FILE, MeterReport
from trimtab.torch.errors import MeterError
from trimtab.torch.meter import Meter

try:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.utils import obs_as_tensor
except ImportError as error:
    raise MissingPackage("stable_baselines3 is not installed: pip install stable-baselines3") from error


class SB3Callback(BaseCallback):
    """Measures the gradient of every so many rollouts, and logs it under `grad/` with the model's own logger."""

    def __init__(
        self, every: int = 10, path: str | PathLike[str] | None = None, verbose: int = 0, **options: Any
    ):
        """
        Args:
            every: rollouts from one measurement to the next.
            path: a file, or a folder for `meter.jsonl`; by default the folder of the model's logger, if it has one.
            verbose: 1 prints reports.
            **options: of `Meter`.
        """
        super().__init__(verbose)
        self.every, self.options = max(1, every), options
        self.path = None if path is None else Path(path)
        self.meter: Meter | None = None
        self.report: MeterReport | None = None
        self._rollouts = 0

    def _on_step(self) -> bool:
        return True

    def _on_training_start(self) -> None:
        if not isinstance(getattr(self.model, "rollout_buffer", None), RolloutBuffer):
            raise MeterError(f"{type(self.model).__name__}: has no rollout buffer; PPO, A2C and RecurrentPPO are measured")
        if self.meter is None:
            size = getattr(self.model, "batch_size", None)
            options = {"order": "rows", "minibatch_size": size} | self.options
            self.meter = Meter(self.model.policy, rows=self.model.n_envs, **options)
            self.meter.close()
        if self.path is None and self.logger.dir:
            self.path = Path(self.logger.dir) / FILE

    def _on_rollout_end(self) -> None:
        self._rollouts += 1
        if self._rollouts % self.every or self.meter is None:
            return
        buffer = self.model.rollout_buffer
        with self.meter.recording():
            self.model.policy.set_training_mode(True)
            self.meter.add(
                self._log_probabilities(buffer),
                torch.as_tensor(_flat(buffer.advantages), device=self.model.device),
                episode_starts=_flat(buffer.episode_starts),
                step=self.num_timesteps,
            )
        if self.meter.is_report_due:
            self._publish()

    def _on_training_end(self) -> None:
        if self.meter is not None and len(self.meter):
            self._publish()
            self.meter.close()

    def _publish(self) -> None:
        assert self.meter is not None
        self.report = self.meter.report()
        for name, value in self.report.metrics.items():
            self.logger.record(name, value)
        if self.path is not None:
            self.report.append_to(self.path)
        if self.verbose:
            print(self.report)

    def _log_probabilities(self, buffer: RolloutBuffer) -> Tensor:
        """`[N T]`, environment by environment, of the policy that filled the buffer."""
        device, policy = self.model.device, self.model.policy
        stored = buffer.observations
        observations = {k: _flat(v) for k, v in stored.items()} if isinstance(stored, dict) else _flat(stored)
        actions = torch.as_tensor(_flat(buffer.actions), device=device)
        actions = actions.long().flatten() if hasattr(self.model.action_space, "n") and actions.shape[-1] == 1 else actions
        inputs = obs_as_tensor(observations, device)
        if not hasattr(buffer, "hidden_states_pi"):
            return policy.evaluate_actions(inputs, actions)[1]
        from sb3_contrib.common.recurrent.type_aliases import RNNStates

        first = lambda name: torch.as_tensor(getattr(buffer, f"{name}")[0], device=device)
        pairs = [(first(f"hidden_states_{role}"), first(f"cell_states_{role}")) for role in ("pi", "vf")]
        starts = torch.as_tensor(_flat(buffer.episode_starts), device=device)
        return policy.evaluate_actions(inputs, actions, RNNStates(*pairs), starts)[1]


def _flat(values: np.ndarray) -> np.ndarray:
    """`[T, N, ...]` as `[N T, ...]`, environment by environment."""
    return np.ascontiguousarray(values.swapaxes(0, 1)).reshape(-1, *values.shape[2:])
