"""Learning curves drawn with characters. No JAX, no figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from trimtab.core.terminal import styled

if TYPE_CHECKING:
    from rich.text import Text

WIDTH, HEIGHT = 72, 14
COLOURS = ("cyan", "magenta", "yellow", "green", "red", "blue", "white")
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dots of a braille character, 4 down and 2 across

Points = Sequence[tuple[float, float]]
Part = TypeVar("Part")  # a character, plain or with its colour


def draw(points: Points, width: int = WIDTH, height: int = HEIGHT) -> str:
    """A curve as plain text."""
    lines = _lines([points], width, height, lambda dots, colour: chr(0x2800 + dots))
    return "\n".join(map("".join, lines))


def draw_together(curves: Mapping[str, Points], width: int = WIDTH, height: int = HEIGHT) -> Text:
    """All curves on the same axes in colours, with a line that says which colour is which."""
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return styled("no episode has finished yet")
    drawing = _lines(list(curves.values()), width, height, lambda dots, colour: (chr(0x2800 + dots), colour))
    key = [part for k, name in enumerate(curves) for part in (("━━", COLOURS[k % len(COLOURS)]), f" {name}   ")]
    return styled(*(part for line in drawing for part in (*line, "\n")), *key)


def _lines(
    curves: Sequence[Points], width: int, height: int, cell: Callable[[int, str], Part]
) -> list[list[Part | str]]:
    """The parts of each line from top to bottom, in braille dots, with the ends of both axes."""
    every = [point for points in curves for point in points]
    xs, ys = [x for x, _ in every], [y for _, y in every]
    box = (min(xs), (max(xs) - min(xs)) or 1.0, max(ys), (max(ys) - min(ys)) or 1.0)
    dots = [[0] * width for _ in range(height)]
    colour = [[""] * width for _ in range(height)]
    for k, points in enumerate(curves):
        for column, begin, end in _strokes(points, box, width, height):
            for row in range(begin, end + 1):
                dots[row // 4][column // 2] |= _BITS[row % 4][column % 2]
                colour[row // 4][column // 2] = COLOURS[k % len(COLOURS)]
    label = {0: max(ys), height - 1: min(ys)}
    lines: list[list[Part | str]] = [
        [f"{label[i]:>10.4g} " if i in label else " " * 11, *map(cell, dots[i], colour[i])] for i in range(height)
    ]
    return [*lines, [" " * 11 + f"{_short(min(xs)):<{width // 2}}{_short(max(xs)):>{width // 2}}"]]


def _strokes(
    points: Points, box: tuple[float, float, float, float], width: int, height: int
) -> Iterator[tuple[int, int, int]]:
    """(column, first row, last row) in dots: the mean of each column, joined to the one before it."""
    left, x_span, top, y_span = box
    columns: dict[int, list[float]] = {}
    for x, y in points:
        columns.setdefault(round((x - left) / x_span * (2 * width - 1)), []).append(y)
    previous = None
    for column in sorted(columns):
        row = round((top - sum(columns[column]) / len(columns[column])) / y_span * (4 * height - 1))
        begin, end = sorted((row, row if previous is None else previous))
        yield column, begin, end
        previous = row


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value / 1e3:.3g}k" if value >= 1e3 else f"{math.floor(value)}"
