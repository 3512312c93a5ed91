"""EnvPool: the samples that are not experience, the ends, the layouts, in every family."""

from __future__ import annotations

import math
from itertools import pairwise

import envpool
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab import envs
from trimtab.envs import envpool_backend, known_ids
from trimtab.envs.base import Continuous, Discrete, EnvError, MultiDiscrete
from trimtab.envs.envpool_backend import PoolEnv
from trimtab.nets.agent import distribution_for
from trimtab.training import rollout
from trimtab.training.rollout import Acted, Carry

FAMILIES = [
    ("CartPole-v1", None),
    ("HalfCheetah-v4", 25),
    ("Breakout-v5", None),
    ("StarpilotHard-v0", None),
]


def play(env, num_steps: int, seed: int = 0):
    """Random actions from a fresh reset: (first observation, steps)."""
    rng = np.random.default_rng(seed)
    obs, action = env.reset(seed), env.spec.action
    steps = []
    for _ in range(num_steps):
        if isinstance(action, Discrete):
            actions = rng.integers(0, action.n, env.num_envs)
        else:
            actions = rng.uniform(action.low, action.high, (env.num_envs, len(action.low)))
        steps.append(env.step(actions))
    return obs, steps


@pytest.mark.parametrize("env_id, limit", FAMILIES)
def test_the_row_after_a_termination_is_not_experience(env_id, limit):
    """Valid is false exactly after a row EnvPool ended; there the action was ignored and the reward is 0."""
    env = PoolEnv(env_id, 4, time_limit=limit)
    obs, steps = play(env, 320)
    assert obs.shape == (4, *env.spec.obs_shape) and obs.dtype == env.spec.obs_dtype
    resetting = np.zeros(4, bool)
    for step in steps:
        np.testing.assert_array_equal(step.valid, ~resetting)
        assert (step.reward[resetting] == 0).all()
        assert not (step.terminated & step.truncated).any()
        assert not (step.terminated | step.truncated)[resetting].any()
        resetting = step.terminated.copy()
    ended = np.sum([step.terminated.sum() for step in steps])
    cut = np.sum([step.truncated.sum() for step in steps])
    assert (ended, cut) == (0, 4 * (320 // 25)) if limit else ended > 1
    env.close()


def test_a_done_row_shows_the_true_final_observation():
    """CartPole's final observation is outside the thresholds, the row after it is a fresh start."""
    _, steps = play(PoolEnv("CartPole-v1", 4), 200)
    seen = 0
    for step, after in pairwise(steps):
        for row in np.flatnonzero(step.terminated):
            final = step.next_obs[row]
            assert abs(final[0]) > 2.4 or abs(final[2]) > 12 * np.pi / 180
            assert not after.valid[row] and (np.abs(after.next_obs[row]) <= 0.05).all()
            seen += 1
    assert seen > 5


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "MountainCar-v0"])
def test_the_default_limit_truncates(env_id):
    env = PoolEnv(env_id, 2)
    _, steps = play(env, 401)
    truncated = np.array([step.truncated for step in steps])
    assert env.spec.time_limit == gymnasium.spec(env_id).max_episode_steps == 200
    np.testing.assert_array_equal(np.flatnonzero(truncated.all(1)), [199, 399])
    assert truncated.sum() == 4 and not any(step.terminated.any() for step in steps)
    assert all(step.valid.all() for step in steps)
    assert (steps[199].obs != steps[199].next_obs).any()


def until_done(limit: int | None):
    env = PoolEnv("CartPole-v1", 1, time_limit=limit)
    env.reset(0)
    for count in range(1, 60):
        step = env.step(np.ones(1, np.int32))
        if step.terminated[0] or step.truncated[0]:
            return count, bool(step.terminated[0]), bool(step.truncated[0])


def test_termination_at_the_limit_is_termination():
    fall, terminated, truncated = until_done(None)
    assert (terminated, truncated) == (True, False)
    assert until_done(fall) == (fall, True, False)
    assert until_done(fall - 1) == (fall - 1, False, True)


