"""`trimtab view`."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.config import ConfigError
from trimtab.core.fields import option
from trimtab.core.options import Options
from trimtab.operations.declaration import Call, operation

NICE = 10  # training has priority over the viewer


@dataclass(frozen=True)
class View(Options):
    """What to view."""

    dir: str = option("runs", position=True, nargs="?")
    """Directory that holds runs and studies (default: runs)."""
    port: int = 7007
    """Port on this machine; 0 takes any that is free."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not Path(self.dir).is_dir():
            raise ConfigError("dir", self.dir, "is no directory; name one that holds runs")
        if not 0 <= self.port <= 65_535:
            raise ConfigError("port", self.port, "must be from 0 to 65535; nearest: 0 (any that is free)")


def _show(result: None, call: Call) -> None:
    """The page is all there is to see."""


@operation("view", View, _show)
def view(options: View) -> None:
    """Show runs and studies in a browser as they grow, until interrupted.

    Returns:
        Nothing, once it is interrupted.
    """
    from trimtab.extras.live_view.server import Viewer

    root = Path(options.dir)
    try:
        viewer = Viewer(root, options.port)
    except OSError as error:
        unavailable = error.errno in (errno.EADDRINUSE, errno.EACCES)
        why = "is taken, or not yours to take; nearest: 0 (any that is free)" if unavailable else str(error.strerror)
        raise ConfigError("port", options.port, why) from None
    with viewer:
        with suppress(AttributeError, OSError):
            os.nice(NICE)
        print(f"{viewer.address}    runs under {root}; Ctrl-C closes the page and stops nothing else", flush=True)
        try:
            viewer.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print()
