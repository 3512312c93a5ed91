"""The runs and studies under a directory, and which of the runs are being written."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.studies.study_engine import SPEC

INSIDE_A_RUN = ("checkpoints", "episodes", "buffers", "probes", "figures")
DEEPEST = 8  # levels of directories below the root
RACE = (
    2_000_000_000  # ns: a directory that changed so shortly before it was read may change again at the same time stamp
)
RUN = "run"


class Place(NamedTuple):
    """A directory that holds a run or a study: its path below the root, and the kind of study (or `run`)."""

    id: str
    path: Path
    kind: str

    @property
    def is_run(self) -> bool:
        return self.kind == RUN


class FileStamp(NamedTuple):
    """When a file was last written, its size and its inode; zeros where there is no file."""

    time: float = 0.0
    size: int = 0
    inode: int = 0

    @classmethod
    def of(cls, path: Path) -> FileStamp:
        try:
            status = os.stat(path)
        except OSError:
            return cls()
        return cls(status.st_mtime, status.st_size, status.st_ino)


@dataclass(frozen=True)
class _Folder:
    """A directory as it was read: its time stamp, when it was read, its place if it is one, and its directories."""

    changed: int
    read: int
    place: Place | None
    inside: tuple[str, ...]

    def is_current(self, changed: int) -> bool:
        return self.changed == changed and self.read - changed > RACE


class RunTree:
    """The places under `root`. Looking again reads only directories whose time stamp has changed."""

    def __init__(self, root: Path):
        self.root = root
        self.folders_read = 0
        self._folders: dict[str, _Folder] = {}

    def places(self) -> list[Place]:
        """Every run and study, sorted by id. Links are not followed, hidden directories not entered."""
        found = dict(self._walk())
        self._folders = found
        return sorted(folder.place for folder in found.values() if folder.place is not None)

    def _walk(self) -> Iterator[tuple[str, _Folder]]:
        waiting = [(str(self.root), 0)]
        while waiting:
            path, depth = waiting.pop()
            folder = self._folder(path)
            if folder is None:
                continue
            yield path, folder
            if depth < DEEPEST:
                waiting += ((inside, depth + 1) for inside in folder.inside)

    def _folder(self, path: str) -> _Folder | None:
        try:
            changed = os.stat(path).st_mtime_ns
            known = self._folders.get(path)
            return known if known and known.is_current(changed) else self._read(path, changed)
        except OSError:  # removed meanwhile, or not ours to read
            return None

    def _read(self, path: str, changed: int) -> _Folder:
        self.folders_read += 1
        with os.scandir(path) as scan:
            entries = list(scan)
        names = {entry.name for entry in entries}
        inside = tuple(entry.path for entry in entries if _is_entered(entry))
        kind = _kind(path, names)
        place = Place(os.path.relpath(path, self.root), Path(path), kind) if kind else None
        return _Folder(changed, time.time_ns(), place, inside)


def _is_entered(entry: os.DirEntry[str]) -> bool:
    skipped = entry.name.startswith((".", "__")) or entry.name in INSIDE_A_RUN
    return not skipped and entry.is_dir(follow_symlinks=False)


def _kind(folder: str, names: set[str]) -> str | None:
    if {"config.yaml", "manifest.json"} <= names:
        return RUN
    if SPEC not in names:
        return None
    try:
        return str(reading.read_json_object(Path(folder, SPEC))["kind"])
    except (UnreadableFile, KeyError):
        return "study"  # of another version, or damaged


# Links -----------------------------------------------------------------------------------------------------


def leads_inside(root: Path, path: Path) -> bool:
    """Whether a path is not a link, or is one to a place below the root."""
    try:
        return not stat.S_ISLNK(os.lstat(path).st_mode) or path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def link_out(root: Path, run: Path) -> str | None:
    """The name of something in a run that is a link to a place outside of the root; None where there is none."""
    for folder in (run, *(run / name for name in INSIDE_A_RUN)):
        with suppress(OSError), os.scandir(folder) as scan:
            for entry in scan:
                if entry.is_symlink() and not leads_inside(root, Path(entry.path)):
                    return str(Path(entry.path).relative_to(run))
    return None


# Locks -----------------------------------------------------------------------------------------------------


class Locks:
    """The files that processes of this machine hold locked. Looking takes no lock, so it never refuses a writer."""

    def __init__(self) -> None:
        self._held = _held_locks()

    @property
    def are_known(self) -> bool:
        """Whether the kernel tells which locks are held."""
        return self._held is not None

    def hold(self, file: Path, lock: FileStamp) -> bool:
        """Whether a process of this machine is writing the run of a lock file, which has this stamp."""
        if not lock.inode or (self._held is not None and lock.inode not in self._held):
            return False
        try:
            holder = int(reading.read_bytes(file, 64))
            if self._held is not None:
                return holder in self._held[lock.inode]
            os.kill(holder, 0)  # signal 0 only checks that the process exists
        except PermissionError:
            return True  # a process of another user
        except (OSError, ValueError, UnreadableFile):
            return False
        return True


def _held_locks() -> dict[int, set[int]] | None:
    """Processes that hold a lock, by the inode of its file; None where the kernel has no list of them."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    held: dict[int, set[int]] = {}
    for words in (line.split() for line in lines if "FLOCK" in line and "->" not in line):
        try:
            held.setdefault(int(words[5].rsplit(":", 1)[1]), set()).add(int(words[4]))
        except (IndexError, ValueError):
            continue
    return held
