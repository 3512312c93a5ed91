"""What there is under a directory: runs and studies, and which of the runs are being written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trimtab.studies.study_engine import SPEC
from trimtab.training.records import RunDir

INSIDE_A_RUN = ("checkpoints", "episodes", "buffers", "probes")
DEEPEST = 8


class Place(NamedTuple):
    """A directory that is a run or a study: its path below the root, and what it is."""

    id: str
    path: Path
    kind: str  # run, or that of the study: split, tune, seeds, post/split, ...


def places(root: Path) -> list[Place]:
    """Every run and study under `root`, by name; links are not followed, hidden directories not entered."""
    return sorted(_places(root, root, 0))


def _places(root: Path, folder: Path, depth: int) -> Iterator[Place]:
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:  # gone, or not ours to read
        return
    names = {entry.name for entry in entries}
    kind = _kind(folder, names)
    if kind:
        yield Place(folder.relative_to(root).as_posix(), folder, kind)
    if depth == DEEPEST:
        return
    for entry in entries:
        hidden = entry.name.startswith((".", "__")) or entry.name in INSIDE_A_RUN
        if not hidden and entry.is_dir(follow_symlinks=False):
            yield from _places(root, Path(entry.path), depth + 1)


def _kind(folder: Path, names: set[str]) -> str | None:
    if {"config.yaml", "manifest.json"} <= names:
        return "run"
    if SPEC not in names:
        return None
    try:
        return str(json.loads((folder / SPEC).read_text())["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return "study"  # of another version, or not whole


def locks() -> set[tuple[int, int]] | None:
    """(process, inode) of every file held by a lock on this machine; None where that cannot be known.

    Read from the kernel's own list: trying a lock would, for a moment, refuse the writer.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    held = set()
    for words in (line.split() for line in lines if "FLOCK" in line and "->" not in line):
        try:
            held.add((int(words[4]), int(words[5].rsplit(":", 1)[1])))
        except (IndexError, ValueError):
            continue
    return held


def is_held(run: RunDir, held: set[tuple[int, int]] | None) -> bool:
    """Whether a process on this machine is writing a run."""
    try:
        holder = int(run.lock.read_text())
        if held is not None:
            return (holder, run.lock.stat().st_ino) in held
        os.kill(holder, 0)  # only asks whether it exists
    except PermissionError:
        return True  # somebody else's process
    except (OSError, ValueError):
        return False
    return True
