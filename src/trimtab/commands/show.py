"""`trimtab show`."""

from __future__ import annotations

from trimtab.commands.shared import Output, filled, parser


def show(argv: list[str]) -> int:
    made = parser("show", Output, positional="run", help="run directory")
    made.add_argument("--save", metavar="FILE", help="also save the learning curve (.png, .svg, .pdf or .html)")
    given = made.parse(argv)
    from trimtab.report.run import show_run

    return show_run(given.run, filled(Output, given).json, given.save)
