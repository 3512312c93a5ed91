"""What a run takes on disk, from its configuration alone."""

import json

from trimtab import cli
from trimtab.training import resource_estimates


def test_large_checkpoints_are_fewer_and_small_ones_are_twenty():
    assert resource_estimates.default_checkpoint_count(110_000) == 20
    size = 43_500_000
    count = resource_estimates.default_checkpoint_count(size)
    assert count == 10 and (count + 1) * size <= resource_estimates.MOST_CHECKPOINT_BYTES
    assert resource_estimates.default_checkpoint_count(10**12) == resource_estimates.FEWEST_CHECKPOINTS


def test_a_plan_says_what_the_run_will_take(capsys):
    found = {}
    for env_id in ("CartPole-v1", "Pong-v5"):
        assert cli.main(["plan", env_id, "--preset", "none", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        found[env_id] = next(f for f in findings if f["check"] == "disk")
    assert found["CartPole-v1"]["verdict"] == "fine" and "20 checkpoints" in found["CartPole-v1"]["seen"]
    assert found["Pong-v5"]["verdict"] == "note" and "11 checkpoints" in found["Pong-v5"]["seen"]
    assert found["Pong-v5"]["value"] <= resource_estimates.MOST_CHECKPOINT_BYTES
