"""Small pieces of HTML, for what notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A titled table; every cell is text."""
    cells = lambda row, tag: "".join(f'<{tag} style="text-align:left">{escape(str(cell))}</{tag}>' for cell in row)
    heading = f"<thead><tr>{cells(head, 'th')}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<div><b>{escape(title)}</b><table>{heading}<tbody>{body}</tbody></table></div>"


def curve(points: Sequence[tuple[float, float]], width: int = 420, height: int = 90) -> str:
    """A line through points (x rising), its lowest and highest value written beside it; nothing for fewer than two."""
    if len(points) < 2:
        return ""
    points = points[:: max(1, len(points) // width)] if len(points) > 2 * width else points
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    x_span, y_span = (xs[-1] - xs[0]) or 1.0, (high - low) or 1.0
    path = " ".join(f"{(x - xs[0]) / x_span * width:.1f},{(high - y) / y_span * height:.1f}" for x, y in points)
    label = 'font-size="11" fill="currentColor" font-family="sans-serif"'
    return (
        f'<svg width="{width + 70}" height="{height + 8}" viewBox="0 -4 {width + 70} {height + 8}" role="img">'
        f'<polyline points="{path}" fill="none" stroke="#3b6ea5" stroke-width="1.6"/>'
        f'<text x="{width + 6}" y="8" {label}>{high:.4g}</text>'
        f'<text x="{width + 6}" y="{height}" {label}>{low:.4g}</text></svg>'
    )
