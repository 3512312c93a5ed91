"""`trimtab plan`."""

from __future__ import annotations

from trimtab.config import Config
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.operations.shared import Output, add_source, config_from, filled, parser, preset_of


def plan(argv: list[str]) -> int:
    command_parser = parser("plan", Output, Config)
    add_source(command_parser)
    arguments = command_parser.parse(argv)
    config = config_from(arguments)
    from trimtab.advise.planning import plan as check

    planned = check(config)
    if filled(Output, arguments).json:
        findings = [finding.as_dict() for finding in planned]
        print_json({"config": config.as_dict(), "derived": planned.derived, "findings": findings})
        return 0
    from trimtab.operations.train import derived_table
    from trimtab.show.findings import print_findings

    new_console().print(derived_table(preset_of(arguments), config, planned.environment))
    print_findings(planned.findings, "rules of thumb")
    return 0
