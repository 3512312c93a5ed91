"""`trimtab envs`."""

from __future__ import annotations

import json

from trimtab.commands.shared import Output, filled, parser
from trimtab.config import ConfigError
from trimtab.wording import nearest


def envs(argv: list[str]) -> int:
    made = parser("envs", Output)
    made.add_argument("filter", nargs="?", default="", help="only ids that contain this")
    made.add_argument("--backend", default=None, help="only this backend")
    given = made.parse(argv)
    from trimtab.envs import BACKENDS, catalogue

    if given.backend not in (None, *BACKENDS):
        close = nearest(given.backend, BACKENDS) or BACKENDS
        raise ConfigError("backend", given.backend, f"no such backend; nearest: {', '.join(close)}")
    rows = [
        row
        for row in catalogue()
        if given.filter.lower() in row.env_id.lower() and given.backend in (None, row.backend)
    ]
    if filled(Output, given).json:
        print(json.dumps([row._asdict() for row in rows]))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("environment", "backend", "available")
    for row in rows:
        table.add_row(row.env_id, row.backend, "yes" if row.available else f"no: {row.reason}")
    Console().print(table)
    return 0
