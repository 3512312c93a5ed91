"""How N, T, minibatch and epochs become gradient steps: a drawing from a run's own numbers."""

from __future__ import annotations

import html

from trimtab.config import Config
from trimtab.show.style import BLUE, GREY, PALETTE

WIDTH = 360  # of the drawing's own units: what a phone shows at full size
INK, SOFT = "currentColor", "var(--soft, #5b6470)"  # the page's own, in either theme
ROWS, CELLS = 6, 24  # the most that are drawn; more are hinted at


def of_config(config: Config) -> str:
    """The drawing of a configuration."""
    return _flow(
        config.num_envs,
        config.num_steps,
        config.minibatches,
        config.minibatch,
        config.update_epochs,
        config.iterations,
        config.gradient_steps,
    )


def _flow(
    num_envs: int,
    num_steps: int,
    minibatches: int,
    minibatch_size: int,
    update_epochs: int,
    iterations: int,
    gradient_steps: int,
) -> str:
    """N rows of T steps → a batch → shuffled into minibatches, E times → gradient steps → all iterations."""
    batch, updates = num_envs * num_steps, update_epochs * minibatches
    drawing = _Drawing()
    drawing.title(f"N = {num_envs:,} environments × T = {num_steps:,} steps")
    drawing.rows(num_envs, num_steps)
    drawing.arrow("one iteration's samples")
    drawing.title(f"batch = {num_envs:,} × {num_steps:,} = {batch:,} samples")
    drawing.strip(min(num_envs, len(PALETTE)), PALETTE, opacity=0.75)
    drawing.arrow("shuffled for every epoch, and cut")
    of = (
        f"{minibatches:,} minibatches of {minibatch_size:,}"
        if minibatches > 1
        else f"1 minibatch of {minibatch_size:,}"
    )
    drawing.title(of)
    drawing.epochs(update_epochs, minibatches)
    passes = f"{update_epochs:,} epochs" if update_epochs > 1 else "1 epoch"
    drawing.arrow(f"{passes}: each sample is used {update_epochs:,} ×")
    drawing.title(f"{update_epochs:,} × {minibatches:,} = {updates:,} gradient steps per iteration")
    drawing.arrow(f"× {iterations:,} iterations")
    drawing.total(f"{gradient_steps:,} gradient steps", f"from {iterations * batch:,} environment steps")
    alternative = f"{num_envs} environments times {num_steps} steps make {updates} gradient steps per iteration"
    return drawing.svg(alternative)


class _Drawing:
    """Parts placed one below the other."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 4.0

    def text(
        self, x: float, y: float, words: str, size: float = 12, fill: str = SOFT, weight: int = 400, at: str = "start"
    ) -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" style="fill: {fill}" font-weight="{weight}" '
            f'text-anchor="{at}">{html.escape(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> None:
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.4):.2f}" height="{height:g}" rx="1.5" fill="{fill}" '
            f'fill-opacity="{opacity:g}"/>'
        )

    def title(self, words: str) -> None:
        self.y += 14
        self.text(0, self.y, words, min(13.5, WIDTH / (0.6 * len(words))), INK, 600)
        self.y += 8

    def arrow(self, words: str) -> None:
        top, bottom = self.y + 8, self.y + 30
        line = f"M14 {top}V{bottom}M9 {bottom - 6}L14 {bottom}L19 {bottom - 6}"
        self.parts.append(f'<path d="{line}" fill="none" stroke="{GREY}" stroke-width="1.6"/>')
        self.text(30, top + 15, words)
        self.y = bottom + 4

    def rows(self, num_envs: int, num_steps: int) -> None:
        """One line of cells for each environment, coloured by environment."""
        shown = min(num_envs, ROWS if num_envs <= ROWS else ROWS - 1)
        for row in range(shown):
            self.strip(min(num_steps, CELLS), [PALETTE[row % len(PALETTE)]], height=9, gap=1.5, opacity=0.8)
        if shown < num_envs:
            self.text(0, self.y + 11, f"⋮  and {num_envs - shown:,} more rows like these")
            self.y += 16

    def strip(self, cells: int, fills: list[str], height: float = 14, gap: float = 0, opacity: float = 1.0) -> None:
        width = WIDTH / cells
        for cell in range(cells):
            self.box(cell * width, self.y, width - gap, height, fills[cell % len(fills)], opacity)
        self.y += height + 3

    def epochs(self, update_epochs: int, minibatches: int) -> None:
        """One line for each epoch, cut into minibatches of mixed samples."""
        shown = min(update_epochs, 4 if update_epochs <= 4 else 3)
        for epoch in range(shown):
            self.text(0, self.y + 11, f"epoch {epoch + 1}", 11)
            self._cut(minibatches, 58, epoch)
        if shown < update_epochs:
            self.text(0, self.y + 11, f"⋮  and {update_epochs - shown:,} more epochs")
            self.y += 16

    def _cut(self, minibatches: int, left: float, epoch: int) -> None:
        shown = min(minibatches, 64)
        width, gap = (WIDTH - left) / shown, 3 if shown <= 32 else 1
        pieces = max(1, min(8, 48 // shown))
        piece = (width - gap) / pieces
        for m in range(shown):
            for p in range(pieces):
                tint = PALETTE[(7 * m + 5 * p + 3 * epoch + p * p) % len(PALETTE)]
                self.box(left + m * width + p * piece, self.y, piece, 13, tint, 0.75)
        self.y += 17

    def total(self, words: str, more: str) -> None:
        self.box(0, self.y + 4, WIDTH, 48, BLUE, 0.1)
        self.text(14, self.y + 25, words, 15, INK, 700)
        self.text(14, self.y + 43, more)
        self.y += 56

    def svg(self, alternative: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y:g}" role="img" '
            f'aria-label="{html.escape(alternative)}" style="max-width:{WIDTH * 1.45:g}px" '
            f'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif">'
            f"{''.join(self.parts)}</svg>"
        )
