"""Reading files that may come from a stranger. Every file of a run, study, log or configuration is read through here.

What holds for every reader:

- A path is a path. Characters such as `[`, `*`, `?` and `~` have no meaning, and only regular files are opened, so a
  pipe or a device cannot block or flood a command.
- Nothing is executed, imported or unpickled.
- Work and memory are bounded before they are spent: by the size of the file, by the depth and the number of values
  of YAML and JSON, by the number of rows of a table, by the unpacked size of a member of an archive.
- A file that cannot be read raises `UnreadableFile`, one line that names the file and the problem. A damaged line of
  a log or a damaged shard of a table costs that part only; `report` says so.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import lzma
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import yaml

from trimtab.core.errors import UnreadableFile, UserError, one_line
from trimtab.core.writing import BLANK, DIGEST, IN_PARQUET, IN_SAFETENSORS, MARK, json_digest, place_of_digest

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

T = TypeVar("T")
MB = 1_000_000
MOST_TEXT = 16 * MB  # bytes of a YAML or JSON file
MOST_BINARY = 16_000 * MB  # bytes of a file of arrays, such as a checkpoint
MOST_LOG = 4_000 * MB  # bytes of a file of JSON lines or CSV
MOST_LINE = 1 * MB  # bytes of one line of a log
MOST_ROWS = 50_000_000  # rows of one table
MOST_CELLS = 1_000_000_000  # rows times columns of one table
MOST_RATIO = 50  # bytes that a byte of an archive of arrays may unpack to; weights hardly compress at all
MOST_NODES = 200_000  # values of a YAML file, aliases expanded
MOST_DEPTH = 64  # nesting of YAML and JSON
UNPARSABLE = (ValueError, OverflowError, RecursionError, yaml.YAMLError)


# Damage that costs only a part ------------------------------------------------------------------------------

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)
_reported: set[str] = set()


def report(problem: str) -> None:
    """Say, once, that part of a file is damaged and was skipped: to `collect_problems` if active, else to stderr."""
    collected = _collected.get()
    if collected is not None:
        if problem not in collected:
            collected.append(problem)
    elif problem not in _reported:
        _reported.add(problem)
        print(f"trimtab: {problem}", file=sys.stderr)


@contextmanager
def collect_problems() -> Iterator[list[str]]:
    """Collect reported problems in a list instead of printing them. Each thread collects its own."""
    problems: list[str] = []
    token = _collected.set(problems)
    try:
        yield problems
    finally:
        _collected.reset(token)


@contextmanager
def interpreting(path: Path) -> Iterator[None]:
    """Turn what fails while values of a file are used as they should be into UnreadableFile: they are not as written.

    For values that have no reader of their own type. `KeyError: 'rows'` of a result without rows becomes one line.
    """
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        problem = f"{type(error).__name__}: {one_line(error)}"[:200]
        raise UnreadableFile(f"{path} cannot be used: damaged, or of another version ({problem})") from error


# Bytes and text ---------------------------------------------------------------------------------------------


@contextmanager
def open_regular(path: Path, most: int = MOST_BINARY) -> Iterator[BinaryIO]:
    """A regular file opened for reading; anything else, or one of more than `most` bytes, raises UnreadableFile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or one_line(error)
        raise UnreadableFile(f"{path} cannot be read: {reason}") from None
    status = os.fstat(descriptor)
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "not a regular file"
    elif status.st_size > most:
        problem = f"{status.st_size / MB:,.0f} MB is more than the limit of {most / MB:,.0f} MB"
    if problem:
        os.close(descriptor)
        raise UnreadableFile(f"{path} cannot be read: {problem}")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_bytes(path: Path, most: int = MOST_BINARY) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with open_regular(path, most) as file:
        try:
            return file.read(most + 1)[:most]
        except (OSError, MemoryError) as error:
            raise UnreadableFile(f"{path} cannot be read: {one_line(error)}") from None


def sha256_of(path: Path, most: int = MOST_BINARY) -> str:
    """The SHA-256 of a regular file of at most `most` bytes, read in parts."""
    digest = hashlib.sha256()
    with open_regular(path, most) as file:
        while part := file.read(MB):
            digest.update(part)
    return digest.hexdigest()


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """The content of a UTF-8 text file."""
    try:
        return read_bytes(path, most).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} cannot be read: not UTF-8 text") from None


# JSON -------------------------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """A JSON value; raises ValueError for anything else, nesting deeper than Python's limit included."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _read_json(path: Path, most: int = MOST_TEXT) -> Any:
    """The value of a JSON file."""
    try:
        return parse_json(read_text(path, most))
    except ValueError as error:
        raise UnreadableFile(f"{path} cannot be read: not JSON ({one_line(error)})") from None


