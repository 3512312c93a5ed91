"""What the doctor says of records made up for the purpose: each rule on both sides of its threshold."""

import numpy as np
import pytest

from trimtab.advise.evidence import Evidence
from trimtab.advise.finding import ordered
from trimtab.advise.record_rules import check_signs, swing
from trimtab.advise.size_rules import Action, Length, check_sizes
from trimtab.config import Config, from_dict

ITERATIONS = 40
NOISE = np.random.default_rng(0)


def healthy(**changes):
    """A run of 40 iterations that no rule has anything against."""
    config = Config(total_timesteps=512 * ITERATIONS, **changes.pop("config", {}))
    level = lambda value: np.full(ITERATIONS, value)
    metrics = {
        "train/clip_fraction": level(0.05),
        "train/grad_norm": level(0.4),
        "train/adv_std": level(2.0),
        "train/explained_variance": level(0.8),
        "train/importance_ess": level(0.99),
        "train/entropy_loss": level(-0.5),
    }
    rising = np.linspace(10, 100, 400) + NOISE.normal(0, 5, 400)
    given = {"returns": rising, "steps": 4 * np.arange(400), "action": Action("discrete", 2)} | changes
    return Evidence(config, metrics | given.pop("metrics", {}), given.pop("iterations", ITERATIONS), **given)


def verdicts(seen):
    return {finding.check: finding for finding in check_signs(seen)}


def of(values):
    return {f"train/{name}": np.broadcast_to(np.asarray(value, float), ITERATIONS) for name, value in values.items()}


def test_nothing_is_held_against_a_healthy_run():
    assert {finding.verdict for finding in check_signs(healthy())} == {"fine"}


