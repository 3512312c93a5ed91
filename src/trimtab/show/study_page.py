"""The page of a study: what was found, the verdicts, figures with what to look for in them, and how it was made."""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.core.wording import duration, plain
from trimtab.show import verdicts
from trimtab.show.blocks import (
    Block,
    Bullets,
    Claims,
    Contents,
    Decision,
    Figure,
    Files,
    Folded,
    Heading,
    Next,
    Note,
    Paragraph,
    Slider,
    Table,
)
from trimtab.show.html_page import page

SHOWN = 2  # figures that stand open; the rest are folded
MOST = 12  # values of a field that are listed


def study_page(
    answer: dict[str, Any],
    figures: dict[str, Any],
    summary: str,
    source: str,
    seconds: dict[str, float],
    machine: dict[str, Any],
    tables: list[str],
    configs: list[dict[str, Any]],
) -> str:
    """A page of its own; `figures` have a chart and a caption, `tables` are names of files beside it."""
    figure_blocks: list[Block] = [_drawn(name, figure) for name, figure in figures.items()]
    blocks: list[Block] = [_answer(answer), Contents()]
    if answer["verdicts"]:
        rows = [verdicts.claim_block(v) for v in answer["verdicts"]]
        blocks += [Heading("Claims"), Claims(rows), Paragraph(verdicts.RULE, "soft")]
    blocks += [Heading("Figures"), *figure_blocks[:SHOWN]] if figure_blocks else []
    blocks += [Heading("How sure"), *(Note(text, "doubt") for text in answer["failed"])] if answer["failed"] else []
    if answer["notes"]:
        blocks += [Heading("What differs from the source"), Bullets(answer["notes"])]
    hint = ", ".join(name.replace("_", " ") for name in list(figures)[SHOWN:])
    blocks += [Folded("More figures", figure_blocks[SHOWN:], hint)] if figure_blocks[SHOWN:] else []
    blocks += [Folded("Tables and figures as files", _files(tables, list(figures)), "CSV, Parquet, SVG, PNG, PDF")]
    origins = [
        ["size", f"{answer['size']}, {answer['jobs']} jobs, {answer['steps']:,} environment steps"],
        ["time", time_taken(seconds)],
        ["machine", f"{machine['processor']}, {machine['cores']} cores, {machine['platform']}"],
        *_configurations(configs),
    ]
    origin: list[Block] = [Paragraph(answer["command"], "code"), Table(["", ""], origins, words=(0, 1))]
    blocks += [Folded("How this was made", origin, "command, configurations, machine"), _next(answer)]
    return page(f"{answer['study']}: {summary} ({source})", blocks)


def time_taken(seconds: dict[str, float]) -> str:
    """What a study took: its jobs one after another, and on the clock."""
    return f"{duration(seconds['work'])} of work, {duration(seconds['clock'])} on the clock"


def _answer(answer: dict[str, Any]) -> Decision:
    """How many claims hold, large; a study without claims has its sentence."""
    judged = answer["verdicts"]
    if not judged:
        return Decision(answer["sentence"])
    large, rest = verdicts.headline(judged)
    return Decision(large, answer["sentence"], f"{rest}{' ' if rest else ''}at the {answer['size']} size")


def _drawn(name: str, figure: Any) -> Block:
    """A figure, or a slider over its frames: one slider moves everything in a frame."""
    if not figure.frames:
        return Figure(figure.chart, figure.caption)
    frames: list[tuple[str, list[Block]]] = [(label, [Figure(chart, figure.caption)]) for label, chart in figure.frames]
    first = {label.split(" ", 1)[0] for label, _ in frames}  # "update 100", "update 400": a slider over updates
    return Slider(f"{first.pop()}s" if len(first) == 1 else name.replace("_", " "), frames)


def _files(tables: list[str], figures: list[str]) -> list[Block]:
    kinds = lambda folder, name, suffixes: [(s.upper(), f"{folder}/{name}.{s}") for s in suffixes]
    items = [(f"table {name}", kinds("tables", name, ("csv", "parquet"))) for name in tables]
    items += [(f"figure {name}", kinds("figures", name, ("svg", "png", "pdf"))) for name in figures]
    return [Paragraph("In the directory of the study, beside this page.", "soft"), Files(items)]


def _configurations(configs: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of a table: the fields that all runs share and that are not the default, and those that vary."""
    if not configs:
        return []
    usual = Config().as_dict()
    values = {name: list(dict.fromkeys(plain(config[name]) for config in configs)) for name in configs[0]}
    shared = [f"{n} {v[0]}" for n, v in values.items() if len(v) == 1 and v[0] != plain(usual.get(n))]
    varied = [f"{n} {_listed(v)}" for n, v in values.items() if len(v) > 1]
    rows = [["in every run, where not the default", ", ".join(shared)], ["varied", "; ".join(varied)]]
    return [row for row in rows if row[1]]


def _listed(values: list[str]) -> str:
    return ", ".join(values[:MOST]) + (f" and {len(values) - MOST} more" if len(values) > MOST else "")


def _next(answer: dict[str, Any]) -> Next:
    run = f"trimtab study run {answer['study']}"
    if answer["size"] == "quick":
        open_ = any(verdicts.word(v) == "not resolved" for v in answer["verdicts"])
        why = "The default size: more seeds and longer training"
        return Next(run, why + (", for what is not resolved here." if open_ else "."))
    if answer["size"] == "default":
        return Next(f"{run} --full --plan", "What the source's own scale would cost.")
    return Next("trimtab study claims", "This among all claims.")
