"""Ways to damage a file: bytes of any file, and values of files whose structure is known."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable
from typing import Any

import yaml

Damage = Callable[[bytes, random.Random], bytes]
WORDS = (
    b"\0",
    b"\xff\xfe",
    b"\n",
    b"\r\n",
    b"{",
    b"]",
    b'"',
    b"NaN",
    b"-1",
    b"1e999",
    b"null",
    b"&a [*a]",
    b"../",
    b"%00",
)
NUMBERS = ("9" * 400, "-0", "1e308", "1e-320", "Infinity", "-Infinity", "NaN", "0x10", "1_000", "٣", "1,5", "00")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**80, -(2**80), 1e308, float("inf"), float("nan")),
    *("", "x", "x" * 3000, "\0", "\ud800", "../../outside", "evil:Env", "7", "nan", "\x1b[31m", "<script>", "[*?~]"),
    *([], {}, [[]], [1, "a"], {"a": 1}, [None] * 50, {"value": {}}, ["x"] * 3),
)


# Bytes -----------------------------------------------------------------------------------------------------


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    """A part of the file: short ones are as likely as long ones."""
    begin = _place(data, rng)
    return begin, min(len(data), begin + int(2 ** rng.uniform(0, 12)))


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\1"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(2, 40)):
        data = flip_bit(data, rng)
    return data


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: _place(data, rng)]


def cut_front(data: bytes, rng: random.Random) -> bytes:
    return data[_place(data, rng) :]


def delete(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:begin] + data[end:]


def repeat(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:end] + data[begin:end] * rng.randrange(1, 4) + data[end:]


def move(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    part, rest = data[begin:end], data[:begin] + data[end:]
    at = _place(rest, rng)
    return rest[:at] + part + rest[at:]


def blank(data: bytes, rng: random.Random) -> bytes:
    """A block of zeros, as a file system may leave it after a crash."""
    begin, end = _span(data, rng)
    return data[:begin] + bytes(end - begin) + data[end:]


def insert(data: bytes, rng: random.Random) -> bytes:
    at = _place(data, rng)
    part = rng.choice(WORDS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 200))
    return data[:at] + part + data[at:]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    begin, end = _span(data, rng)
    return data[:begin] + rng.randbytes(end - begin) + data[end:]


def append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"junk", b"\n", data[: _place(data, rng)], rng.randbytes(30), bytes(5000)))


def replace_all(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"", b"\n", b"{}", b"[]", b"null", b"[" * 5000, rng.randbytes(500), b"\xff" * 100, bytes(500)))


def change_number(data: bytes, rng: random.Random) -> bytes:
    """Another number in place of a digit of a text."""
    digits = [k for k, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return insert(data, rng)
    at = rng.choice(digits)
    return data[:at] + rng.choice(NUMBERS).encode() + data[at + 1 :]


BYTES: tuple[Damage, ...] = (
    *(flip_bit, flip_bits, cut, cut_front, delete, repeat, move),
    *(blank, insert, overwrite, append, replace_all),
)


# Values ----------------------------------------------------------------------------------------------------


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [below for key, inner in items for below in ((*path, key), *_places(inner, (*path, key)))]


def change_value(value: Any, rng: random.Random) -> Any:
    """A copy of plain values in which some are removed, renamed, exchanged for others or wrapped."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        places = _places(value)
        if not places:
            return copy.deepcopy(rng.choice(VALUES))
        *above, last = rng.choice(places)
        inside = value
        for key in above:
            inside = inside[key]
        how = rng.choice(("value", "value", "value", "remove", "wrap", "rename", "swap"))
        if how == "remove":
            del inside[last]
        elif how == "wrap":
            inside[last] = rng.choice(([inside[last]], {"value": inside[last]}, str(inside[last])))
        elif how == "rename" and isinstance(inside, dict):
            inside[rng.choice((f"{last}_", "", "schema", "seed", "x"))] = inside.pop(last)
        elif how == "swap" and len(inside) > 1:
            other = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            inside[last], inside[other] = inside[other], inside[last]
        else:
            inside[last] = copy.deepcopy(rng.choice(VALUES))
    return value


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def change_json(data: bytes, rng: random.Random) -> bytes:
    value = _parsed(data)
    return flip_bit(data, rng) if value is None else _dumped(change_value(value, rng)) + b"\n"


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode(errors="surrogatepass")


def change_line(data: bytes, rng: random.Random) -> bytes:
    """A log of JSON lines with some lines changed, removed, repeated or exchanged."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    how = rng.choice(("value", "value", "bytes", "remove", "repeat", "swap"))
    if how == "value" and (value := _parsed(lines[at])) is not None:
        lines[at] = _dumped(change_value(value, rng))
    elif how == "bytes":
        lines[at] = rng.choice(BYTES)(lines[at], rng)
    elif how == "remove":
        del lines[at]
    elif how == "repeat":
        lines.insert(at, lines[at])
    else:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def change_yaml(data: bytes, rng: random.Random) -> bytes:
    try:
        value = yaml.safe_load(data)
    except yaml.YAMLError:
        return flip_bit(data, rng)
    return yaml.safe_dump(change_value(value, rng), sort_keys=False).encode(errors="surrogatepass")


def change_cell(data: bytes, rng: random.Random) -> bytes:
    """A table of text with one cell changed."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(b",")
    cells[rng.randrange(len(cells))] = rng.choice((*WORDS, b"", b"x", b'"', *map(str.encode, NUMBERS)))
    lines[at] = b",".join(cells)
    return b"\n".join(lines)


def change_table(data: bytes, rng: random.Random) -> bytes:
    """A Parquet table with other columns, types or values, which is whole in itself."""
    import polars as pl

    frame = pl.read_parquet(io.BytesIO(data))
    name = rng.choice(frame.columns)
    changes: tuple[Callable[[], Any], ...] = (
        lambda: frame.drop(name),
        lambda: frame.rename({name: f"{name} "}),
        lambda: frame.with_columns(pl.col(name).cast(pl.String)),
        lambda: frame.with_columns(pl.lit(None).alias(name)),
        lambda: frame.with_columns(pl.lit(rng.choice((-1, 2**62, -(2**62)))).alias(name)),
        lambda: frame.with_columns(pl.lit(rng.choice((1e308, float("nan"), float("inf")))).alias(name)),
        lambda: frame.with_columns(pl.lit([1, 2]).alias(name)),
        lambda: frame.head(0),
        lambda: frame.with_columns(pl.lit("x").alias("extra")),
        lambda: pl.concat([frame] * 3),
    )
    out = io.BytesIO()
    rng.choice(changes)().write_parquet(out)
    return out.getvalue()


def change_header(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file with other types, shapes or places of its arrays."""
    length = int.from_bytes(data[:8], "little")
    header = _dumped(change_value(json.loads(data[8 : 8 + length]), rng))
    return len(header).to_bytes(8, "little") + header + data[8 + length :]
