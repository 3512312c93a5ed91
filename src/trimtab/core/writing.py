"""Writing files whole or not at all, and finding names that are free. The counterpart of `core.reading`."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a kill or a full disk leaves either all of `data` or what was there before.

    Args:
        path: the file; missing parent directories are made.
        data: its new content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value, indented."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


# Files that carry a digest of themselves, which `core.reading` checks ----------------------------------------

DIGEST = "sha256_of_file"  # the entry of a JSON object, or of the metadata of a Parquet table
MARK = "has_digest"  # in a Parquet table too: damage to the name of the digest must not make it one without
BLANK = "0" * 64  # in the place of the digest while it is computed
IN_PARQUET, IN_SAFETENSORS = 2, 3  # bytes between the name of the digest and the digest


def place_of_digest(part: bytes, gap: int) -> int | None:
    """Where the last digest of a part of a file begins: `gap` bytes after its name; None where it has none."""
    at = part.rfind(DIGEST.encode())
    return None if at < 0 else at + len(DIGEST) + gap


def _with_digest(data: bytes, at: int | None) -> bytes:
    """A file with its digest in the place of the zeros at `at`."""
    if at is None or data[at : at + len(BLANK)] != BLANK.encode():
        return data
    return data[:at] + hashlib.sha256(data).hexdigest().encode() + data[at + len(BLANK) :]


def json_digest(value: Mapping[str, Any]) -> str:
    """The digest of the other entries of a JSON object, whatever the layout of the file."""
    others = {name: item for name, item in value.items() if name != DIGEST}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def write_json_with_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object that nobody edits by hand, with a digest of its entries."""
    plain = json.loads(json.dumps(value))
    write_json(path, plain | {DIGEST: json_digest(plain)})


def write_parquet(path: Path, frame: pl.DataFrame, **metadata: str) -> None:
    """Write a table with key-value metadata in its footer, among it the digest of the file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={**metadata, MARK: "yes", DIGEST: BLANK})
    data = buffer.getvalue()
    write_atomically(path, _with_digest(data, place_of_digest(data, IN_PARQUET)))


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, with the digest of the file in their header."""
    data = serialized(tensors, {DIGEST: BLANK})
    length = int.from_bytes(data[:8], "little") + 8
    write_atomically(path, _with_digest(data, place_of_digest(data[:length], IN_SAFETENSORS)))


def serialized(tensors: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The safetensors form of arrays by name."""
    import numpy as np
    from safetensors.numpy import save

    return save({name: np.asarray(value, order="C") for name, value in tensors.items()}, metadata)


def first_free(candidates: Iterable[Path]) -> Path:
    """The first path at which nothing exists."""
    return next(path for path in candidates if not path.exists())


def numbered_path(root: Path, name: str) -> Path:
    """The first free path of root/name-1, root/name-2, ...; characters that file systems may refuse become dashes."""
    words = re.sub(r"[^\w./-]", "-", name)
    return first_free(root / f"{words}-{k}" for k in count(1))
