"""`trimtab watch`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.core.options import Options
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import run_of
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.extras.play_episodes import Playback


@dataclass(frozen=True)
class Watch(Options):
    """What to watch."""

    run: Run | Place
    """Run directory; in Python also a Run."""
    out: Place | None = option(None, metavar="FILE")
    """File to write, .gif or .mp4 (default: RUN/watch.gif)."""
    _: KW_ONLY
    window: bool = False
    """Show the episodes in a window instead."""
    episodes: int = 1
    """Episodes to play."""
    steps: int = 500
    """Steps of an episode to show, at most."""
    at: int | None = option(None, metavar="STEP")
    """Step of the checkpoint whose policy plays (default: the last)."""
    seed: int = 0
    """Seed of the first episode."""
    sample: bool = False
    """Draw actions as in training, instead of the most likely ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out and self.window:
            raise ConfigError("out", self.out, "a window writes no file; leave out one of them")


def _show(result: Playback, call: Call) -> None:
    if call.json:
        print_json(result)
        return
    returns = ", ".join(f"{value:.4g}" for value in result.returns)
    cut = f" (cut after {call.given.get('steps', Watch.steps)} steps)" if result.cut else ""
    print(f"policy of step {result.step:,}, {result.shown}: return {returns}{cut}")
    if not call.given.get("window"):
        print(f"{result.frames} frames: {result.out}")


@operation("watch", Watch, _show)
def watch(options: Watch) -> Playback:
    """Play episodes with a run's policy, and write them as a GIF or an MP4.

    Returns:
        The file, and the returns of the episodes.
    """
    from trimtab.extras import play_episodes

    run = run_of(options.run)
    out = Path(options.out) if options.out else run.path / "watch.gif"
    return play_episodes.watch(
        run,
        None if options.window else out,
        episodes=options.episodes,
        step=options.at,
        seed=options.seed,
        sample=options.sample,
        longest=options.steps,
    )
