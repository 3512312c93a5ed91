"""Full, read-only and slow disks, and clocks that jump: one line, nothing lost, and the same numbers after a resume."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fuzz.kills import KINDS, Reference, _differs, _text, forked, recorded, train
from benchmarks.fuzz.ledger import Cases, Tally

LARGE = 64_000_000  # bytes


@contextmanager
def disk(place: Path, size: int) -> Iterator[bool]:
    """A file system of its own where this is allowed; otherwise a directory. Says which."""
    place.mkdir()
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)


def _mount(*words: str) -> bool:
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


def run(cases: Cases, tally: Tally) -> None:
    """Train on a bad disk or with a bad clock, then resume on a good one, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        reference = Reference(root)
        for case, rng in cases:
            kind = rng.choice(list(KINDS))
            trial = rng.choice((_full, _limited, _read_only, _slow, _jumping))
            error = root / "error"
            error.unlink(missing_ok=True)
            place = root / case.replace(":", "-")
            with disk(place, rng.randrange(20_000, 300_000) if trial is _full else LARGE) as mounted:
                if trial in (_full, _read_only) and not mounted:
                    continue
                path = place / "run"
                wrong = trial(kind, path, rng, error)
                code = forked(lambda kind=kind, path=path: train(kind, path), report=error)
                if code:
                    wrong = wrong or f"{kind} does not resume ({code}): {_text(error)[-400:]}"
                elif difference := _differs(reference.recorded[kind], recorded(path, root)):
                    wrong = wrong or f"{kind} differs in {difference}"
                if wrong:
                    tally.problem(case, f"{trial.__name__[1:]}: {wrong}")
                tally.counts[
                    {
                        "_full": "full disks",
                        "_limited": "files that may not grow",
                        "_read_only": "read-only disks",
                        "_slow": "slow disks",
                        "_jumping": "jumping clocks",
                    }[trial.__name__]
                ] += 1


def _one_line(code: int, error: Path) -> str:
    """What is wrong with how training ended; an OSError is what the command line shows in one line."""
    text = _text(error).strip()
    last = text.splitlines()[-1] if text else ""
    expected = ("OSError", "PermissionError", "trimtab.core.errors", "polars.exceptions.ComputeError")
    return "" if code == 0 or last.startswith(expected) else f"ends with {code}: {last[:300]}"


def _full(kind: str, path: Path, rng: random.Random, error: Path) -> str:
    code = forked(lambda: train(kind, path), report=error)
    wrong = _one_line(code, error)
    _mount("-o", f"remount,size={LARGE}", str(path.parent))
    return wrong


def _limited(kind: str, path: Path, rng: random.Random, error: Path) -> str:
    """No file may become larger than some bytes: a write ends in the middle of its data."""
    limit = rng.randrange(500, 20_000)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            train(kind, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    return _one_line(forked(work, report=error), error)


def _read_only(kind: str, path: Path, rng: random.Random, error: Path) -> str:
    """A part of the training, then a disk that only reads, then one that writes again."""
    forked(lambda: train(kind, path), rng.uniform(0.5, 3), error)
    error.unlink(missing_ok=True)
    _mount("-o", "remount,ro", str(path.parent))
    code = forked(lambda: train(kind, path), report=error)
    wrong = _one_line(code, error)
    _mount("-o", "remount,rw", str(path.parent))
    return wrong


def _slow(kind: str, path: Path, rng: random.Random, error: Path) -> str:
    def work() -> None:
        synced, replaced = os.fsync, os.replace
        os.fsync = lambda descriptor: (time.sleep(rng.random() * 0.1), synced(descriptor))[1]
        os.replace = lambda *paths: (time.sleep(rng.random() * 0.1), replaced(*paths))[1]  # type: ignore[assignment]
        train(kind, path)

    return _one_line(forked(work, report=error), error)


def _jumping(kind: str, path: Path, rng: random.Random, error: Path) -> str:
    """The clock goes back and forth by years while it trains."""

    def work() -> None:
        now: Callable[[], float] = time.time
        time.time = lambda: max(0.0, now() + rng.uniform(-1e9, 1e9))
        train(kind, path)

    shutil.rmtree(path, ignore_errors=True)
    return _one_line(forked(work, report=error), error)
