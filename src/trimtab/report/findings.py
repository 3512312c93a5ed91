"""Findings of `trimtab doctor` and `trimtab plan` in a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.wording import plain

SPARKS = "▁▂▃▄▅▆▇█"
STYLES = {"act": "bold red", "watch": "yellow", "unknown": "dim", "fine": "green"}
SOURCES = {"notes": "tuning notes", "paper": "Hilton et al. 2021", "post": "the post on N against T", "own": ""}


def print_findings(findings: list[Any], title: str) -> None:
    """Verdict and name on the left; on the right what was seen, its course over training, and what to do."""
    from rich.console import Console
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for finding in findings:
        grid.add_row(f"[{STYLES[finding.verdict]}]{finding.verdict}[/]", finding.check, _text(finding))
    console = Console(highlight=False)
    console.print(f"[bold]{title}[/bold]\n")
    console.print(grid)
    console.print()


def _text(finding: Any) -> str:
    line = spark(finding.series)
    parts = [f"{finding.seen}  [cyan]{line}[/cyan]" if line else finding.seen]
    todo = [finding.advice] if finding.advice else []
    if finding.change:
        todo.append("try " + ", ".join(f"{name}: {plain(value)}" for name, value in finding.change.items()))
    if todo:
        source = f" [dim]({SOURCES[finding.source]})[/dim]" if SOURCES[finding.source] else ""
        parts.append(f"→ {'; '.join(todo)}{source}")
    return "\n".join(parts)


def spark(values: tuple[float, ...], width: int = 24) -> str:
    """A series as one line of bars, from its lowest to its highest value; nothing for a constant or a short one."""
    if len(values) < 4:
        return ""
    means = np.array([part.mean() for part in np.array_split(np.asarray(values, float), min(width, len(values)))])
    low, span = means.min(), np.ptp(means)
    if not span > 0:
        return ""
    return "".join(SPARKS[round(float(x))] for x in (means - low) / span * (len(SPARKS) - 1))
