"""`trimtab show`."""

from __future__ import annotations

from pathlib import Path

from trimtab.operations.shared import Output, add_page, filled, parser


def show(argv: list[str]) -> int:
    command_parser = parser(
        "show", Output, positional="run", help="run directory; or meter.jsonl of trimtab.torch, or its folder"
    )
    command_parser.add_argument(
        "--save", metavar="FILE", help="also save the learning curve (.png, .svg, .pdf or .html)"
    )
    add_page(command_parser, "RUN/page.html")
    arguments = command_parser.parse(argv)
    from trimtab.show.meter_terminal import is_meter, show_meter
    from trimtab.show.run_terminal import show_run

    if is_meter(arguments.run):
        return show_meter(arguments.run, filled(Output, arguments).json, arguments.page)
    page = None if arguments.page is None else _page(arguments.run, arguments.page)
    return show_run(arguments.run, filled(Output, arguments).json, arguments.save, page)


def _page(path: str, page: str) -> str:
    """Write the page of a run; returns where it is."""
    from trimtab.advise.run_summary import describe
    from trimtab.show import run_page
    from trimtab.show.page_files import write_page
    from trimtab.training.run import load

    run = load(path)
    view, where = describe(run), Path(page or run.path / "page.html")
    write_page(where, run_page.run_page(view), run_page.figures(view))
    return str(where)
