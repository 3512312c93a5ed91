"""One self-contained HTML page: text, tables and figures in the same look, nothing fetched from anywhere."""

from __future__ import annotations

import functools
import html
import json
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import altair as alt


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 opens a section."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Text; `kind` is text, lead (the one sentence that matters) or code."""

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
    """Rows of text under columns; `marked` are the rows that stand out, `words` the columns that are not numbers."""

    columns: list[str]
    rows: list[list[str]]
    marked: tuple[int, ...] = ()
    words: tuple[int, ...] = (0,)
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart; its own title and subtitle become the caption."""

    chart: alt.TopLevelMixin


@dataclass(frozen=True)
class Svg:
    """A drawing and its caption."""

    source: str
    title: str = ""
    subtitle: str = ""


@dataclass(frozen=True)
class Columns:
    """Blocks in a row of boxes: for numbers to remember, (value, what it is)."""

    items: list[tuple[str, str]] = field(default_factory=list)


Block = Heading | Paragraph | Note | Bullets | Table | Figure | Svg | Columns


def page(title: str, blocks: list[Block]) -> str:
    """The page as text. It needs no network, and forbids itself any."""
    body = "\n".join(_html(block) for block in blocks)
    drawn = any(isinstance(block, Figure) for block in blocks)
    heading = f"<h1>{html.escape(title)}</h1>" if title else ""
    scripts = f"<script>(function(){{{_bundle()}}})();</script>\n<script>{_asset('page.js')}</script>" if drawn else ""
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{html.escape(title or "trimtab")}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<main>
{heading}
{body}
</main>
{scripts}
</body>
</html>
"""


def _html(block: Block) -> str:
    e = html.escape
    match block:
        case Heading(text, level):
            return f"<h{level}>{e(text)}</h{level}>"
        case Paragraph(text, "code"):
            return f"<pre><code>{e(text)}</code></pre>"
        case Paragraph(text, kind):
            return f'<p class="{e(kind)}">{e(text)}</p>'
        case Note(text, kind):
            return f'<aside class="{e(kind)}">{e(text)}</aside>'
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{e(item)}</li>" for item in items) + "</ul>"
        case Table():
            return _table(block)
        case Figure(chart):
            return _figure(chart)
        case Svg(source, title, subtitle):
            return f'<figure>{_caption(title, subtitle)}<div class="drawing">{source}</div></figure>'
        case Columns(items):
            cells = "".join(f"<div><strong>{e(value)}</strong><span>{e(what)}</span></div>" for value, what in items)
            return f'<div class="numbers">{cells}</div>'
    raise TypeError(f"not a block: {block!r}")


def _table(table: Table) -> str:
    def cells(row: list[str], tag: str) -> str:
        kinds = ("word" if i in table.words else "number" for i in range(len(row)))
        return "".join(f'<{tag} class="{kind}">{_cell(text)}</{tag}>' for kind, text in zip(kinds, row))

    rows = "".join(
        f'<tr class="marked">{cells(row, "td")}</tr>' if i in table.marked else f"<tr>{cells(row, 'td')}</tr>"
        for i, row in enumerate(table.rows)
    )
    caption = f'<p class="caption">{html.escape(table.caption)}</p>' if table.caption else ""
    head = f"<thead><tr>{cells(table.columns, 'th')}</tr></thead>" if any(table.columns) else ""
    kind = "" if any(table.columns) else ' class="plain"'
    return f'{caption}<div class="scroll"><table{kind}>{head}<tbody>{rows}</tbody></table></div>'


def _cell(text: str) -> str:
    """Lines of a cell: the first in full, the others small."""
    first, *rest = text.split("\n")
    faint = ' class="faint"' if first == "not resolved" else ""
    return f"<span{faint}>{html.escape(first)}</span>" + "".join(f"<small>{html.escape(line)}</small>" for line in rest)


def _figure(chart: alt.TopLevelMixin) -> str:
    spec = chart.to_dict(validate=False)  # the chart was valid when it was made
    heading = spec.pop("title", {})
    heading = heading if isinstance(heading, dict) else {"text": heading}
    source = json.dumps(_without_default_schema(spec), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"<figure>{_caption(_line(heading.get('text')), _line(heading.get('subtitle')))}"
        f'<div class="chart"></div><script type="application/json">{source}</script></figure>'
    )


def _without_default_schema(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != "$schema"}


def _line(text: Any) -> str:
    return " ".join(text) if isinstance(text, list) else text or ""


def _caption(title: str, subtitle: str) -> str:
    if not title and not subtitle:
        return ""
    small = f"<span>{html.escape(subtitle)}</span>" if subtitle else ""
    return f"<figcaption><strong>{html.escape(title)}</strong>{small}</figcaption>"


def _asset(name: str) -> str:
    return (resources.files("trimtab.report") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    return vl_convert.javascript_bundle().replace("</script", "<\\/script")
