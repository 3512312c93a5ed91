"""What Isaac Lab writes beside a log, whoever trains: the agent's hyperparameters as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trimtab.libraries.translation_rules import Library


def agent_in(folder: Path) -> dict[str, Any]:
    """params/agent.yaml of a run, whose events may lie one folder deeper, without the Python objects in it."""
    for place in (folder, folder.parent):
        file = place / "params" / "agent.yaml"
        if file.is_file():
            return _plain(file.read_text())
    return {}


def plain_values(library: Library, *parts: Any) -> dict[str, Any]:
    """The hyperparameters of a library in parts of its YAML, the later ones over the earlier."""
    names = {*library.rules, *library.sizes}
    return {k: v for part in parts if isinstance(part, dict) for k, v in part.items() if k in names}


def _plain(text: str) -> dict[str, Any]:
    loader = type("Plain", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)  # type: ignore[attr-defined]
    values = yaml.load(text, loader)  # a SafeLoader that makes None of what it does not know
    return values if isinstance(values, dict) else {}
