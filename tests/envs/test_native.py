"""gymnax under our step: against Gymnasium transition by transition, and its ends and types."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab import envs
from trimtab.envs.base import Continuous, Discrete, EnvError
from trimtab.envs.gymnax_backend import _put_off
from trimtab.envs.known_ids import NATIVE_IDS

CLASSIC = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "Pendulum-v1": ("theta", "theta_dot"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
    "MountainCar-v0": ("position", "velocity"),
}
# Tracing these three takes as long as all the others together.
SLOW = {"Asterix-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar"}
# Those that are run, not only traced: compiling takes seconds each.
RUN = ["Breakout-MinAtar", "Catch-bsuite", "UmbrellaChain-bsuite", "FourRooms-misc", "PointRobot-misc"]


def make_native(env_id, options, time_limit):
    return envs.make(env_id, num_envs=1, backend="native", env_kwargs=options, time_limit=time_limit)


def random_action(action, key):
    if isinstance(action, Discrete):
        return jax.random.randint(key, (), 0, action.n, jnp.int32)
    low, high = jnp.array(action.low), jnp.array(action.high)
    return jax.random.uniform(key, low.shape, jnp.float32, low, high)


@partial(jax.jit, static_argnames=("env", "num_steps"))
def rollout(env, num_steps: int, seed: int = 0):
    """(first observation, steps [num_steps], actions) of one environment under random actions."""

    def body(env_state, key):
        key_action, key_step = jax.random.split(key)
        action = random_action(env.spec.action, key_action)
        env_state, step = env.step(key_step, env_state, action)
        return env_state, (step, action)

    env_state, obs = env.reset(jax.random.key(seed))
    keys = jax.random.split(jax.random.key(seed + 1), num_steps)
    _, (steps, actions) = jax.lax.scan(body, env_state, keys)
    return obs, steps, actions


@pytest.mark.parametrize("env_id", CLASSIC)
def test_each_transition_is_gymnasiums(env_id):
    """400 random-action steps; Gymnasium starts every step from our state, so float drift cannot pile up."""
    env = make_native(env_id, {}, None)
    step = jax.jit(env.step)
    theirs = gymnasium.make(env_id).unwrapped
    theirs.reset(seed=0)
    env_state, _ = env.reset(jax.random.key(0))
    terminations = 0
    keys = jax.random.split(jax.random.key(7), 400)
    actions = np.asarray(jax.vmap(partial(random_action, env.spec.action))(keys))
    for key, action in zip(keys, actions):
        theirs.state = np.array([getattr(env_state, name) for name in CLASSIC[env_id]], np.float64)
        theirs.steps_beyond_terminated = None
        obs, reward, terminated, *_ = theirs.step(
            np.asarray(action) if isinstance(env.spec.action, Continuous) else int(action)
        )
        env_state, ours = step(key, env_state, action)
        np.testing.assert_allclose(ours.next_obs, obs, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(ours.reward, reward, rtol=2e-5, atol=2e-5)
        assert bool(ours.terminated) == terminated
        terminations += terminated
    assert terminations > 5 or env_id != "CartPole-v1"


@pytest.mark.parametrize(
    "env_id, state, action, terminated",
    [
        ("MountainCar-v0", {"position": 0.49, "velocity": 0.05}, 2, True),
        ("MountainCar-v0", {"position": -1.19, "velocity": -0.06}, 0, False),
        ("Acrobot-v1", {"joint_angle1": 2.9, "joint_angle2": 0.1, "velocity_1": 1.0}, 1, True),
    ],
)
def test_rare_transitions_are_gymnasiums(env_id, state, action, terminated):
    """The goal, the left wall and the swing-up, which random actions seldom reach."""
    env = make_native(env_id, {}, None)
    env_state, _ = env.reset(jax.random.key(0))
    env_state = env_state.replace(**{name: jnp.float32(value) for name, value in state.items()})
    theirs = gymnasium.make(env_id).unwrapped
    theirs.reset(seed=0)
    theirs.state = np.array([getattr(env_state, name) for name in CLASSIC[env_id]], np.float64)
    obs, reward, expected, *_ = theirs.step(action)
    _, ours = env.step(jax.random.key(1), env_state, jnp.int32(action))
    np.testing.assert_allclose(ours.next_obs, obs, rtol=2e-5, atol=2e-5)
    assert float(ours.reward) == reward
    assert bool(ours.terminated) == expected == terminated


@pytest.mark.parametrize("env_id", CLASSIC)
def test_limits_and_boxes_are_gymnasiums(env_id):
    ours, theirs = make_native(env_id, {}, None).spec, gymnasium.make(env_id)
    assert ours.time_limit == theirs.spec.max_episode_steps
    assert ours.obs_shape == theirs.observation_space.shape
    if isinstance(ours.action, Continuous):
        np.testing.assert_array_equal(ours.action.low, theirs.action_space.low)
        np.testing.assert_array_equal(ours.action.high, theirs.action_space.high)
    else:
        assert ours.action.n == theirs.action_space.n


@pytest.mark.parametrize("env_id", [env_id for env_id in NATIVE_IDS if env_id not in SLOW])
def test_every_environment_has_a_state_a_scan_can_carry(env_id):
    """The state has one type from reset on, weak types included, so nothing is compiled twice."""
    env = envs.make(env_id, num_envs=1)
    key, action = jax.random.key(0), random_action(env.spec.action, jax.random.key(1))
    fresh, _ = jax.eval_shape(env.reset, key)
    stepped, _ = jax.eval_shape(env.step, key, fresh, action)
    assert jax.tree.structure(fresh) == jax.tree.structure(stepped)
    for first, second in zip(jax.tree.leaves(fresh), jax.tree.leaves(stepped)):
        assert (first.shape, first.dtype, first.weak_type) == (second.shape, second.dtype, False)
    obs, steps, _ = jax.eval_shape(lambda: rollout(env, 3))
    assert obs.shape == steps.obs.shape[1:] == steps.next_obs.shape[1:] == env.spec.obs_shape
    assert obs.dtype == steps.obs.dtype == steps.next_obs.dtype == steps.reward.dtype == jnp.float32
    assert steps.terminated.dtype == steps.truncated.dtype == bool


@pytest.mark.parametrize("env_id", RUN)
def test_only_ends_change_what_the_policy_sees(env_id):
    env = envs.make(env_id, num_envs=1)
    _, steps, _ = rollout(env, 150)
    assert np.isfinite(steps.next_obs).all() and np.isfinite(steps.reward).all()
    assert not (steps.terminated & steps.truncated).any()
    done = np.asarray(steps.terminated | steps.truncated)
    same = np.asarray(steps.obs == steps.next_obs).reshape(150, -1).all(axis=1)
    assert same[~done].all() and done.any() == (env_id != "FourRooms-misc")


def test_truncation_is_not_termination_and_shows_the_true_next_observation():
    env = envs.make("Pendulum-v1", num_envs=1, time_limit=20)
    _, steps, _ = rollout(env, 100)
    np.testing.assert_array_equal(np.flatnonzero(steps.truncated), [19, 39, 59, 79, 99])
    assert not steps.terminated.any()
    _, unlimited, _ = rollout(env.without_time_limit(), 100)
    np.testing.assert_allclose(steps.next_obs[:20], unlimited.next_obs[:20], rtol=1e-6)
    assert not unlimited.truncated.any()
    assert (np.abs(steps.obs[19] - steps.next_obs[19]) > 1e-3).any()
    assert env.without_time_limit().spec.time_limit is None


def test_termination_at_the_limit_is_termination():
    """CartPole pushed one way falls after some steps; with the limit set there it still terminates."""
    env = make_native("CartPole-v1", {}, None)

    def until_done(env):
        env_state, _ = env.reset(jax.random.key(0))
        for count in range(1, 50):
            env_state, step = env.step(jax.random.key(count), env_state, jnp.int32(1))
            if step.terminated | step.truncated:
                return count, bool(step.terminated), bool(step.truncated)

    fall, terminated, truncated = until_done(env)
    assert (terminated, truncated) == (True, False)
    assert until_done(make_native("CartPole-v1", {}, fall)) == (fall, True, False)
    assert until_done(make_native("CartPole-v1", {}, fall - 1)) == (fall - 1, False, True)


def test_a_continued_state_runs_on_past_its_limit():
    env = envs.make("Pendulum-v1", num_envs=1, time_limit=3)
    env_state, _ = env.reset(jax.random.key(0))
    for count in range(6):
        env_state, step = env.without_time_limit().step(jax.random.key(count), env_state, jnp.zeros(1))
        assert not step.truncated
    assert int(env_state.time) == 6
    types = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), env.reset(jax.random.key(0))[0])
    assert types == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), env_state)


def test_options_reach_constructor_and_parameters():
    env = envs.make("Catch-bsuite", num_envs=1, env_kwargs={"rows": 6, "columns": 4})
    assert env.spec.obs_shape == (6, 4)
    assert envs.make("Pendulum-v1", num_envs=1, env_kwargs={"max_torque": 1.0}).spec.action.high == (1.0,)
    limited = envs.make("CartPole-v1", num_envs=1, env_kwargs={"max_steps_in_episode": 50})
    assert limited.spec.time_limit == 50
    assert envs.make("Acrobot-v1", num_envs=1, env_kwargs={"available_torque": [-2, 0, 2]}) != envs.make(
        "Acrobot-v1", num_envs=1
    )
    with pytest.raises(EnvError, match="no option 'max_step'; nearest: max_steps_in_episode"):
        envs.make("CartPole-v1", num_envs=1, env_kwargs={"max_step": 3})


def test_a_heavier_pole_has_consistent_masses():
    env = make_native("CartPole-v1", {"masspole": 0.5, "length": 1.0}, None)
    theirs = gymnasium.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    theirs.masspole, theirs.length, theirs.total_mass, theirs.polemass_length = 0.5, 1.0, 1.5, 0.5
    env_state, obs = env.reset(jax.random.key(0))
    theirs.state = np.asarray(obs, np.float64)
    _, ours = env.step(jax.random.key(0), env_state, jnp.int32(1))
    np.testing.assert_allclose(ours.next_obs, theirs.step(1)[0], rtol=1e-5, atol=1e-6)


def test_static_by_value_and_built_inside_a_trace():
    first, second = (make_native("Acrobot-v1", {}, 9) for _ in range(2))
    assert first == second and hash(first) == hash(second) and first != first.without_time_limit()
    reset = jax.jit(lambda key: make_native("Acrobot-v1", {}, None).reset(key)[1])
    assert reset(jax.random.key(0)).shape == (6,)


def test_keys_decide_everything():
    env = envs.make("Catch-bsuite", num_envs=1)
    _, first, _ = rollout(env, 40, seed=1)
    _, again, _ = rollout(env, 40, seed=1)
    _, other, _ = rollout(env, 40, seed=2)
    np.testing.assert_array_equal(first.next_obs, again.next_obs)
    assert (np.asarray(first.next_obs) != np.asarray(other.next_obs)).any()


def test_left_out_ids_say_why():
    with pytest.raises(EnvError, match="left wall"):
        envs.make("MountainCarContinuous-v0", num_envs=1, backend="native")
    with pytest.raises(EnvError, match="all policies are equal"):
        envs.make("SimpleBandit-bsuite", num_envs=1)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1"])
def test_an_episode_goes_on_from_the_start_drawn_ahead(env_id):
    env = envs.make(env_id, num_envs=1, time_limit=1)
    state, _ = env.reset(jax.random.key(0))
    fresh = env.reset(jax.random.key(1))
    following, out = env.step(jax.random.key(2), state, jnp.int32(0), fresh)
    assert out.terminated | out.truncated
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), (following, out.obs), fresh))
    lasting = env.without_time_limit()
    following, out = lasting.step(jax.random.key(2), state, jnp.int32(0), fresh)
    assert not (out.terminated | out.truncated)
    np.testing.assert_array_equal(out.obs, out.next_obs)
    _, alone = lasting.step(jax.random.key(2), state, jnp.int32(0))
    np.testing.assert_array_equal(alone.next_obs, out.next_obs)  # the key alone decides where the action leads


def test_modules_that_are_put_off_load_when_they_are_used(monkeypatch):
    """A stand-in while importing, the real module from then on."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with _put_off("colorsys"):
        import colorsys as stand_in

        assert sys.modules["colorsys"] is stand_in and "hsv_to_rgb" not in vars(stand_in)
    assert "colorsys" not in sys.modules
    assert stand_in.hsv_to_rgb(0.0, 0.0, 1.0) == (1.0, 1.0, 1.0)
    assert "hsv_to_rgb" in vars(sys.modules["colorsys"])


def test_threads_load_environments_at_once():
    """Packages stand in for each other while one is loaded: a second thread would meet them."""
    code = "from trimtab import envs; from concurrent.futures import ThreadPoolExecutor as Pool\n"
    code += "ids = ['CartPole-v1', 'Pendulum-v1', 'Acrobot-v1', 'Breakout-MinAtar'] * 2\n"
    code += "print(len(list(Pool(8).map(lambda i: envs.make(i, num_envs=1), ids))))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "8", ended.stderr[-500:]
