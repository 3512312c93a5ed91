"""Cached programs carry digests: a damaged one is made again, and the next process finds the new one."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.training import compilation_cache, program_cache

DAMAGES = {
    "first byte": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "middle": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :],
    "last byte": lambda data: data[:-1] + bytes([data[-1] ^ 128]),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "junk after": lambda data: data + b"junk",
    "without digest": lambda data: data[compilation_cache.DIGEST :],
}
# Prints how many programs JAX compiled and how many it found, after computing the same thing as always.
PROGRAM = """
import jax, warnings
warnings.simplefilter("error")
from trimtab.training import device
device.prepare(1)
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name.rpartition("/")[2]))
assert float(jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.arange(5.0))) != 0
print(events.count("cache_misses"), events.count("cache_hits"))
"""


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_traced_program_is_traced_again(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    traced = []

    def result() -> np.ndarray:
        def function(x):  # JAX itself remembers what it traced of one and the same function
            traced.append(1)
            return x * 2.0 + 1.0

        return np.asarray(program_cache.exported("double", (1,), function, (jnp.arange(3.0),))(jnp.arange(3.0)))

    np.testing.assert_array_equal(result(), [1, 3, 5])
    (file,) = (tmp_path / "programs").iterdir()
    whole = file.read_bytes()
    result()
    assert len(traced) == 1
    file.write_bytes(DAMAGES[damage](whole))
    np.testing.assert_array_equal(result(), [1, 3, 5])
    assert len(traced) == 2
    result()
    assert len(traced) == 2 and compilation_cache.without_digest(file.read_bytes()) is not None


def test_damaged_entries_of_jaxs_cache_are_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))

    def counts() -> tuple[int, ...]:
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        return tuple(map(int, done.stdout.split()))

    compiled, found = counts()
    assert compiled > 0 and found == 0
    files = sorted((tmp_path / "jax").glob("*-cache"))
    assert len(files) == compiled and counts() == (0, compiled)
    for file, damage in zip(files, list(DAMAGES.values()) * len(files)):
        file.write_bytes(damage(file.read_bytes()))
    assert counts() == (compiled, 0)
    assert counts() == (0, compiled)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_removed_and_can_be_written_again(damage, tmp_path):
    cache, _ = compilation_cache._file_cache(str(tmp_path))
    cache.put("key", b"program")
    (file,) = tmp_path.iterdir()
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert cache.get("key") is None and not list(tmp_path.iterdir())
    cache.put("key", b"program")
    assert cache.get("key") == b"program"
