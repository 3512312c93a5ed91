"""Commands that only look start without JAX."""

import json
import subprocess
import sys

import pytest
import yaml

from trimtab.config import Config
from trimtab.training.records import Manifest, MetricsRow
from trimtab.training.run_dir import RunDir

CHECK = """
import contextlib, io, json, sys
from trimtab import cli
for command in json.loads(sys.argv[1]):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            code = cli.main(command)
    except SystemExit as stop:
        code = stop.code
    assert not code and said.getvalue().strip(), (command, code)
    heavy = [m for m in ("jax", "jaxlib", "equinox", "optax", "gymnax", "envpool", "torch") if m in sys.modules]
    assert not heavy, (command, heavy)
"""
COMMANDS = [
    "--help",
    "--version",
    "train --help",
    "train CartPole-v1 --help",
    "view --help",
    "study list",
    "completion bash",
    "show RUN",
    "show RUN --json",
    "doctor RUN",
    "plan CartPole-v1",
    "translate sb3 n_steps=64",
    "rescale RUN --num-envs 8",
    "envs CartPole",
    "presets",
]


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("light") / "run"
    run = RunDir.create(path, Config(), Manifest(seed=1))
    run.append_metrics([MetricsRow(k, 512 * k, {"rollout/ep_rew_mean": k}) for k in (1, 2)])
    return str(path)


def test_looking_does_not_import_jax(a_run):
    """In one process: what one command imports, the check after it names."""
    commands = [[a_run if word == "RUN" else word for word in command.split()] for command in COMMANDS]
    result = subprocess.run([sys.executable, "-c", CHECK, json.dumps(commands)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_printed_preset_is_yaml_that_validates(capsys):
    from trimtab import cli, presets
    from trimtab.config import from_dict

    for name in presets.names():
        assert cli.main(["presets", name]) == 0
        fields = yaml.safe_load(capsys.readouterr().out)
        config = from_dict(fields)
        assert name.startswith(f"{config.algo}/")
        assert "env_id" not in fields or presets.find(config.env_id, config.algo) == name


ESTIMATE = """
import sys
import numpy as np
import trimtab.anatomy as anatomy
for name in anatomy.__all__:
    getattr(anatomy, name)
gradients = np.random.default_rng(0).normal(size=(9, 4, 3))
assert anatomy.decompose(gradients, num_envs=3).variance.value > 0
assert anatomy.groups(gradients.reshape(-1, 3), np.arange(36) // 4).within.value > 0
heavy = [name for name in ("jax", "jaxlib", "equinox", "polars", "altair", "torch", "gymnasium") if name in sys.modules]
assert not heavy, heavy
"""


def test_the_estimators_do_not_import_jax():
    result = subprocess.run([sys.executable, "-c", ESTIMATE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