def read_json_object(path: Path, most: int = MOST_TEXT) -> dict[str, Any]:
    """The object of a JSON file; one that carries a digest of itself is held to it."""
    value = _read_json(path, most)
    if not isinstance(value, dict):
        raise UnreadableFile(f"{path} cannot be read: not a JSON object")
    if DIGEST in value and value.pop(DIGEST) != json_digest(value):
        raise UnreadableFile(f"{path} cannot be read: damaged (its checksum does not match)")
    return value


def read_json_lines(path: Path, accept: Callable[[Any], T | None], most: int = MOST_LOG) -> list[T]:
    """The rows of a file of JSON lines; an empty list where there is no file.

    A last line without a newline is one that is still being written, and is left out. Any other line that is not JSON,
    or that `accept` turns into None or refuses with a ValueError, is skipped; the number of skipped lines is reported.
    """
    if not path.exists():
        return []
    rows: list[T] = []
    skipped: list[int] = []
    with open_regular(path, most) as file:
        for number, line in enumerate(_lines(file), 1):
            row = None
            if line is not None:
                with suppress(ValueError):
                    row = accept(parse_json(line))
            if row is None:
                skipped.append(number)
            else:
                rows.append(row)
    if skipped:
        report(_skipped(path, skipped, len(rows)))
    return rows


def read_last_json_line(path: Path, accept: Callable[[Any], T | None], most: int = MOST_LOG) -> T | None:
    """The last row of a file of JSON lines that `read_json_lines` would accept, read from the end; None without one."""
    if not path.exists():
        return None
    rest = b""  # the beginning of a line whose end was read
    with open_regular(path, most) as file:
        end = file.seek(0, os.SEEK_END)
        finished = False  # a last line without a newline is still being written
        while end > 0:
            begin = max(0, end - MB)
            file.seek(begin)
            *lines, last = (file.read(end - begin) + rest).split(b"\n")
            if not finished:
                finished, last = bool(lines), b""
            rest, lines = (lines[0], [*lines[1:], last]) if lines else (last, [])
            if begin == 0:
                lines = [rest, *lines] if finished else []
            for line in reversed(lines):
                with suppress(ValueError):
                    if len(line) < MOST_LINE and line and (row := accept(parse_json(line))) is not None:
                        return row
            rest = rest[-2 * MOST_LINE :]  # of a line without an end, only so much is held
            end = begin
    return None


def _lines(file: BinaryIO, unfinished: bool = False) -> Iterator[bytes | None]:
    """Every finished line, and an `unfinished` last one; None in place of one that is longer than MOST_LINE."""
    while line := file.readline(MOST_LINE):
        if line.endswith(b"\n") or (unfinished and len(line) < MOST_LINE):
            yield line
            continue
        rest = line  # never held whole
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MOST_LINE)
        if rest:
            yield None


# CSV --------------------------------------------------------------------------------------------------------


def read_csv_rows(path: Path, accept: Callable[[dict[str, str]], T | None], most: int = MOST_LOG) -> list[T]:
    """The rows of a CSV file whose first line, after comments with `#`, names the columns.

    A last line without a newline is one that is still being written, and is left out where it cannot be accepted. Any
    other line that is not UTF-8, has more or fewer fields, or that `accept` turns into None or refuses with a
    ValueError, is skipped; the number of skipped lines is reported.
    """
    names: list[str] | None = None
    rows: list[T] = []
    skipped: list[int] = []
    with open_regular(path, most) as file:
        for number, line in enumerate(_lines(file, unfinished=True), 1):
            row = None
            with suppress(ValueError, OverflowError, csv.Error):  # ValueError: bytes that are not UTF-8 too
                text = (line or b"\xff").decode().rstrip("\r\n")
                if names is None and text.startswith("#"):
                    continue
                fields = next(csv.reader([text], strict=True), [])
                if names is None:
                    names = fields
                    continue
                row = accept(dict(zip(names, fields, strict=True)))
            if row is not None:
                rows.append(row)
            elif line is None or line.endswith(b"\n"):
                skipped.append(number)
    if skipped:
        report(_skipped(path, skipped, len(rows)))
    return rows


def _skipped(path: Path, lines: list[int], readable: int) -> str:
    where = f"line {lines[0]}" if len(lines) == 1 else f"{len(lines)} lines, the first is line {lines[0]}"
    return f"{path}: {where} damaged and skipped; {readable:,} lines can be read"


