"""Finite MDPs against Gymnasium's tables and against Gymnasium's own steps."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab import envs
from trimtab.envs.base import Discrete, EnvError
from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv, TabularState

sys.path.insert(0, str(Path(__file__).parent))
from chains import sticky_chain

CASES = [
    ("FrozenLake-v1", {}, 100),
    ("FrozenLake-v1", {"is_slippery": False}, 100),
    ("FrozenLake-v1", {"map_name": "8x8"}, 100),
    ("FrozenLake8x8-v1", {}, 200),
    ("CliffWalking-v1", {}, None),
    ("CliffWalking-v1", {"is_slippery": True}, None),
    ("CliffWalkingSlippery-v1", {}, None),
    ("Taxi-v4", {}, 200),
    ("Taxi-v4", {"is_rainy": True}, 200),
]


def outcomes(mdp: FiniteMDP, state: int, action: int) -> list[tuple]:
    """The possible outcomes of a pair, in the form of Gymnasium's table."""
    kept = np.flatnonzero(mdp.prob[state, action])
    fields = (mdp.prob, mdp.next_state, mdp.reward, mdp.terminated)
    return [tuple(field[state, action, k].item() for field in fields) for k in kept]


@pytest.mark.parametrize("env_id, kwargs, limit", CASES)
def test_table_is_gymnasiums_outcome_by_outcome(env_id, kwargs, limit):
    mdp = FiniteMDP.from_gymnasium(env_id, **kwargs)
    env = gymnasium.make(env_id, **kwargs).unwrapped
    assert mdp.time_limit == limit
    np.testing.assert_array_equal(mdp.rho, env.initial_state_distrib)
    assert (mdp.num_states, mdp.num_actions) == (env.observation_space.n, env.action_space.n)
    for state, actions in env.P.items():
        for action, listed in actions.items():
            assert outcomes(mdp, state, action) == [tuple(outcome) for outcome in listed if outcome[0] > 0]


def sampled(env: TabularEnv, states, actions, draws: int):
    """`draws` steps from each of the given pairs, at time 0: arrays [pairs, draws]."""

    def from_pair(key, state, action):
        start = TabularState(jnp.int32(state), jnp.int32(0))
        return jax.vmap(lambda k: env.step(k, start, action)[1])(jax.random.split(key, draws))

    keys = jax.random.split(jax.random.key(3), len(states))
    return jax.jit(jax.vmap(from_pair))(keys, jnp.asarray(states), jnp.asarray(actions))


@pytest.mark.parametrize("env_id, kwargs, limit", [CASES[0], CASES[4], CASES[5], CASES[7]])
def test_steps_are_in_gymnasiums_support_at_the_right_frequencies(env_id, kwargs, limit):
    """Both samplers, compared with the table: 5 standard deviations, every pair, every distinct outcome."""
    mdp = FiniteMDP.from_gymnasium(env_id, **kwargs)
    gym_env = gymnasium.make(env_id, **kwargs).unwrapped
    gym_env.reset(seed=1)
    stochastic = mdp.prob.shape[-1] > 1
    draws = 200 if stochastic else 2
    rng = np.random.default_rng(0)
    chosen = rng.permutation(mdp.num_states)[:24]
    states, actions = (grid.ravel() for grid in np.meshgrid(chosen, np.arange(mdp.num_actions)))
    step = sampled(TabularEnv(mdp), states, actions, draws)
    next_states = np.asarray(step.next_obs.argmax(-1))
    for row, (state, action) in enumerate(zip(states, actions)):
        expected: dict[tuple, float] = {}
        for prob, *rest in outcomes(mdp, state, action):
            expected[tuple(rest)] = expected.get(tuple(rest), 0.0) + prob
        rows = zip(next_states[row], np.asarray(step.reward[row]), np.asarray(step.terminated[row]))
        check_frequencies([(int(s), float(r), bool(t)) for s, r, t in rows], expected)
        gym_draws = []
        for _ in range(draws if stochastic and row < 24 else 2):
            gym_env.s = int(state)
            gym_draws.append(tuple(gym_env.step(int(action))[:3]))
        check_frequencies([(int(s), float(r), bool(t)) for s, r, t in gym_draws], expected)


def check_frequencies(draws: list[tuple], expected: dict[tuple, float]) -> None:
    assert set(draws) <= set(expected)
    for outcome, prob in expected.items():
        deviation = abs(draws.count(outcome) - len(draws) * prob)
        assert deviation <= 5 * np.sqrt(len(draws) * prob * (1 - prob)) + 1e-9


def test_two_rewards_of_one_next_state_are_both_drawn():
    """Walking into the wall left of the start costs 1, falling costs 100; both lead to the start."""
    step = sampled(TabularEnv(FiniteMDP.from_gymnasium("CliffWalking-v1", is_slippery=True)), [36], [2], 200)
    to_start = np.asarray(step.next_obs.argmax(-1))[0] == 36
    assert set(np.asarray(step.reward)[0][to_start]) == {-1.0, -100.0}


