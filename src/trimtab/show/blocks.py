"""What pages are made of. A page is a list of blocks; `trimtab.show.html_page` writes them as HTML."""

from __future__ import annotations

from dataclasses import dataclass, field

import altair as alt


@dataclass(frozen=True)
class Answer:
    """What the page has to say, large: a few words (`headline`), what they are (`label`), and a sentence."""

    text: str
    headline: str = ""
    label: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 opens a section and stands in the list of contents."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Text; `kind` is text, soft or code."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Note:
    """A remark set apart; `kind` is note or doubt."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Bullets:
    items: list[str]


@dataclass(frozen=True)
class Table:
    """Rows of text under columns.

    `marked` rows stand out, `words` are columns that are not numbers, `badges` columns of verdicts. Lines of a cell
    after the first are small, unless each begins with •. `stacked`: on a phone a row becomes a card.
    """

    columns: list[str]
    rows: list[list[str]]
    marked: tuple[int, ...] = ()
    words: tuple[int, ...] = (0,)
    caption: str = ""
    badges: tuple[int, ...] = ()
    stacked: bool = False


@dataclass(frozen=True)
class Claim:
    """A sentence of a source in a table of such: where it stands there, the verdict, an effect with its interval (lines
    after the first are small), what would resolve it, what was different. The rest is folded under it."""

    id: str
    text: str
    where: str
    verdict: str
    effect: str
    needed: str
    differs: str
    details: list[Block]
    link: tuple[str, str] | None = None  # text and address


@dataclass(frozen=True)
class Claims:
    """A table of claims to look over; each opens."""

    rows: list[Claim]


@dataclass(frozen=True)
class Files:
    """What lies beside the page: for each name the kinds it comes in, with their addresses."""

    items: list[tuple[str, list[tuple[str, str]]]]


@dataclass(frozen=True)
class Figure:
    """A chart: its own title and subtitle (what to look for) become the caption; `note` says what may surprise."""

    chart: alt.TopLevelMixin
    note: str = ""


@dataclass(frozen=True)
class Svg:
    """A drawing and its caption."""

    source: str
    title: str = ""
    subtitle: str = ""


@dataclass(frozen=True)
class Columns:
    """Numbers to remember in a row of boxes: (value, what it is)."""

    items: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Slider:
    """Frames, of which one is shown: (label, blocks) each. One slider moves everything in them; `first` is shown."""

    name: str
    frames: list[tuple[str, list[Block]]]
    first: int = 0


@dataclass(frozen=True)
class Folded:
    """A section that is closed until asked for; it stands in the list of contents, `hint` beside its title."""

    title: str
    blocks: list[Block]
    hint: str = ""


@dataclass(frozen=True)
class Contents:
    """Where the list of contents goes: links to every section."""


@dataclass(frozen=True)
class Next:
    """The command to type next, and why."""

    command: str
    why: str = ""


Block = (
    Answer
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