FAULTS = {
    "clip too often, several epochs": (dict(metrics=of({"clip_fraction": 0.21})), "clipping", "act", "learning_rate"),
    "clip too often, one epoch": (
        dict(metrics=of({"clip_fraction": 0.11}), config={"update_epochs": 1}),
        "clipping",
        "act",
        "learning_rate",
    ),
    "hardly ever clip": (dict(metrics=of({"clip_fraction": 0.001})), "clipping", "watch", "learning_rate"),
    "a gradient spike": (
        dict(metrics=of({"grad_norm": np.where(np.arange(ITERATIONS) == 20, 9.0, 0.4)}), config={"max_grad_norm": 2.0}),
        "gradient",
        "watch",
        "max_grad_norm",
    ),
    "a drowned policy": (dict(metrics=of({"grad_norm": 40.0})), "gradient", "watch", "norm_reward"),
    "advantages that swing": (
        dict(metrics=of({"adv_std": np.where(np.arange(ITERATIONS) % 2, 0.1, 2.0)})),
        "advantages",
        "watch",
        "norm_adv",
    ),
    "a poor critic": (dict(metrics=of({"explained_variance": 0.1})), "critic", "watch", "adam_beta2"),
    "a useless critic": (dict(metrics=of({"explained_variance": -0.1})), "critic", "act", "norm_reward"),
    "stale data": (
        dict(metrics=of({"importance_ess": 0.3}), config={"staleness": 4}),
        "importance",
        "act",
        "learning_rate",
    ),
    "a policy that stopped exploring": (dict(metrics=of({"entropy_loss": -0.01})), "entropy", "watch", "ent_coef"),
    "nothing learned": (dict(returns=NOISE.normal(0, 1, 400)), "learning", "act", "learning_rate"),
    "unlearning": (dict(returns=np.linspace(100, 10, 400)), "learning", "act", "learning_rate"),
    "a late fall": (
        dict(returns=np.concatenate([np.linspace(0, 100, 300), np.linspace(100, 60, 100)])),
        "lasting",
        "watch",
        "anneal_lr",
    ),
    "wild swings": (
        dict(returns=np.repeat(np.tile([10.0, 100.0], 20), 10) + np.linspace(0, 40, 400) + NOISE.normal(0, 5, 400)),
        "swings",
        "watch",
        "num_envs",
    ),
    "a batch learned by heart": (
        dict(metrics=of({"value_loss": np.geomspace(10, 0.1, ITERATIONS)}), evaluations=NOISE.normal(50, 1, 8)),
        "overfitting",
        "watch",
        "update_epochs",
    ),
    "lockstep": (dict(steps=800 * np.repeat(np.arange(100), 4)), "lockstep", "watch", "stagger_resets"),
    "infinite": (dict(not_finite=("policy parameters",), iterations=7), "finite", "act", "learning_rate"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_only_it(fault):
    changes, check, verdict, field = FAULTS[fault]
    found = verdicts(healthy(**changes))
    assert found[check].verdict == verdict and field in found[check].change
    config = healthy(**changes).config
    assert from_dict(found[check].change, config) != config
    others = {name: f.verdict for name, f in found.items() if name != check}
    allowed = {"lasting"} if check in ("learning", "swings") else set()
    assert {v for name, v in others.items() if name not in allowed} == {"fine"}


def test_what_a_configuration_refuses_or_has_is_not_suggested():
    together = 800 * np.repeat(np.arange(100), 4)
    spread = verdicts(healthy(steps=together, config={"stagger_resets": True}))["lockstep"]
    assert spread.verdict == "watch" and not spread.change and "spread" not in spread.advice
    whole = healthy(steps=together, config={"algo": "reinforce", "baseline": False, "num_minibatches": 1})
    assert "lockstep" not in verdicts(whole)
    assert not [
        f
        for f in check_sizes(Config(num_envs=6, num_steps=64, num_minibatches=2, minibatch_by="rows"), None, Length(9))
        if f.check == "minibatches" and f.change
    ]


def test_what_is_suggested_moves_the_right_way():
    much = verdicts(healthy(metrics=of({"clip_fraction": 0.5}), config={"learning_rate": 1e-3}))["clipping"]
    assert much.change == {"learning_rate": 3e-4}
    stuck = healthy(returns=NOISE.normal(0, 1, 400), config={"learning_rate": 1e-4})
    assert verdicts(stuck)["learning"].change == {"learning_rate": 3e-4}
    wild = healthy(returns=NOISE.normal(0, 1, 400), config={"learning_rate": 0.1})
    assert verdicts(wild)["learning"].change == {"learning_rate": 3e-3}


def test_a_stuck_run_is_told_why_if_something_else_is_wrong():
    flat = NOISE.normal(0, 1, 400)
    clipped = verdicts(healthy(returns=flat, metrics=of({"clip_fraction": 0.5}), config={"learning_rate": 1e-2}))
    assert clipped["learning"].change == clipped["clipping"].change == {"learning_rate": 3e-3}
    drowned = verdicts(healthy(returns=flat, metrics=of({"grad_norm": 50.0})))
    assert drowned["learning"].change == drowned["gradient"].change == {"norm_reward": True}


def test_a_falling_loss_is_fine_while_evaluations_rise():
    falling = of({"value_loss": np.geomspace(10, 0.1, ITERATIONS)})
    rising = healthy(metrics=falling, evaluations=np.linspace(10, 100, 8))
    assert verdicts(rising)["overfitting"].verdict == "fine"
    steady = healthy(metrics=of({"value_loss": 1.0}), evaluations=NOISE.normal(50, 1, 8))
    assert verdicts(steady)["overfitting"].verdict == "fine"
    once = healthy(metrics=falling, evaluations=NOISE.normal(50, 1, 8), config={"update_epochs": 1})
    assert verdicts(once)["overfitting"].change == {"num_envs": 2 * once.config.num_envs}


def test_a_trend_is_no_swing():
    steady = np.geomspace(1, 1000, 200)
    assert swing(steady) < 2.5
    assert swing(steady * np.where(np.arange(200) % 2, 1.0, 20.0)) == pytest.approx(20, rel=0.3)


def test_short_runs_are_not_judged():
    few = Evidence(Config(), {"train/clip_fraction": np.array([0.9])}, 1)
    assert {f.verdict for f in check_signs(few) if f.check != "finite"} == {"unknown"}


def test_what_to_act_on_comes_first():
    found = ordered(list(check_signs(healthy(metrics=of({"clip_fraction": 0.5, "explained_variance": 0.1})))))
    assert [f.verdict for f in found[:2]] == ["act", "watch"] and found[-1].verdict == "fine"
