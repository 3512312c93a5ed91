"""What a command answers to a program (`--json`): one JSON value, alone on standard output."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import UnsupportedOperation
from typing import Any, TextIO

from trimtab.core.json_values import to_json

_reserved: TextIO | None = None  # standard output, while it is for the answer alone


def print_json(value: Any) -> None:
    """The answer. JSON knows no infinity and no NaN: such numbers become text."""
    print(json.dumps(_finite(to_json(value)), allow_nan=False), file=_reserved or sys.stdout, flush=True)


@contextmanager
def alone() -> Iterator[None]:
    """Keep standard output for `print_json`: whatever else is printed, also by environments, goes to standard error."""
    global _reserved
    outside = _reserved
    try:
        _reserved = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    except (UnsupportedOperation, OSError):  # as in a notebook: nothing below Python writes to it
        _reserved = sys.stdout
    own = _reserved is not sys.stdout
    if own:
        sys.stdout.flush()
        shown = sys.stdout.fileno()
        os.dup2(2, shown)  # what compiled code and child processes print
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if own:
            os.dup2(_reserved.fileno(), shown)
            _reserved.close()
        _reserved = outside


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
