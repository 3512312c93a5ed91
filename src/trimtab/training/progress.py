"""What a run shows and sends while it goes: a bar in a terminal or notebook, plain lines elsewhere, and metric sinks.

Sinks are TensorBoard and Weights & Biases: copies of the metrics that the run directory holds.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from html import escape
from pathlib import Path
from typing import Any, Protocol

from trimtab.core.errors import MissingPackage
from trimtab.core.terminal import new_console

PAUSE, PAUSE_IN_CELL = 5.0, 0.25  # seconds between lines


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this: its output takes HTML, and is no terminal."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def interactive() -> bool:
    """Whether a person is likely to be watching: a notebook, or a prompt."""
    return in_notebook() or hasattr(sys, "ps1")


class Progress:
    """Steps, steps/s, return and time left. Use as a context manager; call `update` as often as you like."""

    def __init__(self, total: int, title: str, quiet: bool = False, unit: str = "steps"):
        self.total, self.title, self.quiet, self.unit = total, title, quiet, unit
        self._cell: Any = None
        self._live: Any = None
        self._begun, self._printed, self._first = time.perf_counter(), 0.0, 0
        self._seen = -1  # what was done when it last grew
        self._ends: float | None = None  # when all should be done, guessed then

    def __enter__(self) -> Progress:
        if not self.quiet and in_notebook():
            from IPython.display import display

            first = self._bundle(f"{self.title}: compiling", 0)
            self._cell = display(first, raw=True, display_id=True)
        elif not self.quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._live = Bar(
                TextColumn("{task.description}", style="bold", markup=False),
                BarColumn(bar_width=32),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} " + self.unit),
                TextColumn("{task.fields[note]}", markup=False),
                TimeRemainingColumn(),
                console=new_console(stderr=True),
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
        if now - self._printed > (PAUSE_IN_CELL if self._cell else PAUSE) or (grew and done >= self.total):
            self._printed = now
            left = f" {max(self._ends - now, 0):.0f} s left" if self._ends and done < self.total else ""
            self._say(f"{self.title}: {done:,}/{self.total:,} {self.unit} {note}{left}", done)

    def _say(self, line: str, done: int) -> None:
        """One more line, or the notebook's cell with this one in place of the last."""
        if self._cell:
            self._cell.update(self._bundle(line, done), raw=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def _bundle(self, line: str, done: int) -> dict[str, str]:
        """What a notebook shows: a bar and the line, or the line alone where there is no HTML."""
        bar = f'<progress value="{done}" max="{max(self.total, 1)}" style="width:16em"></progress>'
        return {"text/html": f"<div>{bar} {escape(line)}</div>", "text/plain": line}

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


# Sinks -----------------------------------------------------------------------------------------------------


def require_packages(tensorboard: bool, track: bool) -> None:
    """Refuse what cannot be written before anything is."""
    for enabled, flag, package, extra in (
        (tensorboard, "tensorboard", "tensorboardX", "tensorboard"),
        (track, "track", "wandb", "wandb"),
    ):
        if enabled and importlib.util.find_spec(package) is None:
            raise MissingPackage(f"--{flag} needs a package: pip install 'trimtab[{extra}]'")


class Sink(Protocol):
    def write(self, step: int, metrics: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Events beside the run, for `tensorboard --logdir`."""

    def __init__(self, path: Path):
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(path / "tensorboard"))

    def write(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; WANDB_MODE=offline keeps everything on disk."""

    def __init__(self, path: Path, config: dict[str, Any], project: str = "trimtab"):
        import wandb

        self._run = wandb.init(project=project, dir=str(path), config=config, name=path.name)

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()
