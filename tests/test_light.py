"""Commands that only look start without JAX."""

import subprocess
import sys

import pytest
import yaml

from trimtab.config import Config
from trimtab.runs.records import RunDir

CHECK = """
import sys
from trimtab import cli
try:
    code = cli.main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
assert not code, code
heavy = sorted(m for m in ("jax", "jaxlib", "equinox", "optax", "gymnax", "envpool", "torch") if m in sys.modules)
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("light") / "run"
    run = RunDir.create(path, Config().as_dict(), {"seed": 1})
    run.append_metrics([{"iteration": k, "time/total_timesteps": 512 * k, "rollout/ep_rew_mean": k} for k in (1, 2)])
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "train --help",
        "train CartPole-v1 --help",
        "view --help",
        "completion bash",
        "show RUN",
        "show RUN --json",
        "doctor RUN",
        "plan CartPole-v1",
        "translate sb3 n_steps=64",
        "envs CartPole",
        "presets",
    ],
)
def test_looking_does_not_import_jax(command, a_run):
    arguments = [a_run if word == "RUN" else word for word in command.split()]
    result = subprocess.run([sys.executable, "-c", CHECK, *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_a_printed_preset_is_yaml_that_validates(capsys):
    from trimtab import cli, presets
    from trimtab.config import from_dict

    for name in presets.names():
        assert cli.main(["presets", name]) == 0
        config = from_dict(yaml.safe_load(capsys.readouterr().out))
        assert name == f"{config.algo}/{config.env_id}" or "procgen" in name
