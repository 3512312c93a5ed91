"""Agents find the known answers of the ladder environments."""

import jax
import jax.numpy as jnp
import ladder
import numpy as np
import pytest
import tiny

from trimtab.training.algorithm import hypers_of

pytestmark = pytest.mark.learning

COMMON = {"num_envs": 16, "num_steps": 10, "num_minibatches": 1, "ent_coef": 0.0, "learning_rate": 0.02, "gamma": 0.9}
AGENTS = {
    "ppo": {"algo": "ppo", "update_epochs": 4},
    "reinforce": {"algo": "reinforce"},
    "reinforce without a baseline": {"algo": "reinforce", "baseline": False},
}


def train(env, iterations, **changes):
    """(algorithm, final state) after some iterations."""
    config = tiny.config(**{**COMMON, "total_timesteps": 160 * iterations, **changes})
    bench, hypers = tiny.Bench(config, env), hypers_of(config)

    @jax.jit
    def many(key):
        state = bench.algorithm.init(key, hypers)
        return jax.lax.fori_loop(0, iterations, lambda _, s: bench.algorithm.step(s, hypers)[0], state)

    return bench.algorithm, many(jax.random.key(0))


def probabilities(algorithm, state, obs):
    return np.asarray(jax.nn.softmax(algorithm.agent.policy(state.params.policy, jnp.asarray([obs], jnp.float32))))[0]


def value(algorithm, state, obs):
    return float(algorithm.agent.value(state.params, jnp.asarray([obs], jnp.float32))[0])


@pytest.mark.parametrize("agent", AGENTS)
def test_the_best_arm_is_found_and_its_value_known(agent):
    algorithm, state = train(ladder.Bandit(), 100, **AGENTS[agent])
    assert probabilities(algorithm, state, [1.0])[1] > 0.95
    if algorithm.config.needs_value:
        assert value(algorithm, state, [1.0]) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("agent", AGENTS)
def test_credit_reaches_back_to_the_first_action(agent):
    algorithm, state = train(ladder.TwoSteps(), 100, **AGENTS[agent])
    assert probabilities(algorithm, state, [1.0, 0.0])[1] > 0.95
    if algorithm.config.needs_value:
        assert value(algorithm, state, [1.0, 0.0]) == pytest.approx(0.9, abs=0.1)
        assert value(algorithm, state, [0.0, 1.0]) == pytest.approx(1.0, abs=0.1)


def test_truncation_leaves_the_value_of_going_on_forever():
    """1/(1-γ) = 10, although no episode is longer than 5 steps."""
    algorithm, state = train(ladder.Constant(5, False), 400, update_epochs=4)
    assert value(algorithm, state, [1.0]) == pytest.approx(10.0, rel=0.05)


def test_termination_gives_the_finite_sum():
    """The critic sees nothing, so it learns the mean over the five positions of the sums that are left."""
    algorithm, state = train(ladder.Constant(5, True), 400, update_epochs=4, gae_lambda=1.0)
    left = [(1 - 0.9**k) / (1 - 0.9) for k in range(1, 6)]
    assert value(algorithm, state, [1.0]) == pytest.approx(np.mean(left), rel=0.05)
