"""The page of a meter's reports: what the newest says, and how effective samples and noise scale went."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from trimtab.core.quantities import quantity
from trimtab.gradient.meter_report import MeterReport
from trimtab.show.blocks import Block, Decision, Heading, Page, Table, drawn
from trimtab.show.html_page import page_of_blocks
from trimtab.show.style import BLUE, GREY, layered, over_steps, themed

_DRAWN = ("ess", "noise_scale_trajectory")


def figures(reports: Sequence[MeterReport]) -> dict[str, alt.TopLevelMixin]:
    """One figure for each quantity that any report resolves.

    Args:
        reports: in the order of their steps.

    Returns:
        Charts by the quantity's name.
    """
    charts = {}
    for name in _DRAWN:
        rows = [
            {"step": r.step, "batch": r.batch, "value": e.value, "lo": e.lo, "hi": e.hi}
            for r in reports
            if (e := getattr(r, name)).resolved
        ]
        if rows:
            charts[name] = _over_steps(pl.DataFrame(rows), name)
    return charts


def _over_steps(frame: pl.DataFrame, name: str) -> alt.TopLevelMixin:
    described = quantity(name)
    y = alt.Y("value:Q", title=described.axis, scale=alt.Scale(type="log"))
    x = over_steps()
    band = alt.Chart().mark_area(opacity=0.2, color=BLUE).encode(x=x, y=alt.Y("lo:Q"), y2="hi:Q")
    line = alt.Chart().mark_line(point=True, color=BLUE).encode(x=x, y=y)
    batch = alt.Chart().mark_line(color=GREY, strokeDash=[4, 3]).encode(x=x, y="batch:Q")
    subtitle = f"{described.meaning[:1].upper()}{described.meaning[1:]}. Band: 95% interval. Dashed: the batch."
    return themed(layered(band, line, batch, data=frame), described.label.capitalize(), subtitle)


def meter_page(reports: Sequence[MeterReport], place: str) -> str:
    """The page of some reports.

    Args:
        reports: at least one, in the order of their steps.
        place: where they were read, for the title.

    Returns:
        The page as HTML.
    """
    last, charts = reports[-1], figures(reports)
    rows = [list(row) for row in last.table]
    answer = last.worth.short
    evidence: list[Block] = [
        Heading(f"At step {last.step:,}"),
        Table(["quantity", "value [95% interval]", "meaning"], rows, words=(0, 2)),
        *(figure for name in charts for figure in drawn(charts, name)),
    ]
    notes = [f"{note[:1].upper()}{note[1:]}." for note in last.notes]
    decision = Decision(answer, last.sentence)
    made = Page(f"Gradient meter of {place}", decision, evidence, notes)
    return page_of_blocks(made.title, made.blocks)
