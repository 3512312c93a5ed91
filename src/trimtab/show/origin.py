"""How a page was made: the command, the versions, the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trimtab.config import Config
from trimtab.core.wording import plain
from trimtab.show.blocks import Block, Folded, Paragraph, Table
from trimtab.training.records import Manifest


def made_with(manifest: Manifest, command: str = "", rows: Sequence[Sequence[str]] = (), hint: str = "") -> Folded:
    """The folded section at the end of a page.

    Args:
        manifest: that of the run, or of one of the runs.
        command: what was typed.
        rows: what else to list, as names and texts; before the manifest's.
        hint: what is in the section.

    Returns:
        The section.
    """
    texts = {name.replace("_", " "): _text(value) for name, value in manifest.as_dict().items() if name != "command"}
    table = Table(["", ""], [*rows, *([name, text] for name, text in texts.items() if text)], words=(0, 1))
    said: list[Block] = [Paragraph(command, "code")] if command else []
    return Folded("How this was made", [*said, table], hint)


def changed_fields(config: Config) -> list[str]:
    """A row of a table: the fields that are not at their defaults."""
    usual = Config().as_dict()
    changed = ", ".join(f"{name} {plain(value)}" for name, value in config.as_dict().items() if value != usual[name])
    return ["configuration, where not the default", changed or "none"]


def _text(value: Any) -> str:
    """A value of a manifest in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items() if each is not None)
    return "; ".join(map(_text, value)) if isinstance(value, list) else "" if value is None else str(value)
