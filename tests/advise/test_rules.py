"""What the doctor says of records made up for the purpose: each rule on both sides of its threshold."""

import numpy as np
import pytest

from trimtab.advise.diagnosis import find
from trimtab.advise.evidence import Action, Evidence, Length
from trimtab.advise.remedies import Adviser, Remedy
from trimtab.advise.rules import RULES, TOPICS, observe
from trimtab.advise.rules.variance_rules import oscillation
from trimtab.config import Config, from_dict

ITERATIONS = 40
NOISE = np.random.default_rng(0)
FLAT = np.tile([-1.0, 1.0], 200)  # returns of a run that does not learn


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
        "train/policy_gradient_loss": level(-0.01),
    }
    rising = np.linspace(10, 100, 400) + NOISE.normal(0, 5, 400)
    given = {"returns": rising, "steps": 4 * np.arange(400), "action": Action("discrete", 2)} | changes
    return Evidence(config, metrics | given.pop("metrics", {}), given.pop("iterations", ITERATIONS), **given)


RECORDED = [r for r in RULES if r.topic in ("stability", "variance", "exploration") or r.name == "finite"]


def judged(seen):
    """Findings as the rules make them, before it is considered that returns rise."""
    adviser = {rule.name: Adviser(seen.config) for rule in RECORDED}
    for rule, observation in observe(seen, RECORDED):
        advice = adviser[rule.name].advice(rule.name, observation.meaning, observation.remedies)
        yield rule.name, observation.verdict, advice


def verdicts(seen):
    return {name: (verdict, advice) for name, verdict, advice in judged(seen)}


def changes(seen):
    return {name: advice.change for name, _, advice in judged(seen)}


def findings(seen):
    """Findings as the doctor shows them."""
    return {finding.check: finding for finding in find(seen, observe(seen))}


def of(values):
    return {f"train/{name}": np.broadcast_to(np.asarray(value, float), ITERATIONS) for name, value in values.items()}


def test_nothing_is_held_against_a_healthy_run():
    assert {verdict for verdict, _ in verdicts(healthy()).values()} == {"fine"}


