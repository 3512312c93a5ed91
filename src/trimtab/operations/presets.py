"""`trimtab presets`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab import presets as preset_files
from trimtab.core.answers import print_json
from trimtab.core.fields import option
from trimtab.core.options import Options
from trimtab.core.terminal import new_console
from trimtab.operations.declaration import Call, operation


@dataclass(frozen=True)
class Presets(Options):
    """Which presets to list."""

    preset: str | None = option(None, position=True, nargs="?")
    """The preset to print; or list those with this in their name."""


def _show(listed: list[str], call: Call) -> None:
    preset = preset_files.full_name(call.given.get("preset", ""))
    if call.json:
        chosen = [preset] if preset in listed or not listed else listed
        about = [{"preset": n, "fields": preset_files.load(n), "origin": preset_files.origin(n)} for n in chosen]
        print_json(about[0] if preset in chosen else about)
    elif preset in listed or not listed:
        print(preset_files.text(preset), end="")
    else:
        _print_list(listed)


@operation("presets", Presets, _show)
def presets(options: Presets) -> list[str]:
    """List presets.

    Returns:
        Names of presets.
    """
    preset = preset_files.full_name(options.preset or "")
    return [name for name in preset_files.names() if preset.lower() in name.lower()]


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
