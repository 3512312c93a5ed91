"""One self-contained HTML page from blocks: text, tables and figures in one look; it fetches nothing.

The HTML is in `templates/`, the style sheet and the scripts are in `assets/`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import altair as alt

from trimtab.core.writing import write_atomically
from trimtab.show.blocks import Block, Claims, Contents, Figure, Folded, Heading, Page, Slider
from trimtab.training.device import cache_dir

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
TONES = {  # the colours of verdicts; a word that is not here is grey
    **dict.fromkeys(("recommended", "fine", "solved", "holds", "better"), "good"),
    **dict.fromkeys(("act", "contradicted", "contradicted", "worse"), "bad"),
    **dict.fromkeys(("watch", "depends"), "mixed"),
}
FAINT = ("inconclusive", "not resolved")  # cells without a value to rely on


def render(page: Page) -> str:
    """A page as HTML.

    Args:
        page: the decision and the blocks behind it.

    Returns:
        The text of a file that needs no network, and whose content policy forbids any.
    """
    return page_of_blocks(page.title, page.blocks)


def page_of_blocks(title: str, blocks: Sequence[Block]) -> str:
    """Blocks as HTML in the order given; a page that answers a question is a `Page`."""
    environment = _environment()
    html = functools.partial(_html, environment, _sections(blocks))
    has_figures = any(isinstance(block, Figure) for block in _all(blocks))
    template = environment.get_template("page.html")
    return template.render(title=title, blocks=map(html, blocks), has_figures=has_figures)


page = page_of_blocks


@functools.cache
def _environment() -> Environment:
    """The templates. Jinja2 is imported when the first page is made."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("trimtab.show"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.globals |= {
        "policy": POLICY,
        "asset": _asset,
        "bundle": _bundle,
        "chart_parts": _chart_parts,
        "TONES": TONES,
        "FAINT": FAINT,
    }
    environment.filters |= {"anchor": _anchor, "html": functools.partial(_html, environment, ())}
    return environment


def _html(environment: Environment, sections: Sequence[str], block: Block) -> Markup:
    """One block, by the macro of its class; the list of contents is given the titles of all sections."""
    macros: Any = environment.get_template("blocks.html").module
    macro: Callable[..., Markup] = getattr(macros, type(block).__name__.lower())
    return macro(block, sections) if isinstance(block, Contents) else macro(block)


def _all(blocks: Sequence[Block]) -> Iterator[Block]:
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


def _sections(blocks: Sequence[Block]) -> tuple[str, ...]:
    """The titles of the list of contents: sections, folded or not."""
    titles = [_section_title(block) for block in blocks]
    return tuple(dict.fromkeys(title for title in titles if title))


def _section_title(block: Block) -> str:
    match block:
        case Folded(title=title) | Heading(text=title, level=2):
            return title
    return ""


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _chart_parts(chart: alt.TopLevelMixin) -> tuple[str, str, dict[str, Any]]:
    """Title, subtitle and Vega-Lite specification of a chart; the page writes the titles itself."""
    spec = chart.to_dict(validate=False)  # the chart was valid when it was made
    spec.pop("$schema", None)
    heading = spec.pop("title", {})
    heading = heading if isinstance(heading, dict) else {"text": heading}
    return _line(heading.get("text")), _line(heading.get("subtitle")), spec


def _line(text: str | list[str] | None) -> str:
    return " ".join(text) if isinstance(text, list) else text or ""


def _asset(name: str) -> Markup:
    from markupsafe import Markup

    return Markup((resources.files("trimtab.show") / "assets" / name).read_text(encoding="utf-8"))


@functools.cache
def _bundle() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script. Bundling takes a second, so it is kept beside compiled programs."""
    from markupsafe import Markup

    cache_file = cache_dir().parent / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError):
        return Markup(cache_file.read_text(encoding="utf-8"))
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    script = script.replace("</script", "<\\/script")
    with suppress(OSError):
        write_atomically(cache_file, script.encode())
    return Markup(script)
