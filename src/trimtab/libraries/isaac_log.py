"""What Isaac Lab writes beside a log, whoever trains: the agent's hyperparameters as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.core import reading
from trimtab.libraries.translation_rules import Library


def agent_in(folder: Path) -> dict[str, Any]:
    """params/agent.yaml of a run, whose events may lie one folder deeper, without the Python objects in it."""
    for place in (folder, folder.parent):
        file = place / "params" / "agent.yaml"
        if file.is_file():
            values = reading.read_yaml(file, python_tags=True)
            return values if isinstance(values, dict) else {}
    return {}


def plain_values(library: Library, *parts: Any) -> dict[str, Any]:
    """The hyperparameters of a library in parts of its YAML, the later ones over the earlier."""
    names = {*library.rules, *library.sizes}
    return {k: v for part in parts if isinstance(part, dict) for k, v in part.items() if k in names}
