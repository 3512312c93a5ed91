"""The page of a study: what was found, the verdicts, figures with what to look for in them, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.config import Config
from trimtab.core.wording import duration, plain
from trimtab.show import verdicts
from trimtab.show.blocks import (
    Block,
    Bullets,
    Claims,
    Decision,
    Figure,
    Files,
    Folded,
    Heading,
    Next,
    Page,
    Paragraph,
    Slider,
    Table,
)
from trimtab.show.html_page import render
from trimtab.studies.source_result import CaptionedFigure, SourceResult
from trimtab.studies.study_result import StudyTime

_SHOWN = 2  # figures that are open; the rest are folded
_MOST = 12  # values of a field that are listed


@dataclass(frozen=True)
class StudyReport:
    """What the page shows: the answer, its figures, and where it comes from."""

    result: SourceResult
    figures: Mapping[str, CaptionedFigure]
    summary: str
    source: str
    time: StudyTime
    machine: str
    tables: Sequence[str]
    """Names of the files beside the page."""
    configs: Sequence[Config]
    """Of all runs."""


def study_page(report: StudyReport) -> str:
    """A page of its own."""
    result, figures = report.result, [_drawn(name, figure) for name, figure in report.figures.items()]
    evidence: list[Block] = []
    if result.verdicts:
        claims = Claims([verdicts.claim_block(verdict) for verdict in result.verdicts])
        evidence += [Heading("Claims"), claims, Paragraph(verdicts.RULE, "soft")]
    evidence += [Heading("Figures"), *figures[:_SHOWN]] if figures else []
    evidence += [Heading("What differs from the source"), Bullets(result.notes)] if result.notes else []
    hint = ", ".join(name.replace("_", " ") for name in list(report.figures)[_SHOWN:])
    details = [Folded("More figures", figures[_SHOWN:], hint)] if figures[_SHOWN:] else []
    details += [Folded("Tables and figures as files", _files(report), "CSV, Parquet, SVG, PNG, PDF")]
    rows = [
        ["size", f"{result.size}, {result.jobs} jobs, {result.steps:,} environment steps"],
        ["time", time_taken(report.time)],
        ["machine", report.machine],
        *_configurations([config.as_dict() for config in report.configs]),
    ]
    origin: list[Block] = [Paragraph(result.command, "code"), Table(["", ""], rows, words=(0, 1))]
    details += [Folded("How this was made", origin, "command, configurations, machine")]
    title = f"{result.study}: {report.summary} ({report.source})"
    return render(Page(title, _answer(result), evidence, result.failed, details))


def time_taken(time: StudyTime) -> str:
    """What a study took: its jobs one after another, and on the clock."""
    return f"{duration(time.work)} of work, {duration(time.clock)} on the clock"


def _answer(result: SourceResult) -> Decision:
    """How many claims hold, large; a study without claims has its sentence."""
    if not result.verdicts:
        return Decision(result.sentence, next=_next(result))
    large, rest = verdicts.headline(result.verdicts)
    return Decision(large, result.sentence, f"{rest}{' ' if rest else ''}at the {result.size} size", _next(result))


def _drawn(name: str, figure: CaptionedFigure) -> Block:
    """A figure, or a slider over its frames: one slider moves everything in a frame."""
    if not figure.frames:
        return Figure(figure.chart, figure.caption)
    frames = [(label, [Figure(chart, figure.caption)]) for label, chart in figure.frames]
    first = {label.split(" ", 1)[0] for label, _ in frames}  # "update 100", "update 400": a slider over updates
    return Slider(f"{first.pop()}s" if len(first) == 1 else name.replace("_", " "), frames)


def _files(report: StudyReport) -> list[Block]:
    kinds = (("table", report.tables, ("csv", "parquet")), ("figure", report.figures, ("svg", "png", "pdf")))
    items = [
        (f"{kind} {name}", [(suffix.upper(), f"{kind}s/{name}.{suffix}") for suffix in suffixes])
        for kind, names, suffixes in kinds
        for name in names
    ]
    return [Paragraph("In the directory of the study, beside this page.", "soft"), Files(items)]


def _configurations(configs: Sequence[Mapping[str, object]]) -> list[list[str]]:
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
    return ", ".join(values[:_MOST]) + (f" and {len(values) - _MOST} more" if len(values) > _MOST else "")


def _next(result: SourceResult) -> Next:
    run = f"trimtab study run {result.study}"
    if result.size == "quick":
        open_ = any(verdicts.word(verdict) == "inconclusive" for verdict in result.verdicts)
        why = "The default size has more seeds and longer training"
        return Next(run, why + (", which may settle the inconclusive claims." if open_ else "."))
    if result.size == "default":
        return Next(f"{run} --full --plan", "Estimate the cost of the source's own scale.")
    return Next("trimtab study claims", "See this among all claims.")
