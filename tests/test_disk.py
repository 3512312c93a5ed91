"""What a run takes on disk, from its configuration alone."""

import json
import math

import pytest

from trimtab import cli
from trimtab.config import Config
from trimtab.runs import disk

CASES = {
    "mlp": ({}, (4,), 2, False),
    "gaussian": ({"hidden_sizes": (32, 16)}, (3,), 1, True),
    "shared": ({"arch": "shared"}, (4,), 2, False),
    "ppg": ({"algo": "ppg"}, (4,), 2, False),
    "no critic": ({"algo": "reinforce", "baseline": False}, (4,), 2, False),
    "impala": ({"network": "impala", "impala_channels": (4, 8), "hidden_sizes": (16,)}, (21, 10, 3), 5, False),
}


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_counted_as_the_networks_have_them(case):
    from trimtab.nets.agent import Agent
    from trimtab.nets.heads import Categorical, Gaussian

    fields, shape, outputs, continuous = CASES[case]
    config = Config(**fields)
    agent = Agent(
        shape,
        "float32",
        Gaussian((-1.0,) * outputs, (1.0,) * outputs) if continuous else Categorical(outputs),
        network=config.network,
        hidden_sizes=config.hidden_sizes,
        impala_channels=config.impala_channels,
        arch=config.arch,
        critic=config.needs_value,
        auxiliary=config.is_ppg,
    )
    layouts = [*agent.policy_layout.values(), *agent.value_layout.values()]
    assert disk.parameters(config, shape, outputs, continuous) == sum(math.prod(shape) for shape in layouts)


def test_large_checkpoints_are_fewer_and_small_ones_are_twenty():
    assert disk.usual_checkpoints(110_000) == 20
    size = 43_500_000
    count = disk.usual_checkpoints(size)
    assert count == 10 and (count + 1) * size <= disk.MOST_BYTES
    assert disk.usual_checkpoints(10**12) == disk.FEWEST


def test_a_plan_says_what_the_run_will_take(capsys):
    found = {}
    for env_id in ("CartPole-v1", "Pong-v5"):
        assert cli.main(["plan", env_id, "--preset", "none", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        found[env_id] = next(f for f in findings if f["check"] == "disk")
        if env_id == "Pong-v5":  # a game's actions are not guessed
            assert next(f for f in findings if f["check"] == "minibatch")["verdict"] == "unknown"
    assert found["CartPole-v1"]["verdict"] == "fine" and "20 checkpoints" in found["CartPole-v1"]["seen"]
    assert found["Pong-v5"]["verdict"] == "note" and "10 checkpoints" in found["Pong-v5"]["seen"]
    assert found["Pong-v5"]["value"] <= 520e6
