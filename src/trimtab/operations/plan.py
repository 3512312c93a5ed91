"""`trimtab plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab import presets
from trimtab.advise.planning import Plan
from trimtab.advise.planning import plan as judge
from trimtab.config import Config
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Configured, describe_preset

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class PlanOptions(Configured):
    """What to plan."""


def _show(planned: Plan, call: Call) -> None:
    if call.json:
        findings = [finding.as_dict() for finding in planned]
        print_json({"config": planned.config.as_dict(), "derived": planned.derived, "findings": findings})
        return
    from trimtab.show.findings import print_findings

    preset = call.options().chosen_preset
    new_console().print(derived_table(preset, planned.config, planned.environment))
    print_findings(planned.findings, "rules of thumb")


@operation("plan", PlanOptions, _show, before_help=describe_preset)
def plan(options: PlanOptions) -> Plan:
    """Show what a configuration means and what the rules of thumb say of it, before it runs.

    Returns:
        The findings, the most pressing first, and what follows from the configuration.
    """
    return judge(options.configuration())


def derived_table(preset: str | None, config: Config, more: dict[str, str]) -> Table:
    """Where a configuration comes from, and what follows from it.

    Args:
        preset: the preset it started from.
        config: the configuration.
        more: rows about its environment.

    Returns:
        The table.
    """
    from rich.table import Table

    title = f"{config.algo} on {config.env_id}, seed {config.seed}"
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in {**more, "preset": presets.described(preset, config), **config.derived()}.items():
        table.add_row(name, value)
    return table
