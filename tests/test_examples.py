"""The examples run: notebooks in a kernel of their own, scripts with fewer steps."""

import importlib.util
import math
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SCRIPTS = {"use_a_policy": 1024, "longer_and_further": 1024, "from_stable_baselines": 2048}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A folder to run in, and kernels that use no network, not even their own machine's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    return tmp_path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_makes(path, runs):
    book = nbformat.read(path, 4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    stored = [[kinds(output) for output in cell.outputs] for cell in code]
    kernel = Config({"AsyncKernelManager": {"transport": "ipc", "connection_file": str(runs / "kernel.json")}})
    NotebookClient(
        book, config=kernel, timeout=900, startup_timeout=900, resources={"metadata": {"path": str(runs)}}
    ).execute()
    for cell, wanted in zip(code, stored):
        shown = [kinds(output) for output in cell.outputs]
        assert len(shown) >= len(wanted) and all(map(set.issuperset, shown, wanted)), cell.source
    assert sum(bool(wanted) for wanted in stored) > len(code) // 2
    assert list((runs / "runs").glob("*/*/config.yaml"))


def kinds(output) -> set[str]:
    """What an output is, without its numbers: its type and the forms its data comes in."""
    return {output.output_type, *output.get("data", {})}


def test_there_are_notebooks_and_no_other_scripts():
    assert len(NOTEBOOKS) == 3 and {path.stem for path in EXAMPLES.glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name, runs, capsys):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = script.main(SCRIPTS[name])
    said = capsys.readouterr().out
    if name == "use_a_policy":
        assert len(made) == 3 and all(math.isfinite(value) and value >= 8 for value in made) and "policy.npz" in said
    elif name == "longer_and_further":
        assert made.results["steps"] == [2048, 1024] and made.differing["learning_rate"] == [0.003, 1e-4]
    else:
        assert made.config.num_envs == 8 and made.config.minibatch == 256 and os.path.isdir(made.path)
