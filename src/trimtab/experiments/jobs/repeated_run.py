"""Running a configuration again and comparing every metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.studies.job import JobContext, OfRun, register


@register
@dataclass(frozen=True)
class Repeated(OfRun):
    """A second run of a finished one's configuration; every metric but those of time is compared bit for bit."""

    kind: ClassVar[str] = "repeated"

    @property
    def steps(self) -> int:
        return self.run.steps

    def do(self, context: JobContext) -> dict[str, Any]:
        import shutil

        from trimtab.training.repeat_run import repeat

        again = context.place / "again"
        shutil.rmtree(again, ignore_errors=True)  # of an attempt that was interrupted
        comparison = repeat(context.inputs[self.run.identity], again)
        return {name: value for name, value in comparison.items() if name != "run"}
