"""`trimtab presets`."""

from __future__ import annotations

import yaml

from trimtab import presets as preset_files
from trimtab.commands.shared import parser


def presets(argv: list[str]) -> int:
    made = parser("presets")
    made.add_argument("name", nargs="?", help="print this preset")
    given = made.parse(argv)
    if given.name:
        print(yaml.safe_dump(preset_files.load(preset_files.full_name(given.name)), sort_keys=False), end="")
    else:
        print("\n".join(preset_files.names()))
    return 0
