"""JAX's persistent cache of compiled programs, with a digest for every entry.

JAX writes an entry under its final name and reads it without a checksum. A kill while it writes, or a flipped bit,
would make every later run of that configuration fail, or compile anew without ever replacing the entry. Here an entry
is written under a temporary name and renamed; one whose digest does not match is removed, and compiled again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from typing import Any

from trimtab.core.writing import write_atomically

DIGEST = 32  # bytes of SHA-256 that every entry begins with


def with_digest(data: bytes) -> bytes:
    """The bytes of an entry: the digest of `data`, then `data`."""
    return hashlib.sha256(data).digest() + data


def without_digest(entry: bytes) -> bytes | None:
    """The data of an entry; None where the digest does not match."""
    digest, data = entry[:DIGEST], entry[DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def check_entries() -> None:
    """Make this process's JAX check the entries of its persistent cache; call before its first computation."""
    try:
        from jax._src import compilation_cache
    except ImportError:  # private, so another version of JAX may lack it
        return
    with suppress(AttributeError):
        compilation_cache.get_file_cache = _file_cache


def _file_cache(path: str) -> tuple[Any, str]:
    """In place of JAX's function of this purpose: the cache in a directory."""
    import jax

    return _checked_cache()(path, max_size=jax.config.jax_compilation_cache_max_size), path  # type: ignore[attr-defined]


@cache
def _checked_cache() -> type:
    from jax._src.lru_cache import LRUCache

    class CheckedCache(LRUCache):
        """JAX's cache whose entries begin with a digest."""

        def get(self, key: str) -> bytes | None:
            entry = super().get(key)
            if entry is None:
                return None
            data = without_digest(entry)
            if data is None:  # damaged, or written without a digest
                (self.path / f"{key}-cache").unlink(missing_ok=True)
            return data

        def put(self, key: str, value: bytes) -> None:
            if self.eviction_enabled:
                super().put(key, with_digest(value))
            else:
                write_atomically(self.path / f"{key}-cache", with_digest(value))

    return CheckedCache