def test_termination_resets_and_keeps_the_true_next_observation():
    env = TabularEnv(FiniteMDP.from_gymnasium("FrozenLake-v1", is_slippery=False))
    before_goal = TabularState(jnp.int32(14), jnp.int32(7))
    following, step = env.step(jax.random.key(0), before_goal, jnp.int32(2))
    assert (step.reward, step.terminated, step.truncated) == (1.0, True, False)
    assert (step.next_obs.argmax(), step.obs.argmax()) == (15, 0)
    assert (following.state, following.time) == (0, 0)


@pytest.mark.parametrize("limit, terminated, truncated", [(8, True, False), (9, True, False)])
def test_termination_at_the_limit_is_termination(limit, terminated, truncated):
    env = TabularEnv(FiniteMDP.from_gymnasium("FrozenLake-v1", is_slippery=False), time_limit=limit)
    _, step = env.step(jax.random.key(0), TabularState(jnp.int32(14), jnp.int32(7)), jnp.int32(2))
    assert (step.terminated, step.truncated) == (terminated, truncated)


def test_limit_truncates_and_can_be_lifted():
    env = TabularEnv(sticky_chain(), time_limit=5)
    at_limit = TabularState(jnp.int32(1), jnp.int32(4))
    following, step = env.step(jax.random.key(0), at_limit, jnp.int32(0))
    assert (step.terminated, step.truncated, following.time) == (False, True, 0)
    unlimited = env.without_time_limit()
    following, step = unlimited.step(jax.random.key(0), at_limit, jnp.int32(0))
    assert (step.truncated, following.time) == (False, 5)
    assert unlimited.spec.time_limit is None and env.spec.time_limit == 5


def test_reset_follows_rho():
    mdp = FiniteMDP.from_gymnasium("Taxi-v4")
    starts, _ = jax.vmap(TabularEnv(mdp).reset)(jax.random.split(jax.random.key(0), 6000))
    counts = np.bincount(starts.state, minlength=mdp.num_states)
    assert (counts[mdp.rho == 0] == 0).all()
    assert (np.abs(counts - 6000 * mdp.rho) <= 5 * np.sqrt(6000 * mdp.rho * (1 - mdp.rho)) + 1e-9).all()


def test_environments_are_static_by_value():
    first, second = (TabularEnv(FiniteMDP.from_gymnasium("FrozenLake-v1")) for _ in range(2))
    assert first == second and hash(first) == hash(second)
    assert first != TabularEnv(FiniteMDP.from_gymnasium("FrozenLake-v1", is_slippery=False))
    assert first != first.without_time_limit()


def test_chain_scans_and_visits_every_state():
    env = TabularEnv(sticky_chain())
    start, _ = env.reset(jax.random.key(0))
    body = lambda state, key: env.step(key, state, jnp.int32(1))
    _, steps = jax.lax.scan(body, start, jax.random.split(jax.random.key(1), 400))
    assert set(np.asarray(steps.obs.argmax(-1))) == {0, 1, 2}
    assert not steps.terminated.any() and not steps.truncated.any()
    stayed = np.asarray(steps.obs[1:].argmax(-1) == steps.obs[:-1].argmax(-1)).mean()
    assert abs(stayed - 0.9) < 5 * np.sqrt(0.9 * 0.1 / 399)
    np.testing.assert_array_equal(env.state_obs(), np.eye(3))


def test_make_goes_here_for_toy_text():
    env = envs.make("CliffWalking-v1", num_envs=4, env_kwargs={"is_slippery": True}, time_limit=30)
    assert env.spec.backend == "tabular" and env.spec.compiled
    assert (env.spec.obs_shape, env.spec.action, env.spec.time_limit) == ((48,), Discrete(4), 30)
    assert env.mdp.prob.shape == (48, 4, 3)


def test_what_the_table_cannot_hold_is_refused():
    with pytest.raises(EnvError, match=r"fickle_passenger.*gymnasium"):
        FiniteMDP.from_gymnasium("Taxi-v4", fickle_passenger=True)
    with pytest.raises(EnvError, match="no option 'slippery'; nearest: is_slippery"):
        FiniteMDP.from_gymnasium("FrozenLake-v1", slippery=False)
    with pytest.raises(EnvError, match="sum to 1"):
        FiniteMDP.from_arrays([[[0.5, 0.4]]], 0, 0.0, False, [1.0])
    with pytest.raises(EnvError, match="time_limit"):
        TabularEnv(sticky_chain(), time_limit=0)


def test_a_map_that_is_another_one_each_time_is_refused():
    with pytest.raises(EnvError, match="another map each time"):
        envs.make("FrozenLake-v1", num_envs=1, env_kwargs={"map_name": None})