def test_procgen_limits():
    """Its own limit truncates; a shorter one renames no real ending; a longer one is refused."""
    _, steps = play(PoolEnv("procgen/maze-hard", 4), 500, seed=1)
    assert not any(step.truncated.any() for step in steps[:499])
    first, row = np.argwhere([step.terminated for step in steps])[0]
    short = PoolEnv("MazeHard-v0", 4, time_limit=200)
    assert short.spec.time_limit == 200
    _, steps = play(short, 400, seed=1)
    ended = np.array([step.terminated for step in steps])
    assert ended.any() and any(step.truncated.any() for step in steps)
    length = np.zeros(4, int)
    for step in steps:
        length = np.where(step.valid, length + 1, 0)
        np.testing.assert_array_equal(step.truncated, (length == 200) & ~step.terminated)
        length = np.where(step.truncated | step.terminated, 0, length)
    _, steps = play(PoolEnv("MazeHard-v0", 4, time_limit=int(first) + 1), first + 1, seed=1)
    assert steps[first].terminated[row] and not steps[first].truncated[row]
    with pytest.raises(EnvError, match="ends after 500 steps by itself"):
        PoolEnv("MazeHard-v0", 4, time_limit=501)


@pytest.mark.parametrize("env_id, shape", [("Breakout-v5", (84, 84, 4)), ("StarpilotHard-v0", (64, 64, 3))])
def test_images_are_height_width_channels(env_id, shape):
    env = PoolEnv(env_id, 2)
    assert (env.spec.obs_shape, env.spec.obs_dtype) == (shape, "uint8")
    obs = env.reset(3)
    raw, _ = env._pools[0].reset()
    assert raw.shape[1:] == (shape[2], *shape[:2]) and obs.shape == (2, *shape)
    np.testing.assert_array_equal(env._layout.convert(raw)[1, 10, 20], raw[1, :, 10, 20])


def test_mujoco_is_float32_with_a_box():
    env = PoolEnv("HalfCheetah-v4", 2)
    assert env.spec.action == Continuous((-1.0,) * 6, (1.0,) * 6) and env.spec.time_limit == 1000
    obs, steps = play(env, 3)
    assert obs.dtype == steps[0].next_obs.dtype == steps[0].reward.dtype == np.float32


def test_a_subset_is_reset_alone():
    env = PoolEnv("CartPole-v1", 4)
    play(env, 5)
    before = env._obs.copy()
    mask = np.array([False, True, False, True])
    after = env.reset_some(mask)
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert (after[mask] != before[mask]).any(1).all() and (np.abs(after[mask]) <= 0.05).all()
    step = env.step(np.ones(4, np.int32))
    assert step.valid.all()
    np.testing.assert_array_equal(env.reset_some(np.zeros(4, bool)), step.obs)


def test_resetting_an_ended_environment_leaves_no_lost_row():
    env = PoolEnv("CartPole-v1", 1)
    env.reset(0)
    while not env.step(np.ones(1, np.int32)).terminated[0]:
        pass
    env.reset_some(np.array([True]))
    assert env.step(np.ones(1, np.int32)).valid[0]


def test_seeds_decide_episodes_and_neighbours_share_none():
    env = PoolEnv("CartPole-v1", 4, seed=8)
    first = env.reset()
    play(env, 10)
    np.testing.assert_array_equal(env.reset(8), first)
    assert not np.isin(first[:, 0], env.reset(9)[:, 0]).any()


def test_options_and_their_errors():
    env = PoolEnv("Breakout-v5", 1, {"stack_num": 2})
    assert env.spec.obs_shape == (84, 84, 2)
    assert PoolEnv("CartPole-v1", 1, {"max_episode_steps": 30}).spec.time_limit == 30
    with pytest.raises(EnvError, match="no option 'stack_nun'; nearest: stack_num"):
        PoolEnv("Breakout-v5", 1, {"stack_nun": 2})
    with pytest.raises(EnvError, match="no option 'batch_size'"):
        PoolEnv("CartPole-v1", 4, {"batch_size": 2})


