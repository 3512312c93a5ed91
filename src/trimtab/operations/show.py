"""`trimtab show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab.core.fields import Place, option
from trimtab.core.options import Options
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.sources import run_of
from trimtab.training.run import Run


@dataclass(frozen=True)
class Show(Options):
    """What to show."""

    run: Run | Place
    """Run directory; or meter.jsonl of trimtab.torch, or its folder; in Python a Run or its directory."""


@dataclass(frozen=True)
class ShowFlags(Options):
    """Pictures."""

    save: str | None = option(None, metavar="FILE")
    """Also save the learning curve, as .png, .svg, .pdf or .html (default: not saved)."""
    page: str | None = option(None, metavar="FILE", nargs="?", const="")
    """Also write a page, with its figures beside it (default: RUN/page.html)."""


def _show(run: Run, call: Call) -> int:
    from trimtab.show.run_terminal import show_run

    page = None if call.flags.page is None else _write_page(run, call.flags.page)
    return show_run(str(run.path), call.json, call.flags.save, page)


def _write_page(run: Run, page: str) -> str:
    """Write the page of a run; returns where it is."""
    from trimtab.advise.run_summary import describe
    from trimtab.show import run_page
    from trimtab.show.page_files import write_page

    view, where = describe(run), Path(page or run.path / "page.html")
    write_page(where, run_page.run_page(view), run_page.figures(view))
    return str(where)


def _command(declared: Operation, call: Call) -> int | None:
    """The command also shows the reports of a meter."""
    from trimtab.show.meter_terminal import is_meter, show_meter

    if is_meter(call.given["run"]):
        return show_meter(call.given["run"], call.json, call.flags.page)
    return declared.show(declared.function(call.options()), call)


@operation("show", Show, _show, flags=ShowFlags, command=_command)
def show(options: Show) -> Run:
    """Open a run.

    Returns:
        The run.
    """
    return run_of(options.run)
