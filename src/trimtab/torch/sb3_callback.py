"""Stable-Baselines3 and sb3-contrib: a callback for PPO, A2C and RecurrentPPO."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trimtab.core.errors import MissingPackage
from trimtab.gradient.meter_report import MeterReport
from trimtab.torch.adapters import MeterSchedule
from trimtab.torch.meter import Meter
from trimtab.torch.meter_errors import MeterError

try:
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.utils import obs_as_tensor
except ImportError as error:
    raise MissingPackage("stable_baselines3 is not installed: pip install stable-baselines3") from error


class SB3Callback(BaseCallback):
    """Measures the gradient of every so many rollouts, and logs it under `grad/` with the model's own logger.

    Advantages are those of the rollout buffer, before the normalization in minibatches.
    """

    def __init__(self, every: int = 10, path: str | PathLike[str] | None = None, verbose: int = 0, **options: Any):
        """
        Args:
            every: rollouts from one measurement to the next.
            path: of the file of reports, or its folder; by default `meter.jsonl` in the folder of the model's logger.
            verbose: 1 prints reports.
            **options: of `Meter`.
        """
        super().__init__(verbose)
        self.every, self.path, self.options = every, path, options
        self.schedule: MeterSchedule | None = None

    @property
    def report(self) -> MeterReport | None:
        """The newest report."""
        return None if self.schedule is None else self.schedule.report

    def _on_step(self) -> bool:
        return True

    def _on_training_start(self) -> None:
        model = self.model
        if not isinstance(getattr(model, "rollout_buffer", None), RolloutBuffer):
            raise MeterError(f"{type(model).__name__}: has no rollout buffer; PPO, A2C and RecurrentPPO are measured")
        if self.schedule is None:
            options = {"order": "rows", "minibatch_size": getattr(model, "batch_size", None)} | self.options
            path = self.path if self.path is not None else self.logger.dir
            self.schedule = MeterSchedule(model.policy, model.n_envs, self.every, path, self.logger.record, options)

    def _on_rollout_end(self) -> None:
        assert self.schedule is not None
        if self.schedule.is_due():
            before = self.schedule.report
            self.schedule.measure(self._add)
            if self.verbose and self.schedule.report is not before:
                print(self.schedule.report)

    def _on_training_end(self) -> None:
        if self.schedule is not None:
            report = self.schedule.publish()
            if self.verbose and report is not None:
                print(report)

    def _add(self, meter: Meter) -> None:
        buffer = self.model.rollout_buffer
        self.model.policy.set_training_mode(True)
        advantages = torch.as_tensor(_flat(buffer.advantages), device=self.model.device)
        starts = _flat(buffer.episode_starts)
        meter.add(self._log_probabilities(), advantages, episode_starts=starts, step=self.num_timesteps)

    def _log_probabilities(self) -> Tensor:
        """`[N T]`, environment by environment, of the policy that filled the buffer."""
        model, buffer = self.model, self.model.rollout_buffer
        stored = buffer.observations
        flat = {name: _flat(part) for name, part in stored.items()} if isinstance(stored, dict) else _flat(stored)
        observations = obs_as_tensor(flat, model.device)
        actions = torch.as_tensor(_flat(buffer.actions), device=model.device)
        if hasattr(model.action_space, "n") and actions.shape[-1] == 1:
            actions = actions.long().flatten()
        if not hasattr(buffer, "hidden_states_pi"):
            return model.policy.evaluate_actions(observations, actions)[1]
        from sb3_contrib.common.recurrent.type_aliases import RNNStates

        first = lambda name: torch.as_tensor(getattr(buffer, name)[0], device=model.device)
        states = [(first(f"hidden_states_{role}"), first(f"cell_states_{role}")) for role in ("pi", "vf")]
        starts = torch.as_tensor(_flat(buffer.episode_starts), device=model.device)
        return model.policy.evaluate_actions(observations, actions, RNNStates(*states), starts)[1]


def _flat(values: np.ndarray) -> np.ndarray:
    """`[T, N, ...]` as `[N T, ...]`, environment by environment."""
    return np.ascontiguousarray(values.swapaxes(0, 1)).reshape(-1, *values.shape[2:])
