"""What pages are made of: a decision and the blocks behind it. `trimtab.show.html_page` writes them as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 opens a section and is listed in the contents."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Text; `kind` is text, soft or code."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Note:
    """A remark in a box; `kind` is note or doubt."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of text under columns.

    Args:
        columns: the heads; all empty for a table without a head.
        rows: the cells. Lines of a cell after the first are small, unless each begins with •.
        marked: rows to highlight.
        words: columns that hold words, not numbers.
        caption: a sentence below the table.
        badges: columns of verdicts, which are coloured.
        stacked: on a phone each row becomes a card.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Sequence[int] = ()
    words: Sequence[int] = (0,)
    caption: str = ""
    badges: Sequence[int] = ()
    stacked: bool = False


@dataclass(frozen=True)
class Claim:
    """One line of a table of claims, and the details under it.

    Args:
        id: short name of the claim.
        text: the sentence of the source.
        where: the place of the sentence in the source.
        verdict: one word.
        effect: the measured effect with its interval; lines after the first are small.
        needed: what would decide an inconclusive claim.
        differs: what differs from the source's setting.
        details: blocks that open under the line.
        link: text and address.
    """

    id: str
    text: str
    where: str
    verdict: str
    effect: str
    needed: str
    differs: str
    details: Sequence[Block]
    link: tuple[str, str] | None = None


@dataclass(frozen=True)
class Claims:
    """A table of claims; each line opens."""

    rows: Sequence[Claim]


@dataclass(frozen=True)
class Files:
    """Files beside the page: for each name its formats, with their addresses."""

    items: Sequence[tuple[str, Sequence[tuple[str, str]]]]


@dataclass(frozen=True)
class Figure:
    """A chart: its own title and subtitle (what to look for) become the caption; `note` explains what may surprise."""

    chart: alt.TopLevelMixin
    note: str = ""


def present(**charts: alt.TopLevelMixin | None) -> dict[str, alt.TopLevelMixin]:
    """The figures that there are data for, by name."""
    return {name: chart for name, chart in charts.items() if chart is not None}


def drawn(charts: Mapping[str, alt.TopLevelMixin], name: str, note: str = "") -> list[Figure]:
    """The figure of a name, if there were data for it."""
    return [Figure(charts[name], note)] if name in charts else []


@dataclass(frozen=True)
class Svg:
    """A drawing and its caption."""

    source: str
    title: str = ""
    subtitle: str = ""


@dataclass(frozen=True)
class Columns:
    """A row of boxes with one number each: (value, its meaning)."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Slider:
    """Frames (label, blocks), of which one is visible; one slider moves everything in them. `first` is shown first."""

    name: str
    frames: Sequence[tuple[str, Sequence[Block]]]
    first: int = 0


@dataclass(frozen=True)
class Folded:
    """A closed section; it is listed in the contents. `hint` says beside its title what is in it."""

    title: str
    blocks: Sequence[Block]
    hint: str = ""


@dataclass(frozen=True)
class Contents:
    """The list of contents: links to every section."""


@dataclass(frozen=True)
class Next:
    """The command to run next, and why."""

    command: str
    why: str = ""


@dataclass(frozen=True)
class Decision:
    """The first block of every page.

    Args:
        answer: the answer in a few words or a short sentence.
        evidence: one sentence with the numbers that the answer rests on.
        label: what the answer is, where it is a bare value ("environments × steps").
        next: the command that follows from the answer.
    """

    answer: str
    evidence: str = ""
    label: str = ""
    next: Next | None = None


def caveats(sentences: Sequence[str]) -> list[Block]:
    """The section of what limits the answer, if anything does."""
    return [Heading("Caveats"), *(Note(text, "doubt") for text in sentences)] if sentences else []


@dataclass(frozen=True)
class Page:
    """A page in the one order that all pages have: the decision, the evidence, the caveats, the details.

    Args:
        title: what the page is about.
        decision: the answer, one sentence of evidence, and the next command.
        evidence: the blocks that a reader needs to believe the answer.
        caveats: what limits the answer, one sentence each.
        details: sections to look things up in, usually folded.
    """

    title: str
    decision: Decision
    evidence: Sequence[Block]
    caveats: Sequence[str] = ()
    details: Sequence[Block] = ()

    @property
    def blocks(self) -> list[Block]:
        """All blocks from top to bottom."""
        return [self.decision, Contents(), *self.evidence, *caveats(self.caveats), *self.details]


Block = (
    Decision
    | Heading
    | Paragraph
    | Note
    | Bullets
    | Table
    | Claims
    | Files
    | Figure
    | Svg
    | Columns
    | Slider
    | Folded
    | Contents
    | Next
)
