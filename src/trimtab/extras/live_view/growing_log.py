"""A log that grows, read in bounded work: rows at places that stay where they are, and the last one.

A run of a million steps has megabytes of metrics, and a directory has hundreds of runs. A curve on a screen needs a few
hundred points of one, a table the last row of each. Rows are read at multiples of a stride in bytes; when the log has
outgrown them, the stride doubles and every other one is kept. Looking again reads only what is new.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile

LEAST_STRIDE = 128  # bytes; rows are longer, so a short log is read whole
TAIL = 16_384  # bytes at the end in which the last row must lie
LINE = 4_096  # bytes that hold a row, mostly


class Log:
    """About `most` rows of a file of JSON lines, spread over it, and its last; `only` some of their keys, or all.

    A row that `accept` turns into None is passed over, like one that is not JSON.
    """

    def __init__(
        self,
        path: Path,
        most: int,
        only: tuple[str, ...] | None = None,
        accept: Callable[[Any], dict[str, Any] | None] = lambda row: row if isinstance(row, dict) else None,
    ):
        self.path, self.most, self.only, self.accept = path, most, only, accept
        self.bytes_read = 0
        self._forget()

    def _forget(self) -> None:
        self.stride, self.reached = LEAST_STRIDE, 0
        self.rows: dict[int, dict[str, Any]] = {}  # by the byte their line begins at
        self.last: dict[str, Any] | None = None
        self._last_line: tuple[int, bytes] = (0, b"")

    def refresh(self) -> None:
        """Look again. A log that was cut back (a resume does that) is read anew."""
        try:
            with reading.open_regular(self.path, reading.MOST_LOG) as file:
                size = file.seek(0, 2)
                if size < self.reached or not self._as_before(file):
                    self._forget()
                if size > self.reached:
                    self._extend(file, size)
        except (OSError, UnreadableFile):
            self._forget()

    def curve(self) -> list[dict[str, Any]]:
        """The rows that are held, in order, and the last."""
        rows = [self.rows[at] for at in sorted(self.rows)]
        return rows if self.last is None or (rows and rows[-1] == self.last) else [*rows, self.last]

    def _as_before(self, file: BinaryIO) -> bool:
        """Whether the last line seen still stands where it stood."""
        at, line = self._last_line
        file.seek(at)
        return self._read(file, len(line)) == line

    def _extend(self, file: BinaryIO, size: int) -> None:
        if self.most:
            self._widen(size)
            beyond = max(self.rows, default=-1)
            for place in range(0 if beyond < 0 else beyond - beyond % self.stride, size, self.stride):
                if place > beyond and (placed_row := self._row_from(file, place, size)):
                    beyond, self.rows[placed_row[0]] = placed_row[0], placed_row[1]
        self._read_last(file, size)
        self.reached = size

    def _widen(self, size: int) -> None:
        """Double the stride until few enough places are left, and keep the first row after each of them."""
        before = self.stride
        while size // self.stride > self.most:
            self.stride *= 2
        if self.stride > before:
            first_after: dict[int, int] = {}
            for at in sorted(self.rows):
                first_after.setdefault(at // self.stride, at)  # the place before a row is the one it answers
            self.rows = {at: self.rows[at] for at in first_after.values()}

    def _row_from(self, file: BinaryIO, place: int, size: int) -> tuple[int, dict[str, Any]] | None:
        """The first whole row that begins at or after a place: where it begins, and what it says."""
        begin = max(place - 1, 0)  # the byte before tells whether a line begins here
        file.seek(begin)
        text = self._read(file, LINE)
        skipped = 0 if place == 0 else text.find(b"\n") + 1
        if place and not skipped:
            return None
        line, end, _ = text[skipped:].partition(b"\n")
        if not end and begin + len(text) < size:  # longer than expected
            line, end, _ = (line + self._read(file, TAIL)).partition(b"\n")
        row = self._parsed(line) if end else None
        return None if row is None else (begin + skipped, row)

    def _read_last(self, file: BinaryIO, size: int) -> None:
        for length in (LINE, TAIL):
            begin = max(0, size - length)
            file.seek(begin)
            before, newline, _ = self._read(file, length).rpartition(b"\n")
            line = before[before.rfind(b"\n") + 1 :]
            whole = newline and (len(line) < len(before) or begin == 0)
            if whole and (row := self._parsed(line)) is not None:
                self.last, self._last_line = row, (begin + len(before) - len(line), line)
                return

    def _read(self, file: BinaryIO, count: int) -> bytes:
        data = file.read(count)
        self.bytes_read += len(data)
        return data

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            row = self.accept(json.loads(line, parse_constant=lambda _: None))  # what is not finite is left blank
        except (ValueError, RecursionError):
            return None
        if row is None:
            return None
        # One string for a key in all rows of all runs.
        return {sys.intern(name): value for name, value in row.items() if self.only is None or name in self.only}
