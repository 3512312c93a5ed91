"""`trimtab compare`."""

from __future__ import annotations

from pathlib import Path

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console, styled
from trimtab.operations.shared import Output, filled, parser


def compare(argv: list[str]) -> int:
    command_parser = parser("compare", Output)
    command_parser.add_argument("runs", nargs="+", help="run directories, two or more")
    command_parser.add_argument("--page", metavar="FILE", help="also write a page to look at (.html)")
    arguments = command_parser.parse(argv)
    if arguments.page and Path(arguments.page).suffix != ".html":
        raise ConfigError("page", arguments.page, f"is no page; nearest: {Path(arguments.page).with_suffix('.html')}")
    from trimtab.advise.comparison import compare as side_by_side
    from trimtab.training.run import load

    comparison = side_by_side([load(path) for path in arguments.runs])
    if arguments.page:
        from trimtab.core.writing import write_atomically
        from trimtab.show.comparison_page import compare_page

        write_atomically(Path(arguments.page), compare_page(comparison.runs).encode())
    if filled(Output, arguments).json:
        print_json(comparison.as_dict() | {"page": arguments.page})
        return 0
    _show(comparison)
    if arguments.page:
        print(f"page: {arguments.page}")
    return 0


def _show(comparison) -> None:
    """Tables of fields, results and findings, then all curves on the same axes."""
    from rich.table import Column, Table

    from trimtab.advise.comparison import plain
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
