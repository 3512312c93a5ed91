"""`trimtab plan` and `trimtab doctor`: rules of thumb, before a run and after."""

from __future__ import annotations

import json

from trimtab.commands.shared import Output, filled, layered_config, parser, preset_of, refuse_two_environments
from trimtab.config import Config


def doctor(argv: list[str]) -> int:
    made = parser("doctor", Output, positional="run", help="run directory, finished or not")
    given = made.parse(argv)
    from trimtab.playbook.doctor import diagnose
    from trimtab.run import load

    found = diagnose(load(given.run))
    if filled(Output, given).json:
        print(json.dumps(found.as_dict()))
        return 0
    from trimtab.report.advice import print_findings

    print_findings(found.findings, found.run)
    print(found.sentence)
    if found.command:
        print(f"next: {found.command}")
    return 0


def plan(argv: list[str]) -> int:
    made = parser("plan", Output, Config)
    made.add_argument("env", nargs="?", default=None, help="environment id, the same as --env-id")
    made.add_argument(
        "--preset", metavar="NAME", help="preset to start from; the environment's own by default, or none"
    )
    made.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset, under the flags")
    given = made.parse(argv)
    if given.env is not None:
        refuse_two_environments(given)
        given.env_id = given.env
    config = layered_config(given)
    from trimtab.playbook.plan import plan as check

    findings = check(config)
    if filled(Output, given).json:
        derived, found = config.derived(), [finding.as_dict() for finding in findings]
        print(json.dumps({"config": config.as_dict(), "derived": derived, "findings": found}))
        return 0
    from rich.console import Console

    from trimtab.commands.training import derived_table
    from trimtab.report.advice import print_findings

    Console().print(derived_table(preset_of(given), config, {}))
    print_findings(findings, "rules of thumb")
    return 0
