"""Strict numerics: implicit rank promotion raises, shapes in signatures are checked, compiled programs are kept."""

import os
import tempfile

os.environ.setdefault("NPROC", "1")
os.environ.setdefault("TRIMTAB_CACHE", os.path.join(tempfile.gettempdir(), "trimtab-test-cache"))

from jaxtyping import install_import_hook

_CHECKED = ("returns", "objectives", "ewma", "normalize", "minibatch", "nets", "algos.rollout")
install_import_hook([f"trimtab.{name}" for name in _CHECKED], "beartype.beartype")

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

from trimtab.runs import device  # noqa: E402

device.prepare(1)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Same examples on every machine: a red test is red for everyone. `--hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=300)
hypothesis.settings.register_profile("search", deadline=None, max_examples=20_000, database=None)
hypothesis.settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Drop a module's programs after it: one process that keeps hundreds of them runs out of memory maps."""
    yield
    jax.clear_caches()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder of its own to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
