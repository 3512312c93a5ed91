"""The page of a study: what was found, the verdicts, figures with what to look for in them, and how it was made."""

from __future__ import annotations

from typing import Any

from trimtab.estimate import Estimate
from trimtab.report.blocks import (
    Answer,
    Block,
    Bullets,
    Claims,
    Contents,
    Figure,
    Folded,
    Heading,
    Next,
    Note,
    Slider,
    Table,
)
from trimtab.report.page import page

SHOWN = 2  # figures that stand open; the rest are folded


def study_page(
    answer: dict[str, Any],
    figures: dict[str, Any],
    summary: str,
    source: str,
    seconds: float,
    machine: dict[str, Any],
) -> str:
    """A page of its own; `figures` have a chart and a caption."""
    drawn: list[Block] = [_drawn(name, figure) for name, figure in figures.items()]
    blocks: list[Block] = [Answer(answer["sentence"], summary, source), Contents()]
    if answer["verdicts"]:
        blocks += [Heading("Claims"), Claims([claim_row(v) for v in answer["verdicts"]])]
    blocks += [Heading("Figures"), *drawn[:SHOWN]] if drawn else []
    blocks += [Note(text, "doubt") for text in answer["failed"]]
    if answer["notes"]:
        blocks += [Heading("What differs from the source"), Bullets(answer["notes"])]
    if drawn[SHOWN:]:
        blocks += [Folded("More figures", drawn[SHOWN:])]
    if answer["verdicts"]:
        blocks += [Folded("Evidence by environment", [evidence(answer["verdicts"])])]
    rows = [
        ["command", answer["command"]],
        ["size", f"{answer['size']}, {answer['jobs']} jobs, {answer['steps']:,} environment steps"],
        ["time", f"{seconds / 60:.1f} minutes of work"],
        ["machine", f"{machine['processor']}, {machine['cores']} cores, {machine['platform']}"],
    ]
    blocks += [Folded("How this was made", [Table(["", ""], rows, words=(0, 1))])]
    larger = {"quick": "", "default": " --full --plan"}.get(answer["size"])
    if larger is not None:
        why = "the next size" if answer["size"] == "quick" else "what the source's own scale would cost"
        blocks += [Next(f"trimtab study run {answer['study']}{larger}", why)]
    return page(f"{answer['study']}: {summary}", blocks)


def _drawn(name: str, figure: Any) -> Block:
    """A figure, or a slider over its frames: one slider moves everything in a frame."""
    if not figure.frames:
        return Figure(figure.chart, figure.caption)
    frames: list[tuple[str, list[Block]]] = [(label, [Figure(chart, figure.caption)]) for label, chart in figure.frames]
    return Slider(name.replace("_", " "), frames)


def claim_row(verdict: dict[str, Any]) -> tuple[str, str, str]:
    """Claim, verdict, and what was measured, for a table of claims."""
    claim = verdict["claim"]
    measured = f"{verdict['sentence']} {verdict['needed']}".strip()
    return f"{claim['id']}. {claim['text']} ({claim['where']})", verdict["word"], measured


def evidence(verdicts: list[dict[str, Any]]) -> Table:
    """Every effect of every claim with its interval."""
    rows = []
    for verdict in verdicts:
        for item in verdict["evidence"]:
            effect = str(Estimate.from_dict(item["effect"]))
            rows.append([verdict["claim"]["id"], verdict["measured"], item["environment"], effect, str(item["seeds"])])
    return Table(["claim", "measured", "environment", "effect [95%]", "seeds"], rows, words=(0, 1, 2))
