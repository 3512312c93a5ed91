"""`trimtab doctor`."""

from __future__ import annotations

import json
from pathlib import Path

from trimtab.commands.flags import fail
from trimtab.commands.shared import Output, add_page, filled, parser


def doctor(argv: list[str]) -> int:
    made = parser("doctor", Output)
    made.add_argument("run", nargs="?", help="run directory, finished or not")
    made.add_argument("--cheatsheet", action="store_true", help="symptoms, where to look, what to try; needs no run")
    add_page(made, "RUN/doctor.html, or cheatsheet.html")
    given = made.parse(argv)
    output = filled(Output, given)
    if given.cheatsheet and given.run is not None:
        fail("--cheatsheet needs no run; leave one of them out")
    if given.cheatsheet:
        return _cheatsheet(output.json, given.page)
    if given.run is None:
        fail("name a run directory, for example: trimtab doctor runs/CartPole-v1/ppo-seed1-1")
    return _diagnose(given.run, output.json, given.page)


def _diagnose(path: str, as_json: bool, page: str | None) -> int:
    from trimtab.playbook.doctor import diagnose
    from trimtab.runs.run import load

    run = load(path)
    diagnosis = diagnose(run)
    where = None if page is None else Path(page or run.path / "doctor.html")
    if where is not None:
        from trimtab.playbook.cheatsheet import CHEATSHEET
        from trimtab.playbook.described import described
        from trimtab.report import run_page
        from trimtab.report.files import write_page

        view = described(run)
        symptoms = [symptom.as_dict() for symptom in CHEATSHEET]
        write_page(where, run_page.doctor_page(view, symptoms), run_page.figures(view))
    if as_json:
        print(json.dumps(diagnosis.as_dict() | ({"page": str(where)} if where else {})))
        return 0
    from trimtab.report.findings import print_findings

    print_findings(diagnosis.findings, diagnosis.run)
    print(diagnosis.sentence)
    if diagnosis.command:
        print(f"next: {diagnosis.command}")
    if where is not None:
        print(f"page: {where}")
    return 0


def _cheatsheet(as_json: bool, page: str | None) -> int:
    from trimtab.playbook.cheatsheet import CHEATSHEET

    symptoms = [symptom.as_dict() for symptom in CHEATSHEET]
    where = None if page is None else Path(page or "cheatsheet.html")
    if where is not None:
        from trimtab.report.files import write_page
        from trimtab.report.run_page import cheatsheet_page

        write_page(where, cheatsheet_page(symptoms), {})
    if as_json:
        print(json.dumps({"symptoms": symptoms} | ({"page": str(where)} if where else {})))
        return 0
    from trimtab.report.findings import print_cheatsheet

    print_cheatsheet(symptoms)
    if where is not None:
        print(f"page: {where}")
    return 0
