"""What is printed in a terminal. Text is text, also where it comes from a file or is a path that a stranger named.

Square brackets, `:name:` and backslashes have no meaning, and control characters, which could move the cursor, change
the window's title or write to the clipboard, are shown as `\\x1b`. Every command prints through `new_console`, or
through the plain streams of `safe_streams`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_CONTROLS = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"]
_INVISIBLE = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029]  # they reorder or break what is shown
_SHOWN = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:04x}" for code in _INVISIBLE}


def visible(text: str) -> str:
    """The text with control characters as escapes, except newline and tab."""
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def new_console(**options: Any) -> Console:
    """A rich console that takes every string literally.

    Args:
        options: those of rich's Console.

    Returns:
        The console. Styles are given by `styled` and by the `style` of cells and rows, never inside of text.
    """
    if "file" not in options:
        stream = sys.stderr if options.get("stderr") else sys.stdout
        options["file"] = getattr(stream, "stream", stream)  # rich's own escape sequences are meant
    options.setdefault("highlight", False)
    return cast("Console", _literal_console()(markup=False, emoji=False, **options))


def styled(*parts: str | tuple[str, str]) -> Text:
    """Text whose parts are plain, or pairs of text and style."""
    from rich.text import Text

    return Text.assemble(*(visible(part) if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts))


@cache
def _literal_console() -> type[Any]:
    from rich.console import Console

    class LiteralConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

    return LiteralConsole


class SafeStream:
    """A text stream that shows control characters instead of writing them."""

    def __init__(self, stream: IO[str]):
        self.stream = stream

    def write(self, text: str) -> int:
        """Write what `visible` makes of a text."""
        self.stream.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Make everything that is printed meanwhile go through a SafeStream."""
    outside = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("Any", SafeStream(stream)) for stream in outside)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = outside
