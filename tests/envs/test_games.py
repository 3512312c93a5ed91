"""Games and tasks written in JAX (pgx, xminigrid, Playground): ends, limits, and what the games themselves say."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trimtab
from trimtab import envs
from trimtab.envs import known_ids, playground_backend
from trimtab.envs.base import EnvError, Part


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
    longer = envs.make("PendulumSwingup", num_envs=1, env_kwargs={"episode_length": 7, "action_repeat": 2})
    assert longer.spec.time_limit == 4 and hash(longer) != hash(env)
    assert env.without_time_limit().spec.time_limit is None


def test_playground_equals_its_own_steps_and_is_cut_at_the_limit():
    from mujoco_playground import registry

    env = envs.make("PendulumSwingup", num_envs=1, time_limit=3, env_kwargs={"action_repeat": 2})
    assert env.spec.backend == "playground" and env.spec.action == envs.Continuous((-1.0,), (1.0,))
    assert env.without_time_limit().spec.time_limit is None and hash(env) == hash(dataclasses.replace(env))
    state, obs = jax.jit(env.reset)(jax.random.key(0))
    task = registry.load("PendulumSwingup", config_overrides={"impl": "jax"})
    step, follow = jax.jit(env.step), jax.jit(task.step)
    with jax.numpy_rank_promotion("allow"):
        own = jax.jit(task.reset)(jax.random.key(0))
    np.testing.assert_allclose(obs, own.obs, atol=1e-6)
    for t in range(3):
        state, stepped = step(jax.random.key(t), state, jnp.full(1, 0.5))
        with jax.numpy_rank_promotion("allow"):
            between = follow(own, jnp.full(1, 0.5))
            own = follow(between, jnp.full(1, 0.5))
        np.testing.assert_allclose(stepped.next_obs, own.obs, atol=1e-5)
        np.testing.assert_allclose(stepped.reward, between.reward + own.reward, atol=1e-5)
        assert bool(stepped.truncated) == (t == 2) and not stepped.terminated
    assert np.abs(stepped.obs - stepped.next_obs).max() > 1e-3  # another episode has begun


def test_playground_refuses_in_one_line(monkeypatch):
    with pytest.raises(EnvError, match=r"^env_kwargs: PendulumSwingup has no option 'ctrl_d'; nearest: ctrl_dt$"):
        envs.make("PendulumSwingup", num_envs=1, env_kwargs={"ctrl_d": 0.1})
    with pytest.raises(EnvError, match=r"^env_id: PendulumSwingup cannot be made by MuJoCo Playground: .*impl"):
        envs.make("PendulumSwingup", num_envs=1, env_kwargs={"impl": 3})
    monkeypatch.setattr(playground_backend, "has_robots", lambda: False)
    with pytest.raises(EnvError, match=r"needs the MuJoCo Menagerie, .*; envpool has Go1JoystickFlatTerrain-v1$"):
        envs.make("Go1JoystickFlatTerrain", num_envs=1)


def test_playgrounds_ids_are_those_of_its_package():
    from mujoco_playground import dm_control_suite, registry

    assert set(dm_control_suite.ALL_ENVS) == set(known_ids.PLAYGROUND_IDS)
    assert set(registry.ALL_ENVS) == {*known_ids.PLAYGROUND_IDS, *known_ids.PLAYGROUND_ROBOTS}


def test_keys_of_an_observation_lie_in_sorted_order():
    seen = {"state": jnp.arange(4.0).reshape(2, 2), "privileged_state": jnp.full(3, 7)}
    layout = playground_backend._layout(seen)
    assert layout.shape == (7,) and layout.parts == (Part("privileged_state", 0, 3), Part("state", 3, 7))
    batch = jax.tree.map(lambda x: x[None], seen)
    np.testing.assert_array_equal(jax.jit(layout.convert)(batch)[0], [7, 7, 7, 0, 1, 2, 3])
    assert playground_backend._layout(jnp.zeros(5)).parts == ()


@pytest.mark.parametrize("env_id", ["MiniGrid-Empty-5x5", "2048", "PendulumSwingup"])
def test_games_written_in_jax_train(env_id, tmp_path):
    tiny = {"num_envs": 2, "num_steps": 4, "num_minibatches": 1, "update_epochs": 1, "hidden_sizes": (8,)}
    run = trimtab.train(trimtab.Config(env_id=env_id, total_timesteps=16, **tiny), tmp_path / "run", checkpoints=1)
    assert len(run.metrics) == 2
