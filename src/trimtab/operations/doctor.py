"""`trimtab doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.core.answers import print_json
from trimtab.core.json_values import to_json
from trimtab.operations.flags import fail, parse
from trimtab.operations.shared import Output, add_page, filled, parser

if TYPE_CHECKING:
    from trimtab.advise.diagnosis import Diagnosis, FolderDiagnosis
    from trimtab.libraries.common.log_doctor import Examined


def doctor(argv: list[str]) -> int:
    command_parser = parser("doctor", Output)
    command_parser.add_argument(
        "run",
        nargs="?",
        help="run directory, finished or not; a log of SB3, CleanRL, rsl_rl, skrl or rl_games; SB3's .zip; or a folder "
        "of any of them",
    )
    command_parser.add_argument(
        "hyperparameters", nargs="*", metavar="NAME=VALUE", help="what such a log does not say, by its own names"
    )
    command_parser.add_argument(
        "--cheatsheet", action="store_true", help="symptoms, where to look, what to try; needs no run"
    )
    add_page(command_parser, "RUN/doctor.html, or cheatsheet.html")
    command_parser.add_argument(
        "--watch",
        nargs="?",
        const="10",
        metavar="SECONDS",
        help="look again whenever the records have grown, at most this often, until interrupted (default: 10)",
    )
    arguments, words = command_parser.parse_with_words(argv)
    output = filled(Output, arguments)
    if arguments.cheatsheet and arguments.run is not None:
        fail("--cheatsheet needs no run; leave one of them out")
    if arguments.cheatsheet:
        return _cheatsheet(output.json, arguments.page)
    if arguments.run is None:
        fail("name a run directory, for example: trimtab doctor runs/CartPole-v1/ppo-seed1-1")
    from trimtab.libraries.common.log_doctor import examine
    from trimtab.libraries.common.translation import parse_hyperparameters

    hyperparameters = parse_hyperparameters([*arguments.hyperparameters, *words])
    if arguments.watch is not None:
        return _watch(arguments.run, hyperparameters, parse("watch", float, arguments.watch), output.json)
    return _show(examine(arguments.run, hyperparameters), output.json, arguments.page)


def _watch(path: str, hyperparameters: dict[str, Any], seconds: float, as_json: bool) -> int:
    """Show every new diagnosis of records that grow; the last one as JSON."""
    from trimtab.libraries.common.log_watch import watch_place

    last = None
    try:
        for look in watch_place(path, hyperparameters, seconds):
            if isinstance(look, str):
                print(f"trimtab: {look}", file=sys.stderr)
                continue
            last = look
            if not as_json:
                _print(last)
                print(f"watching {path} every {seconds:g} s; Ctrl-C ends it", flush=True)
    except KeyboardInterrupt:
        if as_json and last is not None:
            print_json(to_json(last))
    return 0


def _show(examined: Examined, as_json: bool, page: str | None) -> int:
    """A diagnosis in the terminal, as JSON, and on a page."""
    diagnosis, where = examined.diagnosis, None
    if page is not None:
        where = _write_page(examined, page)
    if as_json:
        print_json(to_json(diagnosis) | ({"page": str(where)} if where else {}))
        return 0
    _print(diagnosis)
    if where is not None:
        print(f"page: {where}")
    return 0


def _write_page(examined: Examined, page: str) -> Path:
    """The page of one run."""
    from trimtab.advise.cheatsheet import CHEATSHEET
    from trimtab.show import run_page
    from trimtab.show.page_files import write_page

    if examined.described is None:
        fail("--page needs one run; name a run of the folder")
    where, view = Path(page or examined.folder / "doctor.html"), examined.described()
    write_page(where, run_page.doctor_page(view, CHEATSHEET), run_page.figures(view))
    return where


def _print(diagnosis: Diagnosis | FolderDiagnosis) -> None:
    """The findings of a run, or one line for each run of a folder."""
    from trimtab.advise.diagnosis import FolderDiagnosis
    from trimtab.show.findings import print_findings, print_folder

    if isinstance(diagnosis, FolderDiagnosis):
        print_folder(diagnosis)
        return
    print_findings(diagnosis.findings, diagnosis.run)
    print(diagnosis.sentence)
    if diagnosis.command:
        print(f"next: {diagnosis.command}")


def _cheatsheet(as_json: bool, page: str | None) -> int:
    from trimtab.advise.cheatsheet import CHEATSHEET

    where = None if page is None else Path(page or "cheatsheet.html")
    if where is not None:
        from trimtab.show.page_files import write_page
        from trimtab.show.run_page import cheatsheet_page

        write_page(where, cheatsheet_page(CHEATSHEET), {})
    if as_json:
        print_json({"symptoms": to_json(CHEATSHEET)} | ({"page": str(where)} if where else {}))
        return 0
    from trimtab.show.findings import print_cheatsheet

    print_cheatsheet(CHEATSHEET)
    if where is not None:
        print(f"page: {where}")
    return 0
