"""A page and its figures on disk."""

from __future__ import annotations

from pathlib import Path

import altair as alt

from trimtab.core.writing import write_atomically
from trimtab.show import style


def write_page(path: Path, text: str, figures: dict[str, alt.TopLevelMixin]) -> None:
    """The page, and beside it figures/NAME.svg, .png and .pdf, drawn from the definitions the page has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    style.save_all(figures, path.parent / "figures")
