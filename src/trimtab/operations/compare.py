"""`trimtab compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.advise.comparison import Comparison, plain
from trimtab.advise.comparison import compare as side_by_side
from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option, written
from trimtab.core.options import Options
from trimtab.core.terminal import new_console, styled
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import run_of
from trimtab.training.run import Run


@dataclass(frozen=True)
class Compare(Options):
    """What to compare."""

    runs: Sequence[Run | Place] = field(metadata=written(nargs="+", read=list))
    """Run directories, two or more; in Python also Runs."""


@dataclass(frozen=True)
class CompareFlags(Options):
    """Pictures."""

    page: str | None = option(None, metavar="FILE")
    """Also write a page (.html; default: not written)."""

    def __post_init__(self) -> None:
        if self.page and Path(self.page).suffix != ".html":
            raise ConfigError("page", self.page, f"is no page; nearest: {Path(self.page).with_suffix('.html')}")


def _show(comparison: Comparison, call: Call) -> None:
    page = call.flags.page
    if page:
        from trimtab.core.writing import write_atomically
        from trimtab.show.comparison_page import compare_page

        write_atomically(Path(page), compare_page(comparison.runs).encode())
    if call.json:
        print_json(comparison.as_dict() | {"page": page})
        return
    _print(comparison)
    if page:
        print(f"page: {page}")


def _print(comparison: Comparison) -> None:
    """Tables of fields, results and findings, then all curves on the same axes."""
    from rich.table import Column, Table

    from trimtab.show.terminal_plot import WIDTH, draw_together

    console = new_console()
    for title, rows in (
        ("fields that differ", comparison.differing),
        ("results", comparison.results),
        ("findings to act on or to watch", comparison.findings),
    ):
        columns = [Column(name, overflow="fold") for name in comparison.names]
        table = Table("", *columns, title=title, title_justify="left")
        for name, values in rows.items():
            table.add_row(name, *map(plain, values))
        console.print(table if rows else styled((title, "italic"), ": none\n"))
    console.print("\nreturn of the last 100 episodes, by environment steps")
    console.print(draw_together(comparison.curves, min(WIDTH, max(20, console.width - 12))))


@operation("compare", Compare, _show, flags=CompareFlags)
def _compare(options: Compare) -> Comparison:
    """Compare runs side by side."""
    return side_by_side([run_of(run) for run in options.runs])


def compare(*runs: Run | Place | Sequence[Run | Place]) -> Comparison:
    """Compare runs side by side: fields that differ, returns and areas, curves, findings.

    Args:
        runs: Runs or their directories, one by one or in a list.

    Returns:
        The comparison.
    """
    each: list[Run | Place] = []
    for one_or_several in runs:
        each += one_or_several if isinstance(one_or_several, list | tuple) else [one_or_several]  # type: ignore[list-item]
    return _compare(each)
