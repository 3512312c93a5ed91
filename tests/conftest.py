"""Strict numerics: implicit rank promotion raises, shapes in signatures are checked, compiled programs are kept."""

import gc
import os
import tempfile
from pathlib import Path

# Half the compilation time, for programs that run for milliseconds; also in the processes that tests start.
CHEAP = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}
os.environ.setdefault("XLA_FLAGS", " ".join(f"--{name}={value}" for name, value in CHEAP.items()))
for threads in ("NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # two test processes share two cores
    os.environ.setdefault(threads, "1")
os.environ.setdefault("TRIMTAB_CACHE", os.path.join(tempfile.gettempdir(), "trimtab-test-cache"))

from jaxtyping import install_import_hook  # noqa: E402

_CHECKED = (
    "math.returns",
    "math.objectives",
    "math.ewma",
    "math.normalize",
    "math.minibatch",
    "nets",
    "training.rollout",
)
install_import_hook([f"trimtab.{name}" for name in _CHECKED], "beartype.beartype")

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402
import tiny  # noqa: E402

from trimtab.training import device  # noqa: E402

device.prepare(1)
jax.config.update("jax_numpy_rank_promotion", "raise")
gc.freeze()  # what is imported stays: no need to look through it again and again
gc.set_threshold(20_000, 20, 20)  # tracing makes many objects that are no garbage

# Same examples on every machine: a red test is red for everyone. `--hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=300)
hypothesis.settings.register_profile("search", deadline=None, max_examples=20_000, database=None)
hypothesis.settings.load_profile("fixed")

# The longest files, longest first: started last, one of them would leave the other core idle. The rest follow by name.
LONGEST = (
    *("probe", "runs", "devices", "exact", "executor", "fields", "algos", "nets", "examples", "post", "gradients"),
    *("procgen", "tune", "paper", "noise", "lengths", "ladder", "policy", "page", "split"),
)


def pytest_collection_modifyitems(items):
    place = {f"test_{name}": k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Drop compiled programs between modules once there are many: a process has only so many memory maps."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > 16_000:
        tiny.forget()
        jax.clear_caches()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder of its own to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
