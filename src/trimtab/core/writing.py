"""Writing files whole or not at all, and finding names that are free. The counterpart of `core.reading`."""

from __future__ import annotations

import io
import json
import os
import re
import uuid
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a kill leaves either all of `data` or what was there before.

    Args:
        path: the file; missing parent directories are made.
        data: its new content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value, indented."""
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def write_parquet(path: Path, frame: pl.DataFrame, **metadata: str) -> None:
    """Write a table with key-value metadata in its footer."""
    data = io.BytesIO()
    frame.write_parquet(data, metadata=metadata)
    write_atomically(path, data.getvalue())


def first_free(candidates: Iterable[Path]) -> Path:
    """The first path at which nothing exists."""
    return next(path for path in candidates if not path.exists())


def numbered_path(root: Path, name: str) -> Path:
    """The first free path of root/name-1, root/name-2, ...; characters that file systems may refuse become dashes."""
    words = re.sub(r"[^\w./-]", "-", name)
    return first_free(root / f"{words}-{k}" for k in count(1))
