"""Games of pgx and xminigrid as compiled environments: ends, limits, and what the games themselves say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trimtab
from trimtab import envs


def play(env, num_steps: int, action: int | None = None):
    """Steps of one environment, as NumPy: (first observation, Step with a leading axis of time)."""
    state, obs = env.reset(jax.random.key(0))

    def step(state, key):
        act = jax.random.randint(key, (), 0, env.spec.action.n) if action is None else jnp.int32(action)
        return env.step(key, state, act)

    run = jax.jit(lambda state, keys: jax.lax.scan(step, state, keys))
    return np.asarray(obs), jax.tree.map(np.asarray, run(state, jax.random.split(jax.random.key(1), num_steps))[1])


def test_2048_equals_pgx_and_an_idle_move_ends_it():
    import pgx

    env = envs.make("2048", num_envs=1, time_limit=30)
    obs, steps = play(env, 60)
    assert obs.shape == (4, 4, 31) and obs.dtype == np.float32 and env.spec.time_limit == 30
    assert not (steps.terminated & steps.truncated).any() and (steps.terminated | steps.truncated).any()
    assert (steps.reward[steps.terminated] <= 0).all() and steps.reward.max() > 0
    game = pgx.make("2048")
    state = game.init(jax.random.key(0))
    np.testing.assert_array_equal(obs, state.observation)
    key = jax.random.split(jax.random.key(1), 60)[0]
    state = game.step(state, jax.random.randint(key, (), 0, 4), key)
    np.testing.assert_array_equal(steps.next_obs[0], state.observation)


def test_xminigrid_observes_one_hot_tiles_and_keeps_its_limit():
    import xminigrid  # noqa: F401

    env = envs.make("MiniGrid-Empty-5x5", num_envs=1, time_limit=4)
    obs, steps = play(env, 8, action=1)  # turning on the spot
    assert obs.shape == (7, 7, 25) and (obs.sum(-1) == 2).all()
    np.testing.assert_array_equal(steps.truncated, [False, False, False, True] * 2)
    assert not steps.terminated.any() and (steps.reward == 0).all()
    assert hash(env) == hash(envs.make("MiniGrid-Empty-5x5", num_envs=1, time_limit=4))
    assert env.without_time_limit().spec.time_limit is None


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5", "2048"])
def test_games_written_in_jax_train(env_id, tmp_path):
    tiny = {"num_envs": 2, "num_steps": 4, "num_minibatches": 1, "update_epochs": 1, "hidden_sizes": (8,)}
    run = trimtab.train(trimtab.Config(env_id=env_id, total_timesteps=16, **tiny), tmp_path / "run", checkpoints=1)
    assert len(run.metrics) == 2
