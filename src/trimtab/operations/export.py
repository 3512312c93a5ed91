"""`trimtab export`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option, written
from trimtab.core.options import Options
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import run_of
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.extras.policy_export.export_files import ExportReport


@dataclass(frozen=True)
class Export(Options):
    """What to export."""

    run: Run | Place
    """Run directory; in Python also a Run."""
    to: Literal["numpy", "onnx", "torch"] = field(metadata=written(flag="--to"))
    """The format to write."""
    out: Place | None = option(None, metavar="DIR")
    """Directory to write into (default: RUN/export/FORMAT)."""
    _: KW_ONLY
    at: int | None = option(None, metavar="STEP")
    """Step of the checkpoint to export (default: the last)."""
    force: bool = False
    """Write into a directory that is not empty."""


def _show(report: ExportReport, call: Call) -> None:
    if call.json:
        print_json(report)
        return
    print(f"policy of step {report.step:,}: {report.file}")
    print(
        f"checked by {report.checked_by} on {report.checked_on}: outputs differ by at most "
        f"{report.largest_difference:.2g} (they reach {report.largest_output:.3g})"
    )
    print(f"how to use it: {report.example}")


@operation("export", Export, _show)
def export(options: Export) -> ExportReport:
    """Write a run's policy for other programs, and check it on observations of the run's environment.

    Returns:
        What was written, and how far its outputs are from the original's.
    """
    from trimtab.extras.policy_export.export_files import export as write

    files = run_of(options.run).files
    out = Path(options.out) if options.out else files.path / "export" / options.to
    return write(files, options.to, out, options.at, options.force)
