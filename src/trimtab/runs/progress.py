"""What a person sees while something long runs: a live bar in a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Steps, steps/s, return and time left. Use as a context manager; call `update` as often as you like."""

    def __init__(self, total: int, title: str, quiet: bool = False, unit: str = "steps"):
        self.total, self.title, self.quiet, self.unit = total, title, quiet, unit
        self._live: Any = None
        self._begun, self._printed, self._first = time.perf_counter(), 0.0, 0
        self._seen = -1  # what was done when it last grew
        self._ends: float | None = None  # when all should be done, guessed then

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._live = Bar(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=32),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} " + self.unit),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._live.start()
            self._task = self._live.add_task(self.title, total=self.total, note="compiling")
        return self

    def start(self, done: int = 0) -> None:
        """Work begins now (what went before was compiling), `done` of it already behind us."""
        self._begun, self._first = time.perf_counter(), done
        if self._live:
            self._live.reset(self._task, completed=done, note="")

    def update(self, done: int, note: str = "") -> None:
        if self.quiet:
            return
        if self._live:
            self._live.update(self._task, completed=done, note=note)
            return
        now, grew = time.perf_counter(), done != self._seen
        if grew and done > self._first:
            self._ends = now + (self.total - done) * (now - self._begun) / (done - self._first)
        self._seen = done
        if now - self._printed > 5.0 or (grew and done >= self.total):
            self._printed = now
            left = f" {max(self._ends - now, 0):.0f} s left" if self._ends and done < self.total else ""
            print(
                f"{self.title}: {done:,}/{self.total:,} {self.unit} {note}{left}",
                file=sys.stderr,
                flush=True,
            )

    def count(self, done: int, total: int, note: str = "") -> None:
        """Progress in things whose number is known only now."""
        self.total = total
        if self._live:
            self._live.update(self._task, total=total, completed=done, note=note)
        else:
            self.update(done, note)

    def __exit__(self, *_) -> None:
        if self._live:
            self._live.stop()
