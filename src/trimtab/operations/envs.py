"""`trimtab envs`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.core.wording import nearest
from trimtab.operations.shared import Output, filled, parser

if TYPE_CHECKING:
    from trimtab.envs import CatalogueRow


def envs(argv: list[str]) -> int:
    command_parser = parser("envs", Output)
    command_parser.add_argument(
        "filter", nargs="?", default="", help="only ids or families that contain this, with their spaces"
    )
    command_parser.add_argument("--backend", default=None, help="only this backend")
    arguments = command_parser.parse(argv)
    from trimtab.envs import BACKENDS, list_environments

    if arguments.backend not in (None, *BACKENDS):
        close = nearest(arguments.backend, BACKENDS) or BACKENDS
        raise ConfigError("backend", arguments.backend, f"no such backend; nearest: {', '.join(close)}")
    if ":" in arguments.filter:
        raise ConfigError("filter", arguments.filter, f"not listed here; `trimtab plan {arguments.filter}` shows it")
    fragment = arguments.filter.lower()
    rows = [
        row
        for row in list_environments()
        if (fragment in row.env_id.lower() or fragment in row.family.lower())
        and arguments.backend in (None, row.backend)
    ]
    if filled(Output, arguments).json:
        print_json([row._asdict() for row in rows])
    elif not rows:
        near = nearest(arguments.filter, (row.env_id for row in list_environments())) or [
            "`trimtab envs` lists the families"
        ]
        raise ConfigError("filter", arguments.filter, f"no environment's name contains it; nearest: {', '.join(near)}")
    elif fragment:
        _print_environments(rows)
    else:
        _print_families(rows)
    return 0


def _print_families(rows: list[CatalogueRow]) -> None:
    """Counts by family, and what is missing."""
    from rich.table import Table

    families: dict[tuple[str, str], list[CatalogueRow]] = defaultdict(list)
    for row in rows:
        families[row.backend, row.family].append(row)
    table = Table("family", "backend", "ids", "for example", "not available here")
    for (backend, family), members in families.items():
        examples = [row.env_id for row in members if row.available][:2]
        reasons: dict[str, int] = defaultdict(int)
        for row in members:
            reasons[row.reason] += not row.available
        why = "; ".join(f"{count}: {reason}" for reason, count in reasons.items() if count)
        table.add_row(family, backend, str(len(members)), ", ".join(examples), why)
    new_console().print(table)
    ids = {row.env_id for row in rows}
    usable = {row.env_id for row in rows if row.available}
    print(f"{len(usable):,} of {len(ids):,} ids can be trained here; `trimtab envs humanoid` or `trimtab envs atari`")
    print("shows those of a name or family with their spaces. Yours: module:Env-v0 or module:ClassOrFunction.")


def _print_environments(rows: list[CatalogueRow]) -> None:
    """One line for each id, on the backend that `auto` would take; below them what cannot be trained here, and why."""
    from rich.measure import Measurement
    from rich.table import Column, Table

    from trimtab.envs.env_listing import detailed

    by_id: dict[str, list[CatalogueRow]] = defaultdict(list)
    for row in rows:
        by_id[row.env_id].append(row)
    names = ("environment", "backend", "observation", "actions")
    table = Table(*(Column(name, no_wrap=True) for name in names), "limit", box=None, pad_edge=False)
    missing: dict[str, list[str]] = defaultdict(list)
    for env_id, members in by_id.items():
        usable = [detailed(row) for row in members if row.available]
        if not usable:
            missing[members[0].reason].append(env_id)
            continue
        backends = ", ".join(row.backend for row in usable)
        table.add_row(env_id, backends, usable[0].observation, usable[0].action, usable[0].limit)
    console = new_console()
    if table.rows:  # a line that is too long is better wrapped by the terminal than cut
        needed = Measurement.get(console, console.options.update(max_width=1000), table).maximum
        new_console(width=max(console.width, needed)).print(table)
    for reason, ids in missing.items():
        console.print(f"not available here ({reason}): {', '.join(ids)}")
