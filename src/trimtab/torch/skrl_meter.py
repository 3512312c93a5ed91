"""skrl 2: a meter around the update of a PPO agent."""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch

from trimtab.gradient.meter_report import MeterReport
from trimtab.torch.adapters import MeterSchedule
from trimtab.torch.meter import Meter
from trimtab.torch.meter_errors import MeterError


class SkrlMeter:
    """Measures before every so many updates of a PPO agent, and tracks numbers under `grad/` with the agent's data.

    skrl normalizes advantages over the batch where it computes them; these are what is measured.
    """

    def __init__(self, agent: Any, every: int = 10, path: str | PathLike[str] | None = None, **options: Any):
        """
        Args:
            agent: a PPO agent whose memory exists.
            every: updates from one measurement to the next.
            path: of the file of reports, or its folder; by default `meter.jsonl` in the experiment's folder.
            **options: of `Meter`.
        """
        if getattr(agent, "memory", None) is None or not hasattr(agent, "policy"):
            raise MeterError("agent: no memory and policy; PPO of skrl 2 is measured")
        if "_rnn" in type(agent).__module__:
            raise MeterError("agent: recurrent agents of skrl are not measured; use Meter in a loop of your own")
        self.agent = agent
        path = path if path is not None else getattr(agent, "experiment_dir", None)
        batch = agent.memory.num_envs * agent.cfg.rollouts
        options = {"minibatch_size": batch // agent.cfg.mini_batches} | options
        self.schedule = MeterSchedule(agent.policy, agent.memory.num_envs, every, path, self._log, options)
        self._due = False
        self._update, self._sample = agent.update, agent.memory.sample
        agent.update, agent.memory.sample = self._measured_update, self._measured_sample

    @property
    def report(self) -> MeterReport | None:
        """The newest report."""
        return self.schedule.report

    def close(self) -> None:
        """Report a last time, and take the meter off the agent."""
        self.schedule.publish()
        self.agent.update, self.agent.memory.sample = self._update, self._sample

    def _measured_update(self, **arguments: Any) -> Any:
        self._due = self.schedule.is_due()
        return self._update(**arguments)

    def _measured_sample(self, *arguments: Any, **options: Any) -> Any:
        """The first one in an update comes after the advantages and before the first step."""
        if self._due:
            self._due = False
            self.schedule.measure(self._add)
        return self._sample(*arguments, **options)

    def _add(self, meter: Meter) -> None:
        agent, memory = self.agent, self.agent.memory
        flat = lambda name: None if name not in memory.tensors else memory.get_tensor_by_name(name).flatten(0, 1)
        inputs = {
            "observations": agent._observation_preprocessor(flat("observations")),
            "states": agent._state_preprocessor(flat("states")),
            "taken_actions": flat("actions"),
        }
        with torch.enable_grad():
            logprob = agent.policy.act(inputs, role="policy")[1]["log_prob"]
        ends = (memory.get_tensor_by_name("terminated") | memory.get_tensor_by_name("truncated"))[..., 0]
        starts = ends.roll(1, 0)
        starts[0] = False
        advantages = memory.get_tensor_by_name("advantages")[..., 0]
        meter.add(logprob.reshape(advantages.shape), advantages, episode_starts=starts)

    def _log(self, name: str, value: float) -> None:
        self.agent.track_data(name, value)