def test_a_missing_system_library_is_named(monkeypatch):
    def fails(*args, **kwargs):
        raise ImportError("libQt5Gui.so.5: cannot open shared object file")

    monkeypatch.setattr(envpool, "make_spec", fails)
    with pytest.raises(EnvError, match="Debian package libqt5gui5"):
        PoolEnv("StarpilotHard-v0", 1)


def test_make_comes_here_for_procgen_atari_and_mujoco():
    assert set(envpool_backend.pool_ids()) >= set(known_ids.PROCGEN_ALIASES.values())
    for env_id in ("procgen/starpilot-hard", "Ant-v4"):
        env = envs.make(env_id, num_envs=2)
        assert env.spec.backend == "envpool" and env.spec.env_id == env_id and env.num_envs == 2


def streamed_and_stepped(env_id: str, num_envs: int, num_steps: int, limit: int | None = None, sight: float = 1.0):
    """The same environments, policy and noise, stepped by a compiled program and by Python: (carry, rows) of each.

    With `sight` 0 actions are noise alone, so that no last digit of a network's makes a difference.
    """
    env = PoolEnv(env_id, num_envs, time_limit=limit, streamed=True)
    dist = distribution_for(env.spec.action)
    outputs = dist.num_outputs * (1 if hasattr(dist, "n") else 2)
    weight = jax.random.normal(jax.random.key(0), (math.prod(env.spec.obs_shape), outputs))
    policy = lambda obs: sight * obs.reshape(len(obs), -1) @ weight
    noise = dist.noise(jax.random.key(1), (num_steps, num_envs))

    def act(obs, noise):
        params = policy(obs)
        return Acted(dist.sample(params, noise), params)

    def start():
        zeros = np.zeros(num_envs, np.float32)
        return Carry((), env.reset(5), zeros, zeros)

    carry = start()
    streamed = jax.jit(lambda carry, noise: rollout.collect_stream(env.stream(), dist, act, carry, noise))
    middle, first = streamed(carry, noise[: num_steps // 2])
    carry, last = streamed(middle, noise[num_steps // 2 :])
    rows = jax.tree.map(lambda *halves: np.concatenate(halves), first, last)
    return (carry, rows), rollout.collect_host(env, dist, jax.jit(act), np.asarray(noise), start())


@pytest.mark.parametrize("num_envs", [1, 3, 6])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_a_compiled_program_steps_like_python(env_id, num_envs):
    """Row by row, over two rollouts, in halves or whole, below any time limit."""
    (carry, rows), (carry_of_python, rows_of_python) = streamed_and_stepped(env_id, num_envs, 90)
    assert rows.value is rows_of_python.value is None
    for name, here, there in zip(rows._fields[:-1], rows, rows_of_python):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-5, err_msg=name)
    for here, there in zip(carry[1:], carry_of_python[1:]):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-5)
    assert rows.obs.dtype == rows.reward.dtype == jnp.float32 and rows.valid.dtype == bool
    if env_id == "CartPole-v1":
        assert rows.terminated.any() and not rows.valid.all()


STREAMED = [
    "Hopper-v4",
    "Pong-v5",
    "LunarLander-v2",
    "CheetahRun-v1",
    "CoinrunEasy-v0",
    "FetchReach-v4",
    "MetaWorld/Reach-v3",
    "myoArmReachFixed-v0",
    "Go1JoystickFlatTerrain-v1",
    "highway-v0",
]


@pytest.mark.parametrize("env_id", STREAMED)
def test_a_compiled_program_steps_every_family_like_python(env_id):
    """To the last bit; images, parts and float64 among them."""
    (_, rows), (_, stepped) = streamed_and_stepped(env_id, 3, 24, sight=0.0)
    for name, here, there in zip(rows._fields[:-1], rows, stepped):
        assert here.dtype == there.dtype, name
        np.testing.assert_array_equal(here, there, err_msg=name)
    assert rows.obs.std() > 0 and rows.valid.any()
    if env_id == "Hopper-v4":
        assert rows.terminated.any() and not rows.valid.all()


@pytest.mark.parametrize("env_id", ["FetchReach-v4", "highway-v0", "LunarLander-v3"])
def test_in_a_compiled_program_the_row_after_an_end_is_no_experience(env_id):
    rows = streamed_and_stepped(env_id, 3, 130, sight=0.0)[0][1]
    done = np.asarray(rows.terminated | rows.truncated)
    assert done[:-1].any() and rows.valid[0].all()
    np.testing.assert_array_equal(rows.valid[1:], ~done[:-1])


@pytest.mark.parametrize(
    "env_id, n", [("CartPole-v1", 16), ("HalfCheetah-v4", 3), ("Pong-v5", 2), ("LunarLander-v3", 3)]
)
def test_in_a_compiled_program_a_cut_episode_costs_two_rows(env_id, n):
    sight = 1.0 if env_id == "CartPole-v1" else 0.0
    (_, rows), (_, stepped) = streamed_and_stepped(env_id, n, 60, limit=12, sight=sight)
    length = np.zeros(n)
    lost = np.zeros(n, int)
    for t in range(60):
        done = rows.terminated[t] | rows.truncated[t]
        np.testing.assert_array_equal(rows.valid[t], lost == 0)
        assert not done[lost > 0].any()
        length += rows.valid[t]
        np.testing.assert_array_equal(rows.episode_length[t], length)
        np.testing.assert_array_equal(rows.truncated[t], (length == 12) & ~rows.terminated[t] & rows.valid[t])
        lost = np.where(rows.truncated[t], 2, np.where(rows.terminated[t], 1, np.maximum(lost - 1, 0)))
        length = np.where(done, 0, length)
    cut, fell = rows.truncated, rows.terminated & (rows.episode_length == 12)
    assert cut.sum() >= n and (env_id != "CartPole-v1" or fell.any())
    np.testing.assert_array_equal(rows.truncated[:12], stepped.truncated[:12])
    np.testing.assert_array_equal(rows.next_obs[:12], stepped.next_obs[:12])
    if env_id == "CartPole-v1":
        assert (np.abs(rows.obs[14][cut[11]]) <= 0.05).all()


def test_what_envpool_never_ends_is_cut_at_its_limit():
    env = PoolEnv("LaneKeeping-v0", 2)
    env.reset(0)
    ends = [env.step(np.zeros((2, 1), np.float32)).truncated.all() for _ in range(401)]
    assert np.flatnonzero(ends).tolist() == [199, 399]


def test_environments_are_not_built_anew_under_a_program_that_steps_them():
    env = PoolEnv("HalfCheetah-v4", 2, streamed=True)
    carry, dist = rollout.begun(env.reset(0)), distribution_for(env.spec.action)
    act = lambda obs, noise: Acted(noise, jnp.zeros((len(obs), 12)))
    collect = jax.jit(lambda carry, noise: rollout.collect_stream(env.stream(), dist, act, carry, noise))
    collect(carry, jnp.zeros((4, 2, 6)))
    _, rows = collect(carry, jnp.zeros((4096, 2, 6)))
    env.reset(0)
    assert np.isfinite(rows.obs).all()


def test_what_a_compiled_program_can_step():
    env = PoolEnv("CartPole-v1", 2, streamed=True)
    env.reset()
    first = env.stream()
    assert first is env.stream() and len(first.handles) == 2
    env.reset()
    assert env.stream() is not first
    threads = PoolEnv("CartPole-v1", 4, {"num_threads": 2}, streamed=True)
    threads.reset()
    assert len(threads.stream().handles) == 1
    whole = PoolEnv("HalfCheetah-v4", 2, streamed=True)
    whole.reset()
    assert len(whole.stream().handles) == 1
    options = {"streamed": True}
    for env in (
        PoolEnv("CartPole-v1", 2),  # not asked for
        PoolEnv("Breakout-v5", 2, {"episodic_life": True}, **options),  # a lost life is no reset
        PoolEnv("CheetahRun-v1", 2, time_limit=100, **options),  # EnvPool would not reset at 100
        PoolEnv("LaneKeeping-v0", 2, time_limit=199, **options),  # nor at 199
        PoolEnv("FrozenLake-v1", 2, **options),  # an index
    ):
        env.reset()
        assert env.stream() is None and len(env._pools) == 1


def test_no_limit_means_none():
    env = PoolEnv("CartPole-v1", 1, time_limit=2**31 - 1)
    assert env.spec.time_limit is None and env._config["max_episode_steps"] == 2**31 - 1


def test_dict_observations_are_one_vector_in_sorted_order():
    env = PoolEnv("FetchReach-v4", 2)
    assert [tuple(part) for part in env.spec.parts] == [
        ("achieved_goal", 0, 3),
        ("desired_goal", 3, 6),
        ("observation", 6, 16),
    ]
    obs, steps = play(env, 55)
    assert obs.shape == (2, 16) and obs.dtype == np.float32
    np.testing.assert_allclose(obs[:, 0:3], obs[:, 6:9], atol=1e-6)  # the achieved goal is where the gripper is
    assert sum(step.truncated.sum() for step in steps) == 2 and all(step.obs.shape == (2, 16) for step in steps)
    assert env.spec.slices("actor_obs", ("observation", "desired_goal")) == ((3, 6), (6, 16))
    env.close()


def test_indices_are_one_hot_and_whole_number_boxes_are_choices():
    env = PoolEnv("MiniGrid-Empty-5x5-v0", 2)
    assert env.spec.obs_shape == (4 + 147 + 96,)
    assert (env.reset(0)[:, :4].sum(1) == 1).all()
    env.close()
    env = PoolEnv("BinPack-v2", 2)
    assert env.spec.action == MultiDiscrete((40, 20)) and env.spec.parts[1].name == "ems.x1"
    env.reset(0)
    assert env.step(np.array([[0, 0], [39, 19]])).reward.shape == (2,)
    env.close()


def test_vizdoom_leaves_nothing_where_it_is_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = PoolEnv("Basic-v1", 1)
    env.reset(0)
    env.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "env_id, limit",
    [
        ("Exit-v0", 5),
        ("Snake-v1", 5),
        ("CliffWalking-v0", 30),
        ("Catch-v0", 4),
        ("FrozenLake-v1", 5),
        ("MiniGrid-Empty-5x5-v0", 7),
        ("CheetahRun-v1", 6),
    ],
)
def test_a_shorter_limit_is_kept_in_every_family(env_id, limit):
    """Episodes end there and not beyond, cut and not over, and the next one begins in the same step."""
    env = PoolEnv(env_id, 2, time_limit=limit)
    assert env.spec.time_limit == limit
    env.reset(0)
    still = np.zeros((2, *env._actions.shape), env._actions.dtype)
    lengths, cut = np.zeros(2, int), 0
    for _ in range(3 * limit):
        out = env.step(still)
        lengths += out.valid
        assert (lengths <= limit).all()
        assert (lengths[out.truncated] == limit).all()
        cut += int(out.truncated.sum())
        lengths[out.terminated | out.truncated] = 0
    assert cut > 0
    env.close()


@pytest.mark.parametrize("env_id", ["Exit-v0", "Snake-v1"])
def test_a_limit_beyond_their_own_is_refused(env_id):
    with pytest.raises(EnvError, match="by itself"):
        PoolEnv(env_id, 1, time_limit=PoolEnv(env_id, 1).spec.time_limit + 1)


def test_after_a_lost_life_the_row_that_resets_is_not_experience():
    """Breakout counts its steps over all five lives, so the count does not tell."""
    env = PoolEnv("Breakout-v5", 2, {"episodic_life": True})
    env.reset(0)
    rng, ended, seen = np.random.default_rng(0), np.zeros(2, bool), 0
    for _ in range(200):
        out = env.step(rng.integers(0, 4, 2).astype(np.int32))
        np.testing.assert_array_equal(out.valid, ~ended)
        seen += int(ended.sum())
        ended = out.terminated | out.truncated
    assert seen > 2
    env.close()
