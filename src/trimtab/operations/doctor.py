"""`trimtab doctor`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.core.answers import print_json
from trimtab.core.json_values import to_json
from trimtab.operations.flags import fail
from trimtab.operations.shared import Output, add_page, filled, pairs, parser

if TYPE_CHECKING:
    from trimtab.advise.diagnosis import Diagnosis


def doctor(argv: list[str]) -> int:
    command_parser = parser("doctor", Output)
    command_parser.add_argument(
        "run", nargs="?", help="run directory, finished or not; or a log of SB3, CleanRL, rsl_rl, skrl or rl_games"
    )
    command_parser.add_argument(
        "hyperparameters", nargs="*", metavar="NAME=VALUE", help="what such a log does not say, by its own names"
    )
    command_parser.add_argument(
        "--cheatsheet", action="store_true", help="symptoms, where to look, what to try; needs no run"
    )
    add_page(command_parser, "RUN/doctor.html, or cheatsheet.html")
    arguments = command_parser.parse(argv)
    output = filled(Output, arguments)
    if arguments.cheatsheet and arguments.run is not None:
        fail("--cheatsheet needs no run; leave one of them out")
    if arguments.cheatsheet:
        return _cheatsheet(output.json, arguments.page)
    if arguments.run is None:
        fail("name a run directory, for example: trimtab doctor runs/CartPole-v1/ppo-seed1-1")
    from trimtab.libraries.common.foreign_log import is_log
    from trimtab.training.run_dir import RunDir

    if not RunDir.began(arguments.run) and is_log(arguments.run):
        return _show(*_of_log(arguments.run, arguments.hyperparameters), output.json, arguments.page)
    if arguments.hyperparameters:
        fail(
            f"{arguments.hyperparameters[0]}: a run of this library knows its own; "
            "hyperparameters are for logs of others"
        )
    return _show(*_of_run(arguments.run), output.json, arguments.page)


def _of_run(path: str) -> tuple[Diagnosis, Callable[[], dict[str, Any]], Path]:
    """The diagnosis, how to describe the run for a page, and where the page goes."""
    from trimtab.advise.diagnosis import diagnose
    from trimtab.advise.run_summary import described
    from trimtab.training.run import load

    run = load(path)
    return diagnose(run), partial(described, run), run.path / "doctor.html"


def _of_log(path: str, hyperparameters: list[str]) -> tuple[Diagnosis, Callable[[], dict[str, Any]], Path]:
    from trimtab.libraries.common.foreign_log import read_log
    from trimtab.libraries.common.log_doctor import described_log, diagnose_log

    log = read_log(path, pairs(hyperparameters))
    diagnosis = diagnose_log(log)
    folder = log.path if log.path.is_dir() else log.path.parent
    return diagnosis, partial(described_log, log, diagnosis), folder / "doctor.html"


def _show(
    diagnosis: Diagnosis, described: Callable[[], dict[str, Any]], usual: Path, as_json: bool, page: str | None
) -> int:
    where = None if page is None else Path(page or usual)
    if where is not None:
        from trimtab.advise.cheatsheet import CHEATSHEET
        from trimtab.show import run_page
        from trimtab.show.page_files import write_page

        view = described()
        symptoms = [symptom.as_dict() for symptom in CHEATSHEET]
        write_page(where, run_page.doctor_page(view, symptoms), run_page.figures(view))
    if as_json:
        print_json(to_json(diagnosis) | ({"page": str(where)} if where else {}))
        return 0
    from trimtab.show.findings import print_findings

    print_findings(diagnosis.findings, diagnosis.run)
    print(diagnosis.sentence)
    if diagnosis.command:
        print(f"next: {diagnosis.command}")
    if where is not None:
        print(f"page: {where}")
    return 0


def _cheatsheet(as_json: bool, page: str | None) -> int:
    from trimtab.advise.cheatsheet import CHEATSHEET

    symptoms = [symptom.as_dict() for symptom in CHEATSHEET]
    where = None if page is None else Path(page or "cheatsheet.html")
    if where is not None:
        from trimtab.show.page_files import write_page
        from trimtab.show.run_page import cheatsheet_page

        write_page(where, cheatsheet_page(symptoms), {})
    if as_json:
        print_json({"symptoms": symptoms} | ({"page": str(where)} if where else {}))
        return 0
    from trimtab.show.findings import print_cheatsheet

    print_cheatsheet(symptoms)
    if where is not None:
        print(f"page: {where}")
    return 0
