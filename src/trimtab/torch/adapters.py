"""What adapters to other libraries share: when to measure, when to report, and where reports go."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn

from trimtab.gradient.meter_report import MeterReport
from trimtab.torch.meter import Meter


class MeterSchedule:
    """A meter that measures every so many updates, and reports to a logger and a file."""

    def __init__(
        self,
        module: nn.Module,
        rows: int,
        every: int,
        path: str | PathLike[str] | None,
        log: Callable[[str, float], None],
        options: dict[str, Any],
    ):
        """
        Args:
            module: the policy.
            rows: num_envs.
            every: updates from one measurement to the next.
            path: of the file of reports, or its folder; None: no file.
            log: takes the name and the value of every number of a report.
            options: of `Meter`.
        """
        self.meter = Meter(module, rows, **options)
        self.meter.close()  # hooks are there while it measures
        self.every, self.log = max(1, every), log
        self.path = None if path is None else Path(path)
        self.report: MeterReport | None = None
        self._updates = 0

    def is_due(self) -> bool:
        """Count an update; whether to measure before it."""
        self._updates += 1
        return self._updates % self.every == 0

    def measure(self, add: Callable[[Meter], None]) -> None:
        """Measure, and report if it is time.

        Args:
            add: computes log-probabilities and gives them to the meter; hooks are there and random state is kept.
        """
        with self.meter.recording():
            add(self.meter)
        if self.meter.is_report_due:
            self.publish()

    def publish(self) -> MeterReport | None:
        """Report now; None where nothing was measured yet."""
        if not len(self.meter):
            return None
        self.report = self.meter.report()
        for name, value in self.report.metrics.items():
            self.log(name, value)
        if self.path is not None:
            self.report.append_to(self.path)
        return self.report
