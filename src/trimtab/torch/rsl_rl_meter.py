"""rsl_rl 5, also as Isaac Lab uses it: a meter around the update of a runner's algorithm."""

from __future__ import annotations

from os import PathLike
from typing import Any

from trimtab.gradient.meter_report import MeterReport
from trimtab.torch.adapters import MeterSchedule
from trimtab.torch.meter import Meter
from trimtab.torch.meter_errors import MeterError


class RslRlMeter:
    """Measures before every so many updates of an `OnPolicyRunner`, and logs under `grad/` with its writer.

    Advantages are returns minus values, before rsl_rl normalizes them.
    """

    def __init__(self, runner: Any, every: int = 10, path: str | PathLike[str] | None = None, **options: Any):
        """
        Args:
            runner: made, and not yet learning.
            every: updates from one measurement to the next.
            path: of the file of reports, or its folder; by default `meter.jsonl` in the runner's log folder.
            **options: of `Meter`.
        """
        algorithm = runner.alg
        if not hasattr(algorithm, "actor") or not hasattr(algorithm, "storage"):
            raise MeterError("runner: no actor and storage in its algorithm; PPO of rsl_rl 5 is measured")
        if algorithm.actor.is_recurrent:
            raise MeterError("runner: recurrent actors of rsl_rl are not measured; use Meter in a loop of your own")
        self.runner = runner
        path = path if path is not None else runner.logger.log_dir
        batch = runner.env.num_envs * algorithm.storage.num_transitions_per_env
        options = {"minibatch_size": batch // algorithm.num_mini_batches} | options
        self.schedule = MeterSchedule(algorithm.actor, runner.env.num_envs, every, path, self._log, options)
        self._update = algorithm.update
        algorithm.update = self._measured_update

    @property
    def report(self) -> MeterReport | None:
        """The newest report."""
        return self.schedule.report

    def close(self) -> None:
        """Report a last time, and take the meter off the runner."""
        self.schedule.publish()
        self.runner.alg.update = self._update

    def _measured_update(self) -> Any:
        if self.schedule.is_due():
            self.schedule.measure(self._add)
        return self._update()

    def _add(self, meter: Meter) -> None:
        actor, storage = self.runner.alg.actor, self.runner.alg.storage
        actor(storage.observations.flatten(0, 1), stochastic_output=True)
        logprob = actor.get_output_log_prob(storage.actions.flatten(0, 1)).reshape(storage.rewards.shape[:2])
        dones = storage.dones[..., 0].bool()
        starts = dones.roll(1, 0)
        starts[0] = False
        meter.add(logprob, (storage.returns - storage.values)[..., 0], episode_starts=starts)

    def _log(self, name: str, value: float) -> None:
        writer = getattr(self.runner.logger, "writer", None)
        if writer is not None:
            writer.add_scalar(name, value, self.runner.current_learning_iteration)
