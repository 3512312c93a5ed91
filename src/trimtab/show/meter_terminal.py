"""A meter's reports in a terminal, and as a page."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.answers import print_json
from trimtab.core.errors import RunError
from trimtab.core.terminal import new_console
from trimtab.gradient.meter_report import FILE, MeterReport, read_reports


def is_meter(path: str) -> bool:
    """Whether a path is a file of a meter's reports, or a folder that has one and no run of trimtab."""
    place = Path(path)
    return place.suffix == ".jsonl" or ((place / FILE).is_file() and not (place / "config.yaml").exists())


def show_meter(path: str, as_json: bool, page: str | None) -> int:
    """The newest report as a table, or all of them as JSON.

    Args:
        path: of the file, or of its folder.
        as_json: whether to print JSON.
        page: where to write a page; "" for its usual place, None for none.

    Returns:
        The exit code.
    """
    reports = read_reports(path)
    if not reports:
        raise RunError(f"{path} has no report of a gradient meter yet")
    written = None if page is None else _write(path, reports, page)
    if as_json:
        answer = {"meter": path, "last": reports[-1].as_dict(), "reports": [report.as_dict() for report in reports]}
        print_json(answer | ({"page": written} if written else {}))
        return 0
    _print(reports[-1])
    if written:
        print(f"page: {written}")
    return 0


def _write(path: str, reports: list[MeterReport], page: str) -> str:
    from trimtab.show import meter_page
    from trimtab.show.page_files import write_page

    place = Path(path)
    where = Path(page) if page else (place if place.is_dir() else place.parent) / "meter.html"
    write_page(where, meter_page.meter_page(reports, place.name), meter_page.figures(reports))
    return str(where)


def _print(report: MeterReport) -> None:
    from rich import box
    from rich.table import Table

    console = new_console()
    title = f"Gradient at step {report.step:,}: {report.num_envs} × {report.num_steps} = {report.batch:,} samples, "
    title += f"{report.rows:,} rows of {report.iterations} iterations"
    table = Table(title=title, title_justify="left", pad_edge=False, box=box.SIMPLE_HEAD)
    for column in ("what", "value [95% interval]", "meaning"):
        table.add_column(column)
    for row in report.table:
        table.add_row(*row)
    console.print(table)
    for note in report.notes:
        console.print(f"Note: {note}.")
    console.print(report.sentence, soft_wrap=True)