# YAML -------------------------------------------------------------------------------------------------------

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_Loader):
    """Refuses a key that is given twice in one mapping; keys that a merge (`<<`) brings may be given again."""

    def construct_mapping(self, node, deep=False):
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise yaml.YAMLError(f"{key.value} is given twice")
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


class _WithoutObjects(_Loader):
    """Reads tags of Python objects, which other libraries write, as None; nothing is imported or called."""


_WithoutObjects.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


def parse_yaml(text: str, python_tags: bool = False) -> Any:
    """The value of a YAML document.

    Args:
        text: the document.
        python_tags: read tagged Python objects as None (files of other libraries); otherwise they are refused.

    Returns:
        Plain values. Raises yaml.YAMLError, on one line, for text that is not YAML, that gives a key twice, or
        that is nested deeper than MOST_DEPTH or expands to more than MOST_NODES values.
    """
    try:
        _refuse_expansion(text)
        return yaml.load(text, _WithoutObjects if python_tags else _UniqueKeys)
    except yaml.YAMLError as error:
        raise yaml.YAMLError(one_line(error)) from None
    except (
        *UNPARSABLE,
        TypeError,
        LookupError,
        AttributeError,
    ) as error:  # no such date, a mapping as a key, a lone sign
        raise yaml.YAMLError(one_line(error)) from None


