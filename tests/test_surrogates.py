"""What every registered surrogate must hold, and what each is by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from trimtab.api import rescale
from trimtab.cli import main
from trimtab.config import Config, ConfigError
from trimtab.math.surrogates import SURROGATES, Terms

RNG = np.random.default_rng(0)
LOGP, PROX, BEHAV, ADVANTAGE = (jnp.asarray(x, jnp.float32) for x in RNG.normal(0, 0.3, (4, 64)))
EVERY = pytest.mark.parametrize("surrogate", SURROGATES.values(), ids=SURROGATES)


def objective(surrogate, logp, coefficient=0.2, prox=PROX, behav=BEHAV, advantage=ADVANTAGE, cap=100.0):
    kl = lambda: prox - logp  # stands for an analytic KL: 0 at the proximal policy
    return surrogate.objective(Terms(logp, prox, behav, advantage, cap, kl), coefficient)


@EVERY
def test_its_gradient_at_the_behavior_policy_is_the_policy_gradient(surrogate):
    """A ∇ log π per sample, which is what a probe measures. The penalty is a KL, whose gradient there is 0."""
    stationary = lambda logp: jnp.square(BEHAV - logp)
    terms = lambda logp: Terms(logp, BEHAV, BEHAV, ADVANTAGE, 100.0, lambda: stationary(logp))
    gradient = jax.grad(lambda logp: surrogate.objective(terms(logp), 0.2).sum())(BEHAV)
    np.testing.assert_allclose(gradient, ADVANTAGE, rtol=1e-6)


@EVERY
def test_without_its_limit_the_proximal_policy_drops_out(surrogate):
    free = objective(surrogate, LOGP, surrogate.off)
    np.testing.assert_allclose(free, jnp.exp(LOGP - BEHAV) * ADVANTAGE, rtol=1e-5)


@EVERY
def test_far_samples_and_a_limit_of_nothing_stay_finite(surrogate):
    far = jnp.asarray([-200.0, -50.0, 0.0, 50.0, 200.0])
    zero = jnp.zeros(5)

    def loss(logp, coefficient, advantage):
        return objective(surrogate, logp, coefficient, zero, zero, jnp.full(5, advantage)).sum()

    for coefficient in (0.0, 0.2):
        for advantage in (-1.0, 0.0, 1.0):
            assert np.isfinite(jax.grad(loss)(far, coefficient, advantage)).all(), (coefficient, advantage)


@EVERY
def test_training_logs_how_often_its_limit_is_passed(surrogate):
    config = tiny.config(surrogate=surrogate.name, learning_rate=0.5, update_epochs=4)
    _, infos = tiny.bench(config).run(config, 2)
    passed = tiny.metric(infos, "train/clip_fraction")
    assert bool((passed > 0).any()) == (surrogate.coefficient == "clip_coef")


@EVERY
def test_a_rescaling_shows_its_coefficient_and_keeps_it(surrogate):
    rescaled = rescale(Config(surrogate=surrogate.name), num_envs=2)
    rows = {change.field: change for change in rescaled.changes}
    others = {s.coefficient for s in SURROGATES.values()} - {surrogate.coefficient}
    assert not rows[surrogate.coefficient].changed and not others & rows.keys()


@EVERY
def test_the_coefficients_of_others_are_refused(surrogate):
    for other in SURROGATES.values():
        if other.coefficient != surrogate.coefficient:
            with pytest.raises(ConfigError, match=f"needs surrogate={'.*' + other.name}"):
                Config(surrogate=surrogate.name, **{other.coefficient: 0.37})


def test_help_and_plan_know_every_surrogate(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "|".join(SURROGATES) in text
    for surrogate in SURROGATES.values():
        assert f"{surrogate.name}: {surrogate.summary}." in text
        assert main(["plan", "CartPole-v1", "--surrogate", surrogate.name]) == 0


def test_spo_is_largest_where_the_clip_begins():
    """r A - |A| (r - 1)² / (2 ε) by hand, and its maximum at r = 1 + ε for A > 0, at 1 - ε for A < 0."""
    ratios = np.linspace(0.5, 1.5, 2001)
    zero = jnp.zeros(len(ratios))
    for advantage in (2.0, -0.7):
        logp, advantages = jnp.log(jnp.asarray(ratios, jnp.float32)), jnp.full(len(ratios), advantage)
        values = objective(SURROGATES["spo"], logp, 0.2, zero, zero, advantages)
        by_hand = ratios * advantage - abs(advantage) / 0.4 * (ratios - 1) ** 2
        np.testing.assert_allclose(values, by_hand, rtol=2e-5, atol=2e-6)
        assert ratios[np.argmax(values)] == pytest.approx(1 + np.sign(advantage) * 0.2, abs=2e-3)
