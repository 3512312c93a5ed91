"""`trimtab plan`, `doctor` and `tune`: rules of thumb before a run, after it, and over many; and `translate`."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import yaml

from trimtab.commands.shared import (
    Output,
    add_source,
    config_from,
    filled,
    numbered,
    parsed,
    parser,
    preset_of,
    read_yaml,
)
from trimtab.config import Config, ConfigError
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


def translate(argv: list[str]) -> int:
    made = parser("translate", Output, positional="library", help="sb3 (also RL Zoo's), cleanrl or rllib")
    made.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters, for example n_steps=2048")
    made.add_argument("--file", metavar="FILE", help="YAML file of hyperparameters, under the ones given here")
    made.add_argument("--env-id", metavar="ID", help="environment id; in a file of several, whose hyperparameters")
    made.add_argument("--no-defaults", action="store_true", help="leave out what the library does by default")
    given = made.parse(argv)
    from trimtab.playbook.translate import translate as carry_over

    values = _named(read_yaml(given.file), given.env_id, given.file) if given.file else {}
    found = carry_over(given.library, values | dict(map(_pair, given.fields)), not given.no_defaults)
    config = found.config(given.env_id)
    fields = ({"env_id": given.env_id} if given.env_id else {}) | found.fields
    if filled(Output, given).json:
        about = {"fields": fields, "notes": found.notes, "left_out": found.left_out}
        print(json.dumps(about | {"derived": config.derived()}))
        return 0
    for note in found.notes:
        print(f"# {note}")
    for name, why in found.left_out.items():
        print(f"# not carried over: {name} ({why})")
    print(yaml.safe_dump(fields, sort_keys=False), end="")
    return 0


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError("fields", text, "must look like n_steps=2048")
    return name, parsed(value)


def _named(values: dict[str, Any], env_id: str | None, file: str) -> dict[str, Any]:
    """RL Zoo's files hold the hyperparameters of many environments by id."""
    if not all(isinstance(value, dict) for value in values.values()):
        return values
    if env_id not in values:
        near = difflib.get_close_matches(env_id or "", values, n=3) or list(values)[:3]
        raise ConfigError("env_id", env_id, f"{file} holds several; nearest: {', '.join(near)}")
    return values[env_id]