def _refuse_expansion(text: str) -> None:
    """Count values from parser events, which need no recursion; an alias counts as all that its anchor holds."""
    sizes: dict[str, int] = {}  # by anchor
    opened: list[tuple[str | None, int]] = []  # anchors of the collections around, and the count where each began
    count = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.events.CollectionStartEvent):
            opened.append((event.anchor, count))
            count += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.events.AliasEvent):
            count += sizes.get(event.anchor or "", MOST_NODES)  # one that holds itself has no size yet
        elif isinstance(event, yaml.events.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if len(opened) > MOST_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {MOST_DEPTH} levels")
        if count > MOST_NODES:
            raise yaml.YAMLError(f"expands to more than {MOST_NODES:,} values")


def read_yaml(path: Path, most: int = MOST_TEXT, python_tags: bool = False) -> Any:
    """The value of a YAML file, with the limits of `parse_yaml`."""
    try:
        return parse_yaml(read_text(path, most), python_tags)
    except yaml.YAMLError as error:
        raise UnreadableFile(f"{path} cannot be read: not YAML ({error})") from None


def read_yaml_mapping(path: Path, most: int = MOST_TEXT, python_tags: bool = False) -> dict[str, Any]:
    """The fields of a YAML file, by name."""
    values = read_yaml(path, most, python_tags)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UnreadableFile(f"{path} cannot be read: it holds no fields such as 'num_envs: 8'")
    return values


# Tables and arrays ------------------------------------------------------------------------------------------


def read_parquet(path: Path, schema: dict[str, Any] | None = None, optional: Collection[str] = ()) -> pl.DataFrame:
    """A Parquet table as a polars frame.

    Args:
        path: the file, never a pattern.
        schema: columns that the table must have, and their types; other columns are left out.
        optional: names in the schema that the table may lack; they are filled with nulls.

    Returns:
        The frame. A table with more rows or cells than MOST_ROWS and MOST_CELLS is refused from its footer.
    """
    import polars as pl

    with open_regular(path) as file:
        try:
            rows = pl.scan_parquet(file).select(pl.len()).collect().item()
            file.seek(0)
            names = pl.read_parquet_schema(file)
            if rows > MOST_ROWS or rows * len(names) > MOST_CELLS:
                raise UnreadableFile(f"{path} cannot be read: {rows:,} rows of {len(names)} columns are too many")
            _refuse_damaged_table(file, path)
            file.seek(0)
            if schema is None:
                return pl.read_parquet(file, n_rows=rows)
            missing = [name for name in optional if name not in names]
            frame = pl.read_parquet(file, columns=[name for name in schema if name not in missing], n_rows=rows)
            nulls = [pl.lit(None).alias(name) for name in missing]
            return frame.with_columns(nulls).select(list(schema)).cast(schema)  # type: ignore[arg-type]
        except (pl.exceptions.PolarsError, OSError, ValueError, TypeError, MemoryError) as error:
            raise UnreadableFile(f"{path} cannot be read: not such a table ({one_line(error)[:200]})") from None
        except pl.exceptions.PanicException as error:  # polars's own bugs on damaged files; not an Exception
            raise UnreadableFile(f"{path} cannot be read: damaged table ({one_line(error)[:200]})") from None


def _refuse_damaged_table(file: BinaryIO, path: Path) -> None:
    """Hold a Parquet file to the digest in its footer, if it has one: flipped bits would be read as other numbers."""
    end = file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    begin = max(0, end - min(length, MOST_TEXT))
    file.seek(begin)
    footer = file.read(end - begin)
    at = place_of_digest(footer, IN_PARQUET)
    if at is None and MARK.encode() not in footer:
        return  # of an earlier version, or another program's
    if at is None:
        raise UnreadableFile(f"{path} cannot be read: damaged table (its checksum is damaged)")
    at += begin
    file.seek(0)
    digest = hashlib.sha256()
    while (left := at - file.tell()) > 0 and (part := file.read(min(left, MB))):
        digest.update(part)
    stored = file.read(len(BLANK))
    digest.update(BLANK.encode())
    while part := file.read(MB):
        digest.update(part)
    if digest.hexdigest().encode() != stored:
        raise UnreadableFile(f"{path} cannot be read: damaged table (its checksum does not match)")


def read_parquet_shards(paths: list[Path], schema: dict[str, Any], optional: Collection[str] = ()) -> pl.DataFrame:
    """The rows of several Parquet tables of one schema; a damaged table is reported and left out."""
    import polars as pl

    frames = [pl.DataFrame(schema=schema)]
    for path in paths:
        try:
            frames.append(read_parquet(path, schema, optional))
        except UnreadableFile as error:
            report(f"{error}; it is left out")
    return pl.concat(frames)


def parse_safetensors(data: bytes, path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file whose bytes are at hand."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)
    except (SafetensorError, *UNPARSABLE, KeyError, TypeError, MemoryError) as error:
        raise UnreadableFile(f"{path} cannot be read: damaged arrays ({one_line(error)})") from None


def read_safetensors(path: Path, most: int = MOST_BINARY) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; one that carries a digest of itself is held to it."""
    data = read_bytes(path, most)
    header = data[: int.from_bytes(data[:8], "little") + 8][:MOST_TEXT]
    at = place_of_digest(header, IN_SAFETENSORS)
    if at is not None:
        end = at + len(BLANK)
        digest = hashlib.sha256(data[:at] + BLANK.encode() + data[end:]).hexdigest()
        if digest.encode() != data[at:end]:
            raise UnreadableFile(f"{path} cannot be read: damaged arrays (its checksum does not match)")
    return parse_safetensors(data, path)


# Archives ---------------------------------------------------------------------------------------------------


def read_zip_member(path: Path, name: str, most: int = MOST_TEXT) -> bytes | None:
    """The unpacked bytes of one member of a zip archive, None where it has none of that name.

    Raises UnreadableFile for a file that is no archive, and for a member that unpacks to more than `most` bytes, or
    than MOST_TEXT and MOST_RATIO times the archive's size, whatever the archive says its size is.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = _member(file, path, name, min(most, max(MOST_TEXT, MOST_RATIO * size)))
    return data


def _member(file: BinaryIO, path: Path, name: str, most: int) -> bytes | None:
    try:
        with zipfile.ZipFile(file) as archive:
            if name not in archive.namelist():
                return None
            with archive.open(name) as member:
                data = member.read(most + 1)
    except (*_BAD_ARCHIVE, OSError, ValueError) as error:
        raise UnreadableFile(f"{path} cannot be read: not a zip archive ({one_line(error)})") from None
    if len(data) > most:
        raise UnreadableFile(f"{path} cannot be read: {name} unpacks to more than {most / MB:,.0f} MB")
    return data


_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, MemoryError)


def read_npz(path: Path, name: str, most: int = MOST_BINARY) -> np.ndarray | None:
    """One array of a NumPy archive (.npz), None where it has none of that name. Pickled objects are refused."""
    import numpy as np

    data = read_zip_member(path, f"{name}.npy", most)
    if data is None:
        return None
    try:
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except (*UNPARSABLE, EOFError, MemoryError, SyntaxError, TypeError) as error:
        raise UnreadableFile(f"{path} cannot be read: {name} is no array ({one_line(error)})") from None


def read_npz_arrays(path: Path, most: int = MOST_BINARY) -> dict[str, np.ndarray]:
    """All arrays of a NumPy archive (.npz), by name."""
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        except (*_BAD_ARCHIVE, OSError, ValueError) as error:
            raise UnreadableFile(f"{path} cannot be read: not a NumPy archive ({one_line(error)})") from None
    arrays = {name: read_npz(path, name, most) for name in dict.fromkeys(names)}
    return {name: array for name, array in arrays.items() if array is not None}
