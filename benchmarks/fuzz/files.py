"""Damaged files of every type: read in this process, and by commands started as a user starts them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.fuzz.damage import flip_bit
from benchmarks.fuzz.ledger import ROOT, Cases, Tally
from benchmarks.fuzz.readings import (
    SUBJECTS,
    Subject,
    Wrong,
    answers_as_undamaged,
    bounded,
    command,
    prepare,
    without_training,
)
from trimtab.core import reading
from trimtab.core.errors import UserError

COMMANDS = 10  # one in so many damaged files of runs is also given to a command in this process
BY_COMMANDS = [subject for subject in SUBJECTS if subject.commands]
KINDS = ("directory", "dangling link", "loop", "pipe", "device", "missing")  # in place of a file


class Place:
    """The corpus on disk and what is read of it undamaged."""

    def __init__(self, root: Path):
        self.root = prepare(root)
        self.files = {s.name: next(iter(root.glob(s.file))) for s in SUBJECTS}
        self.bytes = {name: file.read_bytes() for name, file in self.files.items()}
        with reading.collect_problems():
            self.whole = {subject.name: subject.read(root) for subject in SUBJECTS}

    def restore(self, subject: Subject) -> None:
        """Put the undamaged file back; readings may have written beside it."""
        file = self.files[subject.name]
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
        file.write_bytes(self.bytes[subject.name])


def damaged(data: bytes, subject: Subject, rng: random.Random) -> bytes:
    """The file after one kind of damage, sometimes two."""
    after = rng.choice(subject.damages)(data, rng)
    if rng.random() < 0.15 and len(subject.damages) > 1:
        try:
            return rng.choice(subject.damages)(after, rng)
        except (ValueError, RecursionError, KeyError, TypeError):  # it has no structure any more
            return flip_bit(after, rng)
    return after


def put(file: Path, kind: str) -> None:
    """Something that is no regular file in place of a file."""
    file.unlink()
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind != "missing":
        file.symlink_to({"dangling link": "nowhere", "loop": file.name, "device": "/dev/zero"}[kind])


def run(cases: Cases, tally: Tally) -> None:
    """Read damaged files in this process; every answer is a one-line error or what undamaged parts give."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder, without_training():
        place = Place(Path(folder))
        for case, rng in cases:
            subject = rng.choice(SUBJECTS)
            try:
                _read(place, subject, rng, tally)
            except UserError as error:
                tally.counts["one-line errors"] += 1
                if "\n" in str(error):
                    tally.problem(case, f"{subject.name}: an error of several lines: {error}")
            except Wrong as error:
                tally.problem(case, f"{subject.name}: {error}")
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                lines = traceback.format_exc().strip().splitlines()
                where = [line.strip() for line in lines if "/trimtab/" in line][-2:]
                tally.problem(case, f"{subject.name}: {type(error).__name__}: {str(error)[:200]} at {'; '.join(where)}")
            finally:
                place.restore(subject)
            tally.counts["damaged files"] += 1
            tally.counts[f"of {subject.name.partition(',')[0]}"] += 1


def _read(place: Place, subject: Subject, rng: random.Random, tally: Tally) -> None:
    file, before = place.files[subject.name], place.bytes[subject.name]
    after = before
    if rng.random() < 0.02:
        put(file, rng.choice(KINDS))
    else:
        after = damaged(before, subject, rng)
        file.write_bytes(after)
    with reading.collect_problems(), bounded():
        if subject.commands and rng.randrange(COMMANDS) == 0:
            words = rng.choice(subject.commands)
            tally.counts["given to a command in process"] += 1
            if subject.file.startswith("run/"):
                answers_as_undamaged(place.root, words)
            else:
                command(place.root, words)
            return
        found: Any = subject.read(place.root)
        if file.is_file() and (wrong := subject.check(before, after, place.whole[subject.name], found)):
            raise Wrong(wrong)
        tally.counts["read in part or whole"] += 1


# Through the command line ----------------------------------------------------------------------------------


def run_commands(cases: Cases, tally: Tally) -> None:
    """Start commands on damaged files: code 0, or code 2 and one line; no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "corpus")
        for case, rng in cases:
            subject = rng.choice(BY_COMMANDS)
            file, before = place.files[subject.name], place.bytes[subject.name]
            if rng.random() < 0.05:
                put(file, rng.choice(KINDS))
            else:
                file.write_bytes(damaged(before, subject, rng))
            words = rng.choice((*subject.commands, *_more(subject)))
            if wrong := _start(place.root, words):
                tally.problem(case, f"{subject.name}: trimtab {' '.join(words)}: {wrong}")
            tally.counts["commands on damaged files"] += 1
            place.restore(subject)
            for made in ("run/page.html", "doctor.html", "exported"):
                with suppress(OSError):
                    (place.root / made).unlink()


def _more(subject: Subject) -> tuple[tuple[str, ...], ...]:
    """Commands that print for people or write pages, beside those whose answers are compared."""
    if subject.file.startswith("run/"):
        return ("show", "run"), ("doctor", "run"), ("compare", "run", "other"), ("rescale", "run", "--num-envs", "8")
    return ()


def _start(root: Path, words: tuple[str, ...]) -> str:
    """What is wrong with how a command ends; empty where nothing is."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", *words], cwd=root, capture_output=True, env=environment, timeout=240
        )
    except subprocess.TimeoutExpired:
        return "no answer within 240 s"
    text = (done.stdout + done.stderr).decode(errors="replace")
    if "Traceback" in text or done.returncode not in (0, 2):
        return f"ends with {done.returncode}: {text[-300:]}"
    lines = done.stderr.decode(errors="replace").splitlines()
    return f"no one-line error: {lines[-3:]}" if done.returncode == 2 and not lines else ""
