"""`trimtab presets`."""

from __future__ import annotations

import re

from trimtab import presets as preset_files
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.operations.shared import Output, filled, parser


def presets(argv: list[str]) -> int:
    command_parser = parser("presets", Output)
    command_parser.add_argument("preset", nargs="?", help="print this preset; or list those with this in their name")
    arguments = command_parser.parse(argv)
    preset = preset_files.full_name(arguments.preset or "")
    listed = [name for name in preset_files.names() if preset.lower() in name.lower()]
    if filled(Output, arguments).json:
        chosen = [preset] if preset in listed or not listed else listed
        about = [{"preset": n, "fields": preset_files.load(n), "origin": preset_files.origin(n)} for n in chosen]
        print_json(about[0] if preset in chosen else about)
    elif preset in listed or not listed:
        print(preset_files.text(preset), end="")
    else:
        _print_list(listed)
    return 0


def _print_list(names: list[str]) -> None:
    from rich.table import Column, Table

    table = Table(Column("preset", no_wrap=True), "N x T", "steps", "where it comes from", box=None, pad_edge=False)
    for name in names:
        values = preset_files.load(name)
        shape = f"{values['num_envs']} x {values['num_steps']}"
        table.add_row(name, shape, f"{values['total_timesteps']:,}", _first(preset_files.origin(name)))
    new_console().print(table)


def _first(text: str) -> str:
    """Its first clause; the whole stands in the preset."""
    return re.split(r"(?<!al)[.:;] |\.$", text)[0]
