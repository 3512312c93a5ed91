"""`trimtab show`."""

from __future__ import annotations

from pathlib import Path

from trimtab.commands.shared import Output, add_page, filled, parser


def show(argv: list[str]) -> int:
    made = parser("show", Output, positional="run", help="run directory")
    made.add_argument("--save", metavar="FILE", help="also save the learning curve (.png, .svg, .pdf or .html)")
    add_page(made, "RUN/page.html")
    given = made.parse(argv)
    from trimtab.report.run import show_run

    page = None if given.page is None else _page(given.run, given.page)
    return show_run(given.run, filled(Output, given).json, given.save, page)


def _page(path: str, page: str) -> str:
    """Write the page of a run; returns where it is."""
    from trimtab.playbook.described import described
    from trimtab.report import run_page
    from trimtab.report.files import write_page
    from trimtab.runs.run import load

    run = load(path)
    view, where = described(run), Path(page or run.path / "page.html")
    write_page(where, run_page.run_page(view), run_page.figures(view))
    return str(where)
