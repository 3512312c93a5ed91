"""One self-contained HTML page: text, tables and figures in the same look, nothing fetched from anywhere."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from typing import Any

import altair as alt

from trimtab.show.blocks import (
    Answer,
    Block,
    Bullets,
    Claim,
    Claims,
    Columns,
    Contents,
    Figure,
    Files,
    Folded,
    Heading,
    Next,
    Note,
    Paragraph,
    Slider,
    Svg,
    Table,
)
from trimtab.training.device import cache_dir
from trimtab.training.records import write_atomically

__all__ = [
    "Answer", "Block", "Bullets", "Claim", "Claims", "Columns", "Contents", "Figure", "Files", "Folded", "Heading",
    "Next", "Note", "Paragraph", "Slider", "Svg", "Table", "page",
]  # fmt: skip

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
# How a verdict looks; words that are not here are grey.
GOOD = ("recommended", "fine", "solved", "holds", "better")
BAD = ("act", "does not hold", "worse")
MIXED = ("watch", "depends")
ITEM = "• "  # begins a line of a cell that is one of several alike


def page(title: str, blocks: list[Block]) -> str:
    """The page as text. It needs no network, and forbids itself any."""
    titles = _sections(blocks)
    body = "\n".join(_html(block, titles) for block in blocks)
    heading = f"<h1>{html.escape(title)}</h1>" if title else ""
    has_figures = any(isinstance(block, Figure) for block in _all(blocks))
    library = f"<script>(function(){{{_bundle()}}})();</script>\n<script>{_asset('figures.js')}</script>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{html.escape(title or "trimtab")}</title>
<style>{_asset("page.css")}</style>
<script>{_asset("theme.js")}</script>
</head>
<body>
<main>
{heading}
{body}
</main>
<script>{_asset("page.js")}</script>
{library if has_figures else ""}
</body>
</html>
"""


def _all(blocks: list[Block]) -> Iterator[Block]:
    """Every block, also inside others."""
    for block in blocks:
        yield block
        match block:
            case Folded(blocks=inner):
                yield from _all(inner)
            case Slider(frames=frames):
                yield from (b for _, inner in frames for b in _all(inner))
            case Claims(rows=rows):
                yield from (b for claim in rows for b in _all(claim.details))


def _sections(blocks: list[Block]) -> tuple[str, ...]:
    """The titles of the list of contents: sections, folded or not."""
    titles = [b.text if isinstance(b, Heading) else b.title for b in blocks if _is_section(b)]
    return tuple(dict.fromkeys(titles))


def _is_section(block: Block) -> bool:
    return isinstance(block, Folded) or (isinstance(block, Heading) and block.level == 2)


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _html(block: Block, titles: Sequence[str] = ()) -> str:
    e = html.escape
    match block:
        case Answer(text, headline, label):
            small = f"<span>{e(label)}</span>" if label else ""
            large = f'<p class="headline"><strong>{e(headline)}</strong>{small}</p>' if headline else ""
            return f'<div class="answer">{large}<p class="lead">{e(text)}</p></div>'
        case Heading(text, 2):
            return f'<h2 id="{_anchor(text)}">{e(text)}</h2>'
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
        case Claims(rows):
            names = "".join(f"<span>{name}</span>" for name in ("claim", "verdict", "effect [95%]", "would resolve it"))
            return f'<div class="claims"><div class="names">{names}</div>{"".join(map(_claim, rows))}</div>'
        case Files(items):
            return f'<ul class="files">{"".join(f"<li>{e(name)}{_links(kinds)}</li>" for name, kinds in items)}</ul>'
        case Figure(chart, note):
            return _figure(chart, note)
        case Svg(source, title, subtitle):
            return f'<figure>{_caption(title, subtitle)}<div class="drawing">{source}</div></figure>'
        case Columns(items):
            cells = "".join(f"<div><strong>{e(value)}</strong><span>{e(what)}</span></div>" for value, what in items)
            return f'<div class="numbers">{cells}</div>'
        case Slider():
            return _slider(block)
        case Folded(title, inner, hint):
            beside = f"<span>{e(hint)}</span>" if hint else ""
            opened = f"<summary><h2>{e(title)}</h2>{beside}</summary>" + "\n".join(_html(b) for b in inner)
            return f'<details class="folded" id="{_anchor(title)}">{opened}</details>'
        case Contents():
            return _contents(titles)
        case Next(command, why):
            reason = f"<p>{e(why)}</p>" if why else ""
            copy = '<button type="button" class="copy">copy</button>'
            return f'<section class="next"><h2>Next</h2>{reason}<pre><code>{e(command)}</code>{copy}</pre></section>'
    raise TypeError(f"not a block: {block!r}")


