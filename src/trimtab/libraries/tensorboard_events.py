"""TensorBoard's event files, read without TensorBoard.

A file is a row of records (length, its checksum, data, its checksum); each is a protocol buffer `Event`, of which the
step and the values of scalars and texts matter here. A record cut off at the end belongs to a run that still writes.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
EVENT_STEP, EVENT_SUMMARY, SUMMARY_VALUE = 2, 5, 1  # field numbers in event.proto and summary.proto
VALUE_TAG, VALUE_NUMBER, VALUE_TENSOR = 1, 2, 8
TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_STRINGS = 4, 5, 8  # in tensor.proto
TEXT = "/text_summary"  # what TensorBoard's writers append to the name of a text


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
        for event in _records(file.read_bytes()):
            step, summaries = 0, []
            for number, value in _fields(event):
                if number == EVENT_STEP:
                    step = value
                elif number == EVENT_SUMMARY:
                    summaries.append(value)
            for summary in summaries:
                for number, value in _fields(summary):
                    if number == SUMMARY_VALUE:
                        _take(value, step, points, events.texts)
    for tag, pairs in points.items():
        pairs.sort(key=lambda pair: pair[0])
        events.scalars[tag] = np.array([s for s, _ in pairs], np.int64), np.array([v for _, v in pairs], float)
    return events


def _take(value: bytes, step: int, points: dict[str, list[tuple[int, float]]], texts: dict[str, str]) -> None:
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


def _records(data: bytes) -> Iterator[memoryview]:
    view, at = memoryview(data), 0
    while at + 12 <= len(view):
        (length,) = struct.unpack_from("<Q", view, at)
        if at + 16 + length > len(view):
            return
        yield view[at + 12 : at + 12 + length]
        at += 16 + length


def _fields(buffer) -> Iterator[tuple[int, Any]]:
    """Number and value of every field of a protocol buffer: an integer, or bytes that hold a number or a message."""
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


def _varint(buffer, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where the next thing begins."""
    value, shift = 0, 0
    while at < len(buffer):
        byte = buffer[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at
