"""The doctor on logs that Stable-Baselines3 and skrl wrote: healthy runs, and runs with one thing wrong."""

from pathlib import Path

import pytest

import trimtab

LOGS = Path(__file__).parent / "real_logs"
SIZES = {"n_envs": 4, "n_steps": 1024, "batch_size": 64, "n_epochs": 10, "gamma": 0.9, "gae_lambda": 0.95}


def findings(name, told=None):
    return {f.check: f for f in trimtab.diagnose(LOGS / name, told).findings}


def pressing(found):
    return [f for f in found.values() if f.verdict in ("act", "watch")]


@pytest.mark.parametrize(("name", "told"), [("sb3-healthy.csv", SIZES), ("skrl-healthy.tfevents", {"num_envs": 4})])
def test_a_healthy_run_is_left_alone(name, told):
    """RL Zoo's Pendulum clips 27% of its samples, and learns."""
    found = findings(name, told)
    assert found["learning"].verdict == "fine" and found["learning"].lo > -1000
    assert "act" not in {f.verdict for f in found.values()}
    solved = findings(name, told | {"env_id": "Pendulum-v1"})
    assert solved["goal"].verdict == "solved" and not pressing(solved)


@pytest.mark.parametrize("told", [None, SIZES, SIZES | {"env_id": "Pendulum-v1"}])
def test_thirty_times_the_learning_rate_is_named_first(told):
    found = findings("sb3-learning_rate-x30.csv", told)
    first = pressing(found)[0]
    assert (first.check, first.verdict, first.moves) == ("learning rate", "act", "lower learning_rate")
    assert {"learning", "clipping", "policy loss"} <= {f.check for f in pressing(found) if f.verdict == "act"}
    assert not any("raise learning_rate" in f.advice for f in found.values())


def test_a_learning_rate_that_skrl_does_not_log_is_found_by_the_policy_loss():
    found = findings("skrl-learning_rate-x30.tfevents")
    assert [f.moves for f in pressing(found)[:2]] == ["lower learning_rate"] * 2
    assert found["policy loss"].value > 0.01 and found["learning"].verdict == "act"


def test_a_hundred_times_the_value_coefficient_is_named_first():
    found = findings("sb3-vf_coef-x100.csv", SIZES | {"vf_coef": 50.0})
    assert pressing(found)[0].moves == "lower vf_coef" and "counts 50 times" in found["value coefficient"].seen
