"""Settings far outside what is used: each rule on both sides of its threshold, before and during a run."""

import numpy as np
import pytest

from trimtab import presets
from trimtab.advise.diagnosis import find
from trimtab.advise.evidence import Action, Evidence, Length
from trimtab.advise.rules import RULES, observe
from trimtab.config import Config, from_dict

SETTINGS = [rule for rule in RULES if rule.topic == "settings"]
TWO, BODY = Action("discrete", 2), Action("continuous", 6)
RISING = np.linspace(0.0, 100.0, 400)


def found(action=TWO, length=200.0, returns=(), metrics=None, **fields):
    config = from_dict(fields, Config(total_timesteps=100_000))
    evidence = Evidence(config, metrics or {}, 50, np.array(returns), action=action, length=Length(length))
    return {f.check: f for f in find(evidence, observe(evidence, SETTINGS)) if f.verdict != "fine"}


EDGES = [  # inside, outside, and what is advised
    ("learning rate", dict(learning_rate=6e-3), dict(learning_rate=6.1e-3), "lower learning_rate"),
    ("learning rate", dict(learning_rate=2e-5), dict(learning_rate=1.9e-5), "raise learning_rate"),
    ("clip range", dict(clip_coef=0.5), dict(clip_coef=0.51), "lower clip_coef"),
    ("epochs", dict(update_epochs=30), dict(update_epochs=31), "lower update_epochs"),
    ("gradient steps", dict(num_minibatches=4, update_epochs=2), dict(num_minibatches=7), "raise num_minibatches"),
    ("value coefficient", dict(vf_coef=10.0), dict(vf_coef=10.1), "lower vf_coef"),
    ("entropy bonus", dict(ent_coef=0.2), dict(ent_coef=0.21), "lower ent_coef"),
    ("entropy bonus", dict(ent_coef=0.1, action=BODY), dict(ent_coef=0.11, action=BODY), "lower ent_coef"),
    ("short horizon", dict(gamma=0.8), dict(gamma=0.79), "raise gamma"),
    ("short horizon", dict(gamma=0.5, length=4.0), dict(gamma=0.5, length=5.0), "raise gamma"),
    ("long reach", dict(gamma=1.0), dict(gamma=1.0, gae_lambda=1.0), "lower gae_lambda"),
    ("short rollouts", dict(num_steps=8, num_envs=64), dict(num_steps=7, num_envs=64), "raise num_steps"),
    ("short rollouts", dict(num_steps=4, gae_lambda=0.8), dict(num_steps=2, num_envs=64), "raise num_steps"),
    ("initial width", dict(action=BODY, log_std_init=-3.0), dict(action=BODY, log_std_init=-3.1), "raise log_std_init"),
]


@pytest.mark.parametrize(("check", "inside", "outside", "moves"), EDGES)
def test_thresholds_and_advice(check, inside, outside, moves):
    if check == "gradient steps":
        outside = dict(num_minibatches=1, update_epochs=7)
    assert check not in found(**inside)
    finding = found(**outside)[check]
    assert (finding.verdict, finding.moves) == ("act", moves) and finding.change


def test_raw_advantages_are_held_against_their_scale():
    large, unit = ({"train/adv_std": np.full(50, value)} for value in (40.0, 1.0))
    assert found(norm_adv="none", metrics=large)["raw advantages"].change == {"norm_adv": "batch"}
    assert "raw advantages" not in found(norm_adv="none", metrics=unit)
    assert "raw advantages" not in found(metrics=large)
    losses = {"train/value_loss": np.full(50, 1e4)}  # of a library that records no advantages
    assert "about 1e+02" in found(norm_adv="none", metrics=losses)["raw advantages"].seen


def test_an_unusual_setting_that_works_is_no_reason_to_act():
    assert found(vf_coef=50.0)["value coefficient"].verdict == "act"
    assert found(vf_coef=50.0, returns=RISING)["value coefficient"].verdict == "watch"


def test_few_gradient_steps_are_no_reason_for_more_while_most_updates_are_clipped():
    clipped = {"train/clip_fraction": np.full(50, 0.6)}
    assert "gradient steps" not in found(num_minibatches=1, metrics=clipped)
    assert found(num_minibatches=1)["gradient steps"].change == {"num_minibatches": 4}


def test_no_preset_has_an_unusual_setting():
    for name in presets.names():
        config = from_dict(presets.load(name))
        kind = "continuous" if config.log_std_init else "discrete"
        evidence = Evidence(config, action=Action(kind, 2), length=Length(1000.0, is_limit=True))
        acts = [rule.name for rule, seen in observe(evidence, SETTINGS) if seen.verdict == "act"]
        assert acts == [], (name, acts)
