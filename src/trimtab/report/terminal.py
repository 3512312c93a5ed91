"""Several learning curves in one drawing of characters, one colour each. No JAX, no figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.report.run import HEIGHT, WIDTH, _short

COLOURS = ("cyan", "magenta", "yellow", "green", "red", "blue", "white")
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dots of a braille character, 4 down and 2 across

Points = Sequence[tuple[float, float]]


def draw_together(curves: Mapping[str, Points], width: int = WIDTH, height: int = HEIGHT) -> str:
    """Rich markup of all curves on the same axes, with a line that says which colour is which."""
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return "no episode has finished yet"
    every = [point for points in curves.values() for point in points]
    xs, ys = [x for x, _ in every], [y for _, y in every]
    box = (min(xs), (max(xs) - min(xs)) or 1.0, max(ys), (max(ys) - min(ys)) or 1.0)
    dots = [[0] * width for _ in range(height)]
    colour = [[""] * width for _ in range(height)]
    for k, points in enumerate(curves.values()):
        for column, begin, end in _strokes(points, box, width, height):
            for row in range(begin, end + 1):
                dots[row // 4][column // 2] |= _BITS[row % 4][column % 2]
                colour[row // 4][column // 2] = COLOURS[k % len(COLOURS)]
    label = {0: max(ys), height - 1: min(ys)}
    lines = [
        (f"{label[i]:>10.4g} " if i in label else " " * 11) + "".join(map(_cell, dots[i], colour[i]))
        for i in range(height)
    ]
    axis = " " * 11 + f"{_short(min(xs)):<{width // 2}}{_short(max(xs)):>{width // 2}}"
    key = "   ".join(f"[{COLOURS[k % len(COLOURS)]}]━━[/] {name}" for k, name in enumerate(curves))
    return "\n".join([*lines, axis, key])


def _strokes(points: Points, box: tuple[float, float, float, float], width: int, height: int):
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


def _cell(dots: int, colour: str) -> str:
    return f"[{colour}]{chr(0x2800 + dots)}[/]" if dots else chr(0x2800)
