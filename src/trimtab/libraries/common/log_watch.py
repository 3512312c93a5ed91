"""`trimtab doctor --watch`: judge records again whenever they have grown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

from trimtab.advise.diagnosis import Diagnosis, FolderDiagnosis
from trimtab.core.errors import UserError
from trimtab.libraries.common.foreign_options import Values
from trimtab.libraries.common.log_doctor import DEPTH, diagnose_place

SHARE = 0.1  # of the time that is spent on looking, at most
MOST_FILES = 10_000  # whose sizes are compared; more are ignored

Sizes = dict[str, tuple[int, int]]  # by path: bytes, and when it was last written


def watch_place(
    place: str | PathLike[str],
    hyperparameters: Values | None = None,
    seconds: float = 10.0,
    pause: Callable[[float], None] | None = None,
) -> Iterator[Diagnosis | FolderDiagnosis | str]:
    """Judge whatever is at a path, and again whenever a file of it has changed; ends only from outside.

    Args:
        place: a run of trimtab, a log of another library, or a folder of any of them; it need not have begun.
        hyperparameters: of a log, by their names there.
        seconds: between two looks, at least; more where a look takes longer than a tenth of it.
        pause: waits for a number of seconds, in place of time.sleep.

    Yields:
        A diagnosis for every change, or why there is none yet.
    """
    path, seen, said = Path(place), None, ""
    while True:
        began, sizes = time.monotonic(), _sizes(path)
        if sizes != seen:
            seen = sizes
            try:
                yield diagnose_place(path, hyperparameters)
                said = ""
            except UserError as error:
                if str(error) != said:
                    said = str(error)
                    yield said
        (pause or time.sleep)(max(seconds, (time.monotonic() - began) / SHARE))


def _sizes(path: Path) -> Sizes:
    """Size and time of every file at a path, as deep as runs are looked for."""
    sizes: Sizes = {}
    _add(sizes, path)
    places = [(path, 0)] if path.is_dir() else []
    if not places:
        beside = path.parent
        places = [(beside, DEPTH)] if beside.is_dir() and path.exists() else []
    while places and len(sizes) < MOST_FILES:
        folder, depth = places.pop()
        try:
            children = sorted(os.scandir(folder), key=lambda child: child.name)
        except OSError:
            continue
        for child in children:
            if child.is_dir(follow_symlinks=False):
                places += [(Path(child.path), depth + 1)] if depth < DEPTH else []
            else:
                _add(sizes, Path(child.path))
    return sizes


def _add(sizes: Sizes, file: Path) -> None:
    try:
        about = file.stat()
    except OSError:
        return
    sizes[str(file)] = (about.st_size, about.st_mtime_ns)
