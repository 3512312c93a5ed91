"""`trimtab doctor`."""

from __future__ import annotations

import json

from trimtab.commands.shared import (
    Output,
    filled,
    parser,
)


def doctor(argv: list[str]) -> int:
    made = parser("doctor", Output, positional="run", help="run directory, finished or not")
    given = made.parse(argv)
    from trimtab.playbook.doctor import diagnose
    from trimtab.runs.run import load

    found = diagnose(load(given.run))
    if filled(Output, given).json:
        print(json.dumps(found.as_dict()))
        return 0
    from trimtab.report.findings import print_findings

    print_findings(found.findings, found.run)
    print(found.sentence)
    if found.command:
        print(f"next: {found.command}")
    return 0