FAULTS = {
    "clip too often, several epochs": (dict(metrics=of({"clip_fraction": 0.21})), "clipping", "act", "learning_rate"),
    "clip too often, one epoch": (
        dict(metrics=of({"clip_fraction": 0.11}), config={"update_epochs": 1}),
        "clipping",
        "act",
        "learning_rate",
    ),
    "updates that overshoot": (dict(metrics=of({"policy_gradient_loss": 0.02})), "policy loss", "act", "learning_rate"),
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
    "a useless critic": (dict(metrics=of({"explained_variance": -0.1})), "critic", "watch", "norm_reward"),
    "stale data": (
        dict(metrics=of({"importance_ess": 0.3}), config={"staleness": 4}),
        "importance",
        "act",
        "learning_rate",
    ),
    "a policy that stopped exploring": (dict(metrics=of({"entropy_loss": -0.01})), "entropy", "watch", "ent_coef"),
    "nothing learned": (dict(returns=FLAT), "learning", "act", "learning_rate"),
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
        dict(metrics=of({"value_loss": np.geomspace(10, 0.1, ITERATIONS)}), evaluations=np.tile([49.0, 51.0], 4)),
        "overfitting",
        "watch",
        "update_epochs",
    ),
    "lockstep": (dict(steps=800 * np.repeat(np.arange(100), 4)), "lockstep", "watch", "stagger_resets"),
    "infinite": (dict(not_finite=("policy parameters",), iterations=7), "finite", "act", "learning_rate"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_only_it(fault):
    given, check, verdict, field = FAULTS[fault]
    seen = healthy(**given)
    found = verdicts(seen)
    change = changes(seen)[check]
    assert found[check][0] == verdict and field in change
    assert from_dict(change, seen.config) != seen.config
    others = {name: v for name, (v, _) in found.items() if name != check}
    allowed = {"lasting"} if check in ("learning", "swings") else set()
    assert {v for name, v in others.items() if name not in allowed} == {"fine"}


def test_lockstep_quotes_what_a_probe_measured():
    together = 800 * np.repeat(np.arange(100), 4)
    assert "trimtab probe" in str(findings(healthy(steps=together))["lockstep"])
    measured = findings(healthy(steps=together, shared_noise=(0.42, 20_480)))["lockstep"]
    assert "42% of the gradient's variance at step 20,480" in str(measured)


def test_what_a_configuration_refuses_or_has_is_not_suggested():
    together = 800 * np.repeat(np.arange(100), 4)
    spread = findings(healthy(steps=together, config={"stagger_resets": True}))["lockstep"]
    assert spread.verdict == "watch" and not spread.change and "spread" not in spread.advice
    whole = healthy(steps=together, config={"algo": "reinforce", "baseline": False, "num_minibatches": 1})
    assert "lockstep" not in findings(whole)
    config = Config(num_envs=6, num_steps=64, num_minibatches=2, minibatch_by="rows")
    sized = findings(Evidence(config, length=Length(9)))["gradient steps"]
    assert sized.verdict == "watch" and not sized.change  # 4 are no whole rows


def test_what_is_suggested_moves_the_right_way():
    much = findings(healthy(metrics=of({"clip_fraction": 0.5}), config={"learning_rate": 1e-3}))["clipping"]
    assert much.change == {"learning_rate": 3e-4}
    stuck = healthy(returns=FLAT, config={"learning_rate": 1e-4})
    assert findings(stuck)["learning"].change == {"learning_rate": 3e-4}
    wild = healthy(returns=FLAT, config={"learning_rate": 0.1})
    assert findings(wild)["learning"].change == {"learning_rate": 3e-3}
    adaptive = {"anneal_lr": "adaptive", "desired_kl": 0.01}
    steered = findings(healthy(metrics=of({"clip_fraction": 0.5}), config=adaptive))["clipping"]
    assert steered.change == {"desired_kl": 0.005}


def test_a_stuck_run_is_told_why_if_something_else_is_wrong():
    clipped = findings(healthy(returns=FLAT, metrics=of({"clip_fraction": 0.5}), config={"learning_rate": 1e-2}))
    assert clipped["learning"].change == clipped["clipping"].change == {"learning_rate": 3e-3}
    dominated = findings(healthy(returns=FLAT, metrics=of({"grad_norm": 50.0})))
    assert dominated["learning"].change == dominated["gradient"].change == {"norm_reward": True}


def test_a_gain_whose_interval_contains_zero_is_inconclusive_and_says_what_would_decide_it():
    """+16 (-6 to 39) of eight episodes a quarter is not stuck: nobody knows yet."""
    returns = np.concatenate([np.tile([0.0, 30.0], 12), np.tile([16.0, 46.0], 4)])
    finding = findings(healthy(returns=returns, steps=50 * np.arange(32)))["learning"]
    assert finding.lo < 0 < finding.hi and finding.verdict == "unknown" and not finding.change
    assert finding.advice.startswith("inconclusive") and "times as many episodes would decide it" in finding.advice
    assert "stuck" not in finding.advice
    many = findings(healthy(returns=np.tile(returns, 25), steps=np.arange(800)))["learning"]
    assert many.verdict == "act" and "stuck" in many.advice  # no gain of any size that matters


def test_nothing_is_to_be_acted_on_while_returns_rise_significantly():
    bad = of({"clip_fraction": 0.5, "explained_variance": -0.5})
    rising = findings(healthy(metrics=bad))
    assert rising["learning"].verdict == "fine" and rising["learning"].lo > 0
    assert {rising[check].verdict for check in ("clipping", "critic")} == {"watch"}
    assert "act" not in {finding.verdict for finding in rising.values()}
    flat = findings(healthy(metrics=bad, returns=FLAT))
    assert flat["clipping"].verdict == "act"
    broken = findings(healthy(not_finite=("policy parameters",), iterations=7))
    assert broken["finite"].verdict == "act"  # whatever returns did before


FIELDS = ("learning_rate", "num_envs", "update_epochs", "norm_reward", "max_grad_norm", "gamma", "ent_coef")


@pytest.mark.parametrize("seed", range(40))
def test_advice_never_contradicts_itself(seed):
    """Made-up records with everything wrong at once: no field is to be raised and lowered."""
    draw = np.random.default_rng(seed)
    pick = lambda *values: values[draw.integers(len(values))]
    metrics = of(
        {
            "clip_fraction": pick(0.0, 0.05, 0.5),
            "grad_norm": pick(0.1, 0.4, 60.0),
            "explained_variance": pick(-0.1, 0.1, 0.9),
            "entropy_loss": pick(-0.6, -0.01),
            "importance_ess": pick(0.2, 0.9),
            "learning_rate": pick(1e-5, 3e-4, 1e-2),
            "adv_std": np.where(np.arange(ITERATIONS) % 2, pick(0.01, 1.0), 1.0),
            "policy_gradient_loss": pick(-0.01, 0.02),
        }
    )
    level = pick(0.0, 50.0, -50.0)
    returns = np.linspace(100, 100 + level, 400) + draw.normal(0, 10, 400)
    config = {"anneal_lr": pick("constant", "adaptive"), "staleness": pick(0, 4), "num_envs": int(pick(1, 4))}
    config |= {"learning_rate": pick(1e-5, 3e-4, 5e-2), "update_epochs": int(pick(1, 4, 50)), "gamma": pick(0.5, 0.99)}
    config |= {"num_minibatches": int(pick(1, 4)), "ent_coef": pick(0.01, 1.0), "max_grad_norm": pick(None, 0.5)}
    seen = healthy(metrics=metrics, returns=returns, config=config, length=Length(pick(9.0, 90.0, 9000.0)))
    found = find(seen, observe(seen))
    words = " ".join(finding.advice for finding in found if finding.verdict in ("act", "watch"))
    for name in FIELDS:
        assert not (f"raise {name}" in words and f"lower {name}" in words), words
        values = [f.change[name] for f in found if name in f.change and isinstance(f.change[name], int | float)]
        signs = {value > getattr(seen.config, name) for value in values if getattr(seen.config, name) is not None}
        assert len(signs) <= 1, (name, values)


def test_of_two_contradicting_findings_the_first_in_the_order_of_work_wins():
    seen = healthy(metrics=of({"clip_fraction": 0.001}), returns=np.linspace(100, 10, 400))
    found = findings(seen)
    assert found["learning"].change == {"learning_rate": 1e-4} and found["learning"].verdict == "act"
    assert "learning_rate" not in found["clipping"].change and "raise learning_rate" not in found["clipping"].advice
    adviser = Adviser(Config())
    assert adviser.advice("first", "", [Remedy("lower", "learning_rate", 1e-5)]).change
    second = adviser.advice("second", "too small", [Remedy("raise", "desired_kl", 0.1)])
    assert second.text == "too small; but first asks for the opposite change of learning_rate: follow that first"
    assert not second.change


def test_a_falling_loss_is_fine_while_evaluations_rise():
    falling = of({"value_loss": np.geomspace(10, 0.1, ITERATIONS)})
    rising = healthy(metrics=falling, evaluations=np.linspace(10, 100, 8))
    assert findings(rising)["overfitting"].verdict == "fine"
    steady = healthy(metrics=of({"value_loss": 1.0}), evaluations=np.tile([49.0, 51.0], 4))
    assert findings(steady)["overfitting"].verdict == "fine"
    once = healthy(metrics=falling, evaluations=np.tile([49.0, 51.0], 4), config={"update_epochs": 1})
    assert findings(once)["overfitting"].change == {"num_envs": 2 * once.config.num_envs}


def test_a_trend_is_no_oscillation():
    steady = np.geomspace(1, 1000, 200)
    assert oscillation(steady) < 2.5
    assert oscillation(steady * np.where(np.arange(200) % 2, 1.0, 20.0)) == pytest.approx(20, rel=0.3)


@pytest.mark.parametrize("iterations", [16, 40, 400])
def test_the_transient_of_reward_normalization_is_no_oscillation(iterations):
    """Advantages that fall by a factor of 60 in the first fifth of training, then stay level."""
    config = Config(total_timesteps=512 * iterations, norm_reward=True)
    ripple = np.where(np.arange(iterations) % 2, 1.0, 1.1)
    fall = np.geomspace(60, 1, int(0.2 * iterations))
    spread = np.concatenate([fall, np.ones(iterations - len(fall))]) * ripple
    finding = findings(Evidence(config, {"train/adv_std": spread}, iterations))["advantages"]
    assert finding.verdict == "fine" and finding.value < 1.5
    steady_fall = Evidence(config, {"train/adv_std": np.geomspace(60, 1, iterations)}, iterations)
    assert findings(steady_fall)["advantages"].verdict == "fine"
    wild = Evidence(config, {"train/adv_std": np.where(np.arange(iterations) % 2, 0.1, 5.0)}, iterations)
    assert findings(wild)["advantages"].verdict == "watch"


def test_short_runs_are_not_judged():
    few = Evidence(Config(), {"train/clip_fraction": np.array([0.9])}, 1)
    assert {verdict for name, (verdict, _) in verdicts(few).items() if name != "finite"} == {"unknown"}


def test_what_to_act_on_comes_first():
    seen = healthy(metrics=of({"clip_fraction": 0.5, "explained_variance": 0.1}), returns=FLAT)
    found = [finding.verdict for finding in findings(seen).values() if finding.check in ("clipping", "critic")]
    assert found == ["act", "watch"] and list(findings(seen).values())[-1].verdict == "fine"


def test_no_advice_recommends_a_range_of_minibatches():
    """Our own study contradicts 4 to 32 minibatches, and at least 10 samples per policy output."""
    for count in (1, 2, 4, 64, 512):
        seen = Evidence(Config(num_minibatches=count), action=Action("discrete", 18), length=Length(100))
        found = {f.check: f for f in find(seen, observe(seen, [rule for rule in RULES if rule.reads == "sizes"]))}
        assert not {"32", "4 to"} & set(found["gradient steps"].advice.split())
        assert found["minibatch"].verdict in ("fine", "note") and not found["minibatch"].change


def test_rules_are_declared_completely_and_found_in_the_order_of_work():
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names)) >= 26
    assert [rule.topic for rule in RULES] == sorted((rule.topic for rule in RULES), key=TOPICS.index)
    assert all(rule.documentation[0] and rule.source in ("notes", "paper", "post", "own") for rule in RULES)
    assert names.index("finite") < names.index("clipping") < names.index("critic") < names.index("discount")
