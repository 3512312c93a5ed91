"""`trimtab envs`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import option
from trimtab.core.options import Options
from trimtab.core.terminal import new_console
from trimtab.core.wording import nearest
from trimtab.operations.declaration import Call, operation

if TYPE_CHECKING:
    from trimtab.envs import CatalogueRow


@dataclass(frozen=True)
class Envs(Options):
    """Which environments to list."""

    filter: str = option("", position=True, nargs="?")
    """Only ids or families that contain this, with their spaces."""
    backend: str | None = None
    """Only those of this backend (default: all)."""

    def __post_init__(self) -> None:
        from trimtab.envs import BACKENDS

        if self.backend not in (None, *BACKENDS):
            close = nearest(self.backend, BACKENDS) or BACKENDS
            raise ConfigError("backend", self.backend, f"no such backend; nearest: {', '.join(close)}")
        if ":" in self.filter:
            raise ConfigError("filter", self.filter, f"not listed here; `trimtab plan {self.filter}` shows it")


def _show(rows: list[CatalogueRow], call: Call) -> None:
    from trimtab.envs import list_environments

    text = call.given.get("filter", "")
    if call.json:
        print_json([row._asdict() for row in rows])
    elif not rows:
        near = nearest(text, (row.env_id for row in list_environments())) or ["`trimtab envs` lists the families"]
        raise ConfigError("filter", text, f"no environment's name contains it; nearest: {', '.join(near)}")
    elif text:
        _print_environments(rows)
    else:
        _print_families(rows)


@operation("envs", Envs, _show)
def envs(options: Envs) -> list[CatalogueRow]:
    """List environments, and why one is not available.

    Returns:
        One row for each environment and backend.
    """
    from trimtab.envs import list_environments

    fragment = options.filter.lower()
    return [
        row
        for row in list_environments()
        if (fragment in row.env_id.lower() or fragment in row.family.lower()) and options.backend in (None, row.backend)
    ]


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