def _claim(claim: Claim) -> str:
    """One line to look over, and under it the rest."""
    e = html.escape
    what = f"<b>{e(claim.id)}</b> {e(claim.text)}<small>{e(claim.where)}</small>"
    cells = [what, _badge(claim.verdict), _cell(claim.effect), _cell(claim.needed)]
    line = "".join(f"<span>{cell}</span>" for cell in cells)
    line += f'<small class="differs">What differs: {e(claim.differs)}</small>' if claim.differs else ""
    link = _links([claim.link]) if claim.link else ""
    inner = "\n".join(map(_html, claim.details))
    return f'<details class="claim"><summary>{line}</summary><div>{inner}{link}</div></details>'


def _links(kinds: list[tuple[str, str]]) -> str:
    return "".join(f' <a href="{html.escape(address)}">{html.escape(text)}</a>' for text, address in kinds)


def _contents(titles: tuple[str, ...]) -> str:
    if not titles:
        return ""
    links = "".join(f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title in titles)
    button = '<button type="button" class="unfold">open all</button>'
    return f'<nav class="contents" aria-label="Contents">{links}{button}</nav>'


def _slider(slider: Slider) -> str:
    """All frames one below the other, each with its label; the page's script shows one at a time."""
    frames = "".join(
        f'<div class="frame" data-label="{html.escape(label)}"><h3>{html.escape(label)}</h3>'
        + "\n".join(_html(block) for block in blocks)
        + "</div>"
        for label, blocks in slider.frames
    )
    name, last = html.escape(slider.name), len(slider.frames) - 1
    control = (
        f'<div class="control"><label><span>{name}</span><output></output>'
        f'<input type="range" min="0" max="{last}" step="1" value="{slider.first}" aria-label="{name}"></label></div>'
        if last
        else ""
    )
    return f'<div class="slider">{control}{frames}</div>'


# Tables ----------------------------------------------------------------------------------------------------


def _table(table: Table) -> str:
    def cells(row: list[str], tag: str) -> str:
        kinds = ("word" if i in table.words or i in table.badges else "number" for i in range(len(row)))
        shown = (_badge(text) if tag == "td" and i in table.badges else _cell(text) for i, text in enumerate(row))
        return "".join(f'<{tag} class="{kind}">{text}</{tag}>' for kind, text in zip(kinds, shown))

    rows = "".join(
        f'<tr class="marked">{cells(row, "td")}</tr>' if i in table.marked else f"<tr>{cells(row, 'td')}</tr>"
        for i, row in enumerate(table.rows)
    )
    caption = f'<p class="caption">{html.escape(table.caption)}</p>' if table.caption else ""
    head = f"<thead><tr>{cells(table.columns, 'th')}</tr></thead>" if any(table.columns) else ""
    kinds = ["stacked"] * table.stacked + ["plain"] * (not any(table.columns))
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f'<div class="scroll"><table{kind}>{head}<tbody>{rows}</tbody></table></div>{caption}'


def _cell(text: str) -> str:
    """Lines of a cell: the first in full, the others small; or items, all alike."""
    first, *rest = text.replace(" × ", "\u00a0×\u00a0").split("\n")
    faint = ' class="faint"' if first == "not resolved" else ""
    if first.startswith(ITEM):
        return "".join(f'<span class="item">{html.escape(line.removeprefix(ITEM))}</span>' for line in [first, *rest])
    return f"<span{faint}>{html.escape(first)}</span>" + "".join(f"<small>{html.escape(line)}</small>" for line in rest)


def _badge(text: str) -> str:
    """A verdict in its colour; lines after the first say more."""
    word, *rest = text.split("\n")
    kind = "good" if word in GOOD else "bad" if word in BAD else "mixed" if word in MIXED else "grey"
    more = "".join(f"<small>{html.escape(line)}</small>" for line in rest)
    return f'<span class="badge {kind}">{html.escape(word)}</span>{more}' if word else ""


# Figures ---------------------------------------------------------------------------------------------------


def _figure(chart: alt.TopLevelMixin, note: str) -> str:
    spec = chart.to_dict(validate=False)  # the chart was valid when it was made
    heading = spec.pop("title", {})
    heading = heading if isinstance(heading, dict) else {"text": heading}
    source = json.dumps(_without_default_schema(spec), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    below = f'<p class="remark">{html.escape(note)}</p>' if note else ""
    return (
        f"<figure>{_caption(_line(heading.get('text')), _line(heading.get('subtitle')))}"
        f'<div class="chart"></div><script type="application/json">{source}</script>{below}</figure>'
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
    return (resources.files("trimtab.show") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script. Bundling takes a second, so it is kept beside compiled programs."""
    import vl_convert

    cache_file = cache_dir().parent / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        return cache_file.read_text(encoding="utf-8")
    script = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    with suppress(OSError):
        write_atomically(cache_file, script.encode())
    return script
