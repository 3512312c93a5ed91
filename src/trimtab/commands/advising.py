"""`trimtab plan`, `trimtab doctor` and `trimtab tune`: rules of thumb, before a run, after it, and over many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.commands.shared import Output, add_source, config_from, filled, numbered, parser, preset_of
from trimtab.config import Config
from trimtab.records import RunError

SHORT = 100_000  # steps of a trial, unless asked for more


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
    add_source(made)
    given = made.parse(argv)
    config = config_from(given)
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


def tune(argv: list[str]) -> int:
    from trimtab.playbook.tune import TuneOptions, check
    from trimtab.playbook.tune import tune as work

    made = parser("tune", TuneOptions, Output, Config)
    add_source(made)
    made.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/tune-ENV-K)")
    given = made.parse(argv)
    options, output = filled(TuneOptions, given), filled(Output, given)
    config = config_from(given)
    if not hasattr(given, "total_timesteps"):
        config = config.replace(total_timesteps=min(config.total_timesteps, SHORT))
    check(options)
    out = Path(given.run_dir) if given.run_dir else numbered(f"tune-{config.env_id.replace('/', '-')}")
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} already exists and is not empty; give another --run-dir, or resume it")
    return finish_tuning(
        work(config, out, options, output.quiet or output.json, f"trimtab tune {' '.join(argv)}"), output
    )


def finish_tuning(result: dict[str, Any], output: Output) -> int:
    if output.json:
        print(json.dumps(result))
    else:
        from trimtab.report.tuning import print_tuning

        print_tuning(result)
    return 0
