"""Other libraries, one file each: their options, their logs, their networks and their words.

A file in this folder defines one `LIBRARY`; the registry finds it. Everything that other code asks of a library is a
field of `Library` (common/library.py), so adding one touches its file and its test.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from trimtab.libraries.common.library import Library


def _found() -> dict[str, Library]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__) if not module.ispkg)
    return {module.LIBRARY.name: module.LIBRARY for module in modules}


LIBRARIES = _found()
