"""TensorBoard's event files, read without TensorBoard.

A file is a row of records (length, its checksum, data, its checksum); each is a protocol buffer `Event`, of which the
step and the values of scalars and texts matter here. A record cut off at the end belongs to a run that still writes.
A record whose checksum does not match is damaged: it is reported and left out, and where its length is damaged so is
all that follows, since no later record can be found.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
EVENT_STEP, EVENT_SUMMARY, SUMMARY_VALUE = 2, 5, 1  # field numbers in event.proto and summary.proto
VALUE_TAG, VALUE_NUMBER, VALUE_TENSOR = 1, 2, 8
TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_STRINGS = 4, 5, 8  # in tensor.proto
TEXT = "/text_summary"  # what TensorBoard's writers append to the name of a text
HEADER, FOOTER = 12, 4  # bytes of a record around its data
LARGEST_STEP = 2**53
CHECKED = 65_536  # bytes of data up to which a checksum is computed: longer records are images and histograms
MANY = 32  # records of one length from which computing by columns is faster
CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, reflected


@dataclass
class Events:
    """Scalars by tag as (steps, values), in the order of steps, and texts by tag."""

    scalars: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def read_events(files: list[Path]) -> Events:
    """Everything that some event files of one run hold; a run that was restarted has several."""
    points: dict[str, list[tuple[int, float]]] = defaultdict(list)
    events = Events()
    for file in sorted(files):
        for event in _records(file):
            step, summaries = 0, []
            for number, value in _fields(event):
                if number == EVENT_STEP and isinstance(value, int):
                    step = value
                elif number == EVENT_SUMMARY and not isinstance(value, int):
                    summaries.append(value)
            if step > LARGEST_STEP:
                continue
            for summary in summaries:
                for number, value in _fields(summary):
                    if number == SUMMARY_VALUE and not isinstance(value, int):
                        with suppress(struct.error, TypeError):  # a field of another type than it is declared as
                            _take(value, step, points, events.texts)
    for tag, pairs in points.items():
        pairs.sort(key=lambda pair: pair[0])
        events.scalars[tag] = np.array([s for s, _ in pairs], np.int64), np.array([v for _, v in pairs], float)
    return events


def _take(value: memoryview, step: int, points: dict[str, list[tuple[int, float]]], texts: dict[str, str]) -> None:
    """One value of a summary, as a point of a scalar or as a text."""
    parts = dict(_fields(value))
    tag = bytes(parts.get(VALUE_TAG, b"")).decode(errors="replace")
    if VALUE_NUMBER in parts:
        points[tag].append((step, struct.unpack("<f", parts[VALUE_NUMBER])[0]))
    elif VALUE_TENSOR in parts:
        tensor = dict(_fields(parts[VALUE_TENSOR]))
        if TENSOR_STRINGS in tensor:
            texts[tag.removesuffix(TEXT)] = bytes(tensor[TENSOR_STRINGS]).decode(errors="replace")
        elif len(number := tensor.get(TENSOR_FLOATS) or tensor.get(TENSOR_CONTENT) or b"") == 4:
            points[tag].append((step, struct.unpack("<f", number)[0]))


# Records ----------------------------------------------------------------------------------------------------


def _records(file: Path) -> list[memoryview]:
    """The data of every whole record of a file whose checksums match."""
    try:
        view = memoryview(reading.read_bytes(file, reading.MOST_LOG))
    except UnreadableFile as error:
        reading.report(f"{error}; it is left out")
        return []
    spans = list(_spans(view))
    headers = _checksums_match(view, [(at, at + 8) for at, _ in spans])
    readable = int(np.argmin(headers)) if not headers.all() else len(spans)  # a wrong length hides what follows
    spans = spans[:readable]
    data = [(at + HEADER, at + HEADER + length) for at, length in spans]
    good = _checksums_match(view, data)
    damaged = int((~good).sum())
    if readable < len(headers):
        reading.report(f"{file}: damaged after {readable:,} records; what follows is left out")
    if damaged:
        reading.report(f"{file}: {damaged} of {len(spans):,} records damaged and left out")
    return [view[begin:end] for (begin, end), holds in zip(data, good) if holds]


def _spans(view: memoryview) -> Iterator[tuple[int, int]]:
    """Where each record begins and the length of its data; a record that is cut off is left out."""
    at = 0
    while at + HEADER <= len(view):
        (length,) = struct.unpack_from("<Q", view, at)
        if at + HEADER + length + FOOTER > len(view):
            if at + HEADER + length > 2 * len(view) + reading.MB:  # no record that is being written is so long
                yield at, 0
            return
        yield at, length
        at += HEADER + length + FOOTER


def _checksums_match(view: memoryview, spans: list[tuple[int, int]]) -> np.ndarray:
    """For each span of bytes whether the four bytes after it are its masked CRC-32C; long ones are not checked."""
    lengths = np.array([end - begin for begin, end in spans], int)
    good = np.ones(len(spans), bool)
    for length in np.unique(lengths[lengths <= CHECKED]):
        same = np.flatnonzero(lengths == length)
        begins = np.array([spans[k][0] for k in same])
        crc = _crc_of_many(view, begins, length) if len(same) >= MANY else _crc_of_few(view, begins, length)
        masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)
        ends = begins + length
        good[same] = masked == np.array([struct.unpack_from("<I", view, end)[0] for end in ends], np.uint32)
    return good


def _crc_of_many(view: memoryview, begins: np.ndarray, length: int) -> np.ndarray:
    """CRC-32C of spans of one length: a byte of all of them at a time."""
    data, table = np.frombuffer(view, np.uint8), _crc_table()
    crc = np.full(len(begins), 0xFFFFFFFF, np.uint32)
    for offset in range(length):
        crc = table[(crc ^ data[begins + offset]) & 0xFF] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


def _crc_of_few(view: memoryview, begins: np.ndarray, length: int) -> np.ndarray:
    """The same, a span at a time."""
    table, all_crc = _crc_table().tolist(), []
    for begin in begins.tolist():
        crc = 0xFFFFFFFF
        for byte in view[begin : begin + length]:
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        all_crc.append(crc ^ 0xFFFFFFFF)
    return np.array(all_crc, np.uint32)


@cache
def _crc_table() -> np.ndarray:
    """CRC-32C of every byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(CASTAGNOLI), table >> np.uint32(1))
    return table


# Protocol buffers -------------------------------------------------------------------------------------------


def _fields(buffer: Any) -> Iterator[tuple[int, Any]]:
    """Number and value of every field of a protocol buffer: an integer, or bytes that hold a number or a message."""
    if isinstance(buffer, int):
        return
    at = 0
    while at < len(buffer):
        key, at = _varint(buffer, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(buffer, at)
        else:
            if wire == BYTES:
                size, at = _varint(buffer, at)
            elif wire in (FIXED64, FIXED32):
                size = 8 if wire == FIXED64 else 4
            else:
                return  # groups, which nobody writes
            value, at = buffer[at : at + size], at + size
        yield number, value


def _varint(buffer: Any, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, at most ten of them, the lowest first, and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(buffer):
            break
        byte = buffer[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            break
    return value, at
