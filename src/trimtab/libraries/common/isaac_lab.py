"""What Isaac Lab writes beside a log, whichever library trains: the agent's hyperparameters as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimtab.core import reading
from trimtab.libraries.common.options import Option, Values


def agent_yaml(folder: Path) -> Values:
    """What Isaac Lab writes beside a log, whoever trains: params/agent.yaml of a run, or of the folder above it."""
    for place in (folder, folder.parent):
        file = place / "params" / "agent.yaml"
        if file.is_file():
            values = reading.read_yaml(file, python_tags=True)
            return values if isinstance(values, dict) else {}
    return {}


def known_options(options: Mapping[str, Option], *tables: Any) -> Values:
    """The options of a library in tables of its YAML, the later tables over the earlier."""
    return {k: v for table in tables if isinstance(table, dict) for k, v in table.items() if k in options}
