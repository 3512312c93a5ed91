"""Rules of thumb about sizes, on both sides of their thresholds."""

import pytest

from trimtab.advise import remedies
from trimtab.advise.diagnosis import find
from trimtab.advise.evidence import Action, Evidence, Length
from trimtab.advise.rules import RULES, observe
from trimtab.config import Config

TWO, BODY = Action("discrete", 2), Action("continuous", 6)


def found(action=TWO, episode_length=200.0, **fields):
    length = Length(episode_length) if isinstance(episode_length, float) else episode_length
    evidence = Evidence(Config(**fields), action=action, length=length)
    return {f.check: f for f in find(evidence, observe(evidence, [rule for rule in RULES if rule.reads == "sizes"]))}


def test_an_ordinary_configuration_is_fine():
    assert {f.verdict for f in found().values()} == {"fine"}


CASES = {
    "few gradient steps": (dict(num_minibatches=2), "gradient steps", {"num_minibatches": 4}),
    "a single environment": (dict(num_envs=1), "mixture", {"num_envs": 8}),
    "a small batch for a body": (dict(action=BODY, num_envs=4, num_steps=128), "batch", {"num_envs": 16}),
    "a short rollout": (dict(num_envs=64, num_steps=8), "rollout", {"num_steps": 32}),
    "a short horizon": (dict(episode_length=1000.0, gamma=0.95), "discount", {"gamma": 0.998}),
    "a long horizon": (dict(episode_length=40.0, gamma=0.999), "discount", {"gamma": 0.95}),
    "many passes without a ratio": (dict(algo="reinforce", update_epochs=4), "passes", {"update_epochs": 1}),
    "few episodes for REINFORCE": (dict(algo="reinforce", num_steps=500), "episodes", {"num_envs": 8}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_rule_says_what_to_change(case):
    fields, check, change = CASES[case]
    finding = found(**fields)[check]
    assert finding.verdict == "watch" and set(finding.change) == set(change)
    if check == "discount":  # a rung of the ladder whose horizon is a quarter to all of an episode
        horizon = 1 / (1 - finding.change["gamma"])
        assert 0.25 * fields["episode_length"] <= horizon <= 1.001 * fields["episode_length"]
    else:
        assert finding.change == change


EDGES = [  # on either side of every threshold
    ("mixture", dict(num_envs=2), dict(num_envs=1)),
    ("gradient steps", dict(num_minibatches=4, update_epochs=2), dict(num_minibatches=2)),
    ("gradient steps", dict(num_minibatches=1, update_epochs=16), dict(num_minibatches=1, update_epochs=15)),
    ("passes", dict(algo="reinforce", update_epochs=2), dict(algo="reinforce", update_epochs=3)),
    ("rollout", dict(num_steps=17, num_envs=16), dict(num_steps=16, num_envs=16)),  # 1/(1-γλ) = 16.8
    ("batch", dict(action=BODY, num_envs=8, num_steps=250), dict(action=BODY, num_envs=8, num_steps=249)),
    ("batch", dict(action=BODY, num_envs=8, num_steps=1250), dict(action=BODY, num_envs=8, num_steps=1251)),
    ("batch", dict(algo="reinforce", num_steps=500), dict(algo="reinforce", num_steps=499)),  # x 4
    ("batch", dict(algo="reinforce", num_steps=2000), dict(algo="reinforce", num_steps=2001)),
    ("batch", dict(algo="reinforce", num_steps=1250, action=BODY), dict(algo="reinforce", num_steps=1249, action=BODY)),
    ("batch", dict(algo="reinforce", num_steps=5000, action=BODY), dict(algo="reinforce", num_steps=5001, action=BODY)),
    ("episodes", dict(algo="reinforce", num_steps=800), dict(algo="reinforce", num_steps=799)),  # of 200 steps
    ("discount", dict(gamma=0.9605), dict(gamma=0.9595)),  # half of a quarter of 200 steps: 25
    ("discount", dict(gamma=0.9974), dict(gamma=0.9976)),  # twice 200
]


@pytest.mark.parametrize(("check", "inside", "outside"), EDGES)
def test_thresholds_lie_where_the_notes_put_them(check, inside, outside):
    sizes = {"num_minibatches": 1} | ({} if check != "gradient steps" else {"num_steps": 128})
    assert found(**sizes | inside)[check].verdict == "fine"
    assert found(**sizes | outside)[check].verdict == "watch"


def test_a_discount_is_told_which_way_to_go():
    assert "raise gamma" in found(gamma=0.9, episode_length=1000.0)["discount"].advice
    assert "lower gamma" in found(gamma=0.999, episode_length=20.0)["discount"].advice


def test_a_limit_says_only_how_long_episodes_are_at_most():
    limit = Length(27_000, is_limit=True)
    short = found(gamma=0.99, episode_length=limit)["discount"]
    assert short.verdict == "fine" and "at most 27,000" in short.seen
    assert found(gamma=0.999, episode_length=Length(20, is_limit=True))["discount"].verdict == "watch"
    few = found(algo="reinforce", episode_length=limit)["episodes"]
    assert few.verdict == "note" and few.seen.startswith("at least") and not few.change


def test_a_minibatch_of_fewer_samples_than_the_notes_ask_for_is_noted_not_corrected():
    """At the same learning rate smaller ones learn faster in our own study (docs/results/notes-minibatch.md)."""
    many = Action("discrete", 18)
    small = found(action=many, num_envs=8, num_steps=128, num_minibatches=16)["minibatch"]
    assert small.verdict == "note" and small.change == {} and "ask for 180" in small.advice
    assert (
        found(action=Action("discrete", 6), num_envs=8, num_steps=128, num_minibatches=16)["minibatch"].verdict
        == "fine"
    )


def test_what_is_not_known_is_not_judged():
    unknown = found(action=None, episode_length=None)
    assert unknown["minibatch"].verdict == unknown["discount"].verdict == "unknown"
    assert "batch" not in unknown


def test_ladders_go_up_and_down_and_beyond_their_ends():
    rates = remedies.LEARNING_RATES
    assert remedies.below(3e-4, rates) == 1e-4 and remedies._above(3e-4, rates) == 1e-3
    assert remedies.below(2e-4, rates) == 1e-4 and remedies._above(2e-4, rates) == 3e-4
    assert remedies.around(0.99, remedies.GAMMAS) == (0.98, 0.99, 0.995)
    assert remedies.around(0.999, remedies.GAMMAS) == (0.995, 0.999)
    assert remedies.below(1e-5, rates) == pytest.approx(3.3e-6) and remedies._above(0.01, rates) == pytest.approx(0.03)
