"""`trimtab compare`."""

from __future__ import annotations

from pathlib import Path

from trimtab.answers import print_json
from trimtab.commands.shared import Output, filled, parser
from trimtab.config import ConfigError


def compare(argv: list[str]) -> int:
    made = parser("compare", Output)
    made.add_argument("runs", nargs="+", help="run directories, two or more")
    made.add_argument("--page", metavar="FILE", help="also write a page to look at (.html)")
    given = made.parse(argv)
    if given.page and Path(given.page).suffix != ".html":
        raise ConfigError("page", given.page, f"is no page; nearest: {Path(given.page).with_suffix('.html')}")
    from trimtab.playbook.compare import compare as side_by_side
    from trimtab.runs.run import load

    found = side_by_side([load(path) for path in given.runs])
    if given.page:
        from trimtab.report.compare import compare_page
        from trimtab.runs.records import write_atomically

        write_atomically(Path(given.page), compare_page(found.runs).encode())
    if filled(Output, given).json:
        print_json(found.as_dict() | {"page": given.page})
        return 0
    _show(found)
    if given.page:
        print(f"page: {given.page}")
    return 0


def _show(found) -> None:
    """Tables of fields, results and findings, then all curves on the same axes."""
    from rich.console import Console
    from rich.table import Column, Table

    from trimtab.playbook.compare import plain
    from trimtab.report.terminal import WIDTH, draw_together

    console = Console(highlight=False)
    for title, rows in (
        ("fields that differ", found.differing),
        ("results", found.results),
        ("findings to act on or to watch", found.findings),
    ):
        columns = [Column(name, overflow="fold") for name in found.names]
        table = Table("", *columns, title=title, title_justify="left")
        for name, values in rows.items():
            table.add_row(name, *map(plain, values))
        console.print(table if rows else f"[italic]{title}[/italic]: none\n")
    console.print("\nreturn of the last 100 episodes, by environment steps")
    console.print(draw_together(found.curves, min(WIDTH, max(20, console.width - 12))))
