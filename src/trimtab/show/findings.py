"""Findings of `trimtab doctor` and `trimtab plan` in a terminal."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trimtab.advise.cheatsheet import Symptom
from trimtab.core.finding import Finding
from trimtab.core.terminal import new_console, styled
from trimtab.core.wording import plain

if TYPE_CHECKING:
    from rich.text import Text

    from trimtab.advise.diagnosis import FolderDiagnosis

SPARKS = "▁▂▃▄▅▆▇█"
STYLES = {
    "solved": "bold green",
    "act": "bold red",
    "watch": "yellow",
    "unknown": "dim",
    "note": "cyan",
    "fine": "green",
}
SOURCES = {"notes": "tuning notes", "paper": "Hilton et al. 2021", "post": "the post on N against T", "own": ""}


def print_findings(findings: Sequence[Finding], title: str) -> None:
    """Verdict and name on the left; on the right what to do, what was seen, and its course over training."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for finding in findings:
        grid.add_row(styled((finding.verdict, STYLES[finding.verdict])), finding.check, _text(finding))
    console = new_console()
    console.print(styled((title, "bold"), "\n"))
    console.print(grid)
    console.print()


def print_folder(folder: FolderDiagnosis) -> None:
    """One line for each run of a folder, then what could not be read, then the sentence."""
    for run in folder.runs:
        print(f"{run.run}: {run.sentence}")
    for problem in folder.problems:
        print(f"not read: {problem}")
    print(folder.sentence)


def _text(finding: Finding) -> Text:
    """What to do, then what was seen and its course."""
    line = _spark(finding.series)
    seen: list[str | tuple[str, str]] = [finding.seen, *([(f"  {line}", "cyan")] if line else [])]
    if not (todo := to_do(finding)):
        return styled(*seen)
    source = f" ({SOURCES[finding.source]})" if SOURCES[finding.source] else ""
    return styled(f"→ {todo}", (source, "dim"), "\n", *seen)


def to_do(finding: Finding) -> str:
    """What a finding advises: in words, and the fields to try."""
    todo = [finding.advice] if finding.advice else []
    if finding.change:
        todo.append("try " + ", ".join(f"{name}: {plain(value)}" for name, value in finding.change.items()))
    return "; ".join(todo)


def _spark(values: tuple[float, ...], width: int = 24) -> str:
    """A series as one line of bars, from its lowest to its highest value; nothing for a constant or a short one."""
    if len(values) < 4:
        return ""
    means = np.array([part.mean() for part in np.array_split(np.asarray(values, float), min(width, len(values)))])
    low, span = means.min(), np.ptp(means)
    if not span > 0:
        return ""
    return "".join(SPARKS[round(float(x))] for x in (means - low) / span * (len(SPARKS) - 1))


# For pages and notebooks -----------------------------------------------------------------------------------

COLUMNS = ["verdict", "check", "what was seen", "what to do"]


def findings_rows(findings: Sequence[Finding]) -> list[list[str]]:
    """Findings as rows under COLUMNS; a `series` becomes a line of bars, a source stands below its advice."""
    rows = []
    for finding in findings:
        line, todo, source = _spark(finding.series), to_do(finding), SOURCES[finding.source]
        statement = f"{finding.seen}\n{line}" if line else finding.seen
        rows.append([finding.verdict, finding.check, statement, f"{todo}\n{source}" if todo and source else todo])
    return rows


def findings_html(findings: Sequence[Finding], sentence: str) -> str:
    """A diagnosis as plain HTML."""
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in COLUMNS)
    cell = lambda text: f"<td style='text-align:left'>{html.escape(text).replace(chr(10), '<br>')}</td>"
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in findings_rows(findings))
    return f"<p><b>{html.escape(sentence)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def print_cheatsheet(symptoms: Iterable[Symptom]) -> None:
    """Symptom, where to look, what to try."""
    from rich import box
    from rich.table import Table

    table = Table("symptom", "look at", "try, in this order", box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
    for symptom in symptoms:
        table.add_row(styled((symptom.name, "bold")), "\n".join(symptom.look), "\n".join(symptom.tries))
        table.add_section()
    new_console().print(table)
