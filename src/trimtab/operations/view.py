"""`trimtab view`."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from trimtab.config import ConfigError
from trimtab.operations import flags
from trimtab.operations.shared import parser

PORT = 7007
NICE = 10  # what trains goes before who looks


def view(argv: list[str]) -> int:
    command_parser = parser("view")
    command_parser.add_argument(
        "dir", nargs="?", default="runs", help="where to look for runs and studies (default: runs)"
    )
    command_parser.add_argument(
        "--port", metavar="INT", default=str(PORT), help=f"port on this machine, 0: any (default: {PORT})"
    )
    arguments = command_parser.parse(argv)
    root, port = Path(arguments.dir), flags.parse("port", int, arguments.port)
    if not root.is_dir():
        raise ConfigError("dir", arguments.dir, "is no directory; name one that holds runs")
    if not 0 <= port <= 65_535:
        raise ConfigError("port", port, "must be from 0 to 65535; nearest: 0 (any that is free)")
    from trimtab.extras.live_view.server import Viewer

    try:
        viewer = Viewer(root, port)
    except OSError as error:
        unavailable = error.errno in (errno.EADDRINUSE, errno.EACCES)
        why = "is taken, or not yours to take; nearest: 0 (any that is free)" if unavailable else str(error.strerror)
        raise ConfigError("port", port, why) from None
    with viewer:
        with suppress(AttributeError, OSError):
            os.nice(NICE)
        print(f"{viewer.address}    runs under {root}; Ctrl-C closes the page and stops nothing else", flush=True)
        try:
            viewer.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print()
    return 0
