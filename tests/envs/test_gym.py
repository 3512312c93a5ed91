"""Gymnasium's vector environments: ends, final observations, seeds, layouts."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from trimtab import envs
from trimtab.envs.base import Continuous, Discrete, EnvError, MultiBinary, MultiDiscrete
from trimtab.envs.gymnasium_backend import GymEnv
from trimtab.envs.layout import FlatLayout, Leaf, actions_of, layout_of, layout_of_space


class Counter(gymnasium.Env):
    """Observes the steps since reset; ends by itself at step `fall`; actions 5, 6, 7; images on request."""

    def __init__(self, fall: int = 10, image: bool = False):
        self.fall, self.image, self.actions = fall, image, []
        shape = (3, 8, 8) if image else (1,)
        dtype = np.uint8 if image else np.float64
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, dtype)
        self.action_space = gymnasium.spaces.Discrete(3, start=5)

    def observe(self):
        return np.full(self.observation_space.shape, self.count, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        return self.observe(), float(action), self.count == self.fall, False, {}


@pytest.fixture(scope="module", autouse=True)
def registered():
    gymnasium.register("trimtab-test/Counter-v0", Counter, max_episode_steps=6)
    yield
    del gymnasium.registry["trimtab-test/Counter-v0"]


def play(env, num_steps: int):
    actions = np.zeros(env.num_envs, np.int32)
    return [env.step(actions) for _ in range(num_steps)]


@pytest.mark.parametrize("limit, end, terminated", [(6, 6, False), (4, 4, True), (3, 3, False), (9, 4, True)])
def test_ends_are_told_apart_and_the_final_observation_is_kept(limit, end, terminated):
    """The counter falls at 10 in the first case, at 4 in the others: at the limit, after it, before it."""
    fall = 10 if limit == 6 else 4
    env = GymEnv("trimtab-test/Counter-v0", 2, {"fall": fall}, time_limit=None if limit == 6 else limit)
    assert env.spec.time_limit == limit
    np.testing.assert_array_equal(env.reset(0), [[0], [0]])
    for count, step in enumerate(play(env, 2 * end), start=1):
        within = (count - 1) % end + 1
        done = within == end
        assert step.valid.all() and step.next_obs.dtype == step.obs.dtype == np.float32
        np.testing.assert_array_equal(step.next_obs, [[within]] * 2)
        np.testing.assert_array_equal(step.obs, [[0 if done else within]] * 2)
        assert (step.terminated == (done and terminated)).all()
        assert (step.truncated == (done and not terminated)).all()
        np.testing.assert_array_equal(step.reward, [5.0, 5.0])
    env.close()


def test_a_subset_is_reset_alone():
    env = GymEnv("trimtab-test/Counter-v0", 3)
    env.reset(0)
    play(env, 4)
    np.testing.assert_array_equal(env.reset_some(np.array([True, False, True])), [[0], [4], [0]])
    step = play(env, 2)[-1]
    np.testing.assert_array_equal(step.next_obs, [[2], [6], [2]])
    np.testing.assert_array_equal(step.truncated, [False, True, False])
    np.testing.assert_array_equal(env.reset_some(np.zeros(3, bool)), step.obs)


def test_images_are_height_width_channels():
    env = GymEnv("trimtab-test/Counter-v0", 2, {"image": True})
    assert (env.spec.obs_shape, env.spec.obs_dtype) == ((8, 8, 3), "uint8")
    assert env.reset(0).shape == (2, 8, 8, 3)
    assert layout_of((7, 7, 3), np.uint8).shape == (7, 7, 3)
    assert layout_of((84, 84), np.uint8).shape == (84, 84, 1)
    assert layout_of((128,), np.uint8).dtype == "float32"
    assert layout_of((2,), np.float64).convert([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]], "lists are arrays"
    with pytest.raises((TypeError, ValueError)):
        layout_of((2,), np.float64).convert(None)
    image = np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)
    assert (layout_of((3, 4, 5), np.uint8).convert(image)[1, 2, 3] == image[1, :, 2, 3]).all()


def test_seeds_decide_episodes_and_neighbours_share_none():
    env = envs.make("MountainCarContinuous-v0", num_envs=3, seed=4)
    assert env.spec.backend == "gymnasium"
    assert env.spec.action == Continuous((-1.0,), (1.0,)) and env.spec.time_limit == 999
    first = env.reset()
    np.testing.assert_array_equal(first, env.reset(4))
    others = env.reset(5)
    assert not np.isin(first[:, 0], others[:, 0]).any()


def test_matches_a_plain_gymnasium_loop():
    env = GymEnv("CartPole-v1", 1)
    obs = env.reset(3)
    plain = gymnasium.make("CartPole-v1").unwrapped
    plain.reset(seed=0)
    plain.state = env._vector.envs[0].unwrapped.state.copy()
    for action in np.random.default_rng(0).integers(0, 2, 300):
        step = env.step(np.array([action]))
        obs, reward, terminated, *_ = plain.step(int(action))
        np.testing.assert_array_equal(step.next_obs[0], obs)
        assert (step.reward[0], step.terminated[0]) == (reward, terminated)
        if terminated:
            plain.reset()
            plain.state = env._vector.envs[0].unwrapped.state.copy()
            np.testing.assert_array_equal(step.obs[0], plain.state.astype(np.float32))


def test_worker_processes_give_the_same_episodes():
    sync = envs.make("Pendulum-v1", num_envs=2, backend="gymnasium", time_limit=5)
    workers = envs.make(
        "Pendulum-v1",
        num_envs=2,
        backend="gymnasium",
        time_limit=5,
        env_kwargs={"vectorization": "async"},
    )
    np.testing.assert_array_equal(sync.reset(1), workers.reset(1))
    for _ in range(7):
        ours, theirs = (env.step(np.ones((2, 1), np.float32)) for env in (sync, workers))
        for field, other in zip(ours, theirs):
            np.testing.assert_array_equal(field, other)
    mask = np.array([False, True])
    np.testing.assert_array_equal(sync.reset_some(mask), workers.reset_some(mask))
    workers.close()


def test_state_indices_become_one_hot():
    env = envs.make("Taxi-v4", num_envs=2, backend="gymnasium", env_kwargs={"fickle_passenger": True})
    assert env.spec.obs_shape == (500,) and env.spec.action == Discrete(6)
    np.testing.assert_array_equal(env.reset(0).sum(1), [1.0, 1.0])


def test_errors_name_what_would_work():
    with pytest.raises(EnvError, match="no option 'gravity'; nearest"):
        GymEnv("Pendulum-v1", 1, {"gravity": 3.0})
    with pytest.raises(EnvError, match=r"LunarLander-v3.*Box2D"):
        GymEnv("LunarLander-v3", 1)
    with pytest.raises(EnvError, match="'sync' or 'async'"):
        GymEnv("Pendulum-v1", 1, vectorization="threads")
    with pytest.raises(EnvError, match="time_limit"):
        GymEnv("Pendulum-v1", 1, time_limit=0)
    with pytest.raises(EnvError, match=r"has actions Text.*MultiDiscrete, MultiBinary and Box"):
        actions_of("Words-v0", gymnasium.spaces.Text(4))


class Mixed(gymnasium.Env):
    """Observes a Dict of everything, takes what `space` says, and answers with what it was given."""

    def __init__(self, kind: str = "choices"):
        s = gymnasium.spaces
        inner = s.Tuple((s.Discrete(3, start=2), s.MultiBinary(2)))
        self.observation_space = s.Dict(
            {"b": s.Box(-1, 1, (2, 2), np.float32), "a": inner, "c": s.MultiDiscrete([2, 3])}
        )
        self.action_space = s.MultiBinary(3) if kind == "switches" else s.MultiDiscrete([2, 4], start=[5, 0])

    def observe(self):
        box = np.arange(4, dtype=np.float32).reshape(2, 2) / 4
        return {"c": np.array([1, 2]), "a": (3, np.array([0, 1], np.int8)), "b": box}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observe(), float(np.sum(action)), False, False, {}


def test_everything_in_a_dict_becomes_one_vector_in_sorted_order():
    env = envs.make("mine", num_envs=2, constructor=Mixed)
    wanted = [0, 1, 0, 0, 1, 0, 0.25, 0.5, 0.75, 0, 1, 0, 0, 1]
    np.testing.assert_array_equal(env.reset(0), [wanted] * 2)
    assert [part.name for part in env.spec.parts] == ["a.0", "a.1", "b", "c"]
    assert env.spec.slices("actor_obs", ("a",)) == ((0, 3), (3, 5))
    with pytest.raises(EnvError, match=r"actor_obs: .* has no observation 'd'; nearest: a.0"):
        env.spec.slices("actor_obs", ("d",))
    assert env.spec.action == MultiDiscrete((2, 4))
    np.testing.assert_array_equal(env.step(np.array([[0, 3], [1, 0]])).reward, [8, 6])


def test_switches_are_zeros_and_ones():
    env = envs.make("mine", num_envs=2, constructor=Mixed, env_kwargs={"kind": "switches"})
    env.reset(0)
    assert env.spec.action == MultiBinary(3)
    np.testing.assert_array_equal(env.step(np.array([[0, 1, 1], [1, 1, 1]])).reward, [2, 3])


def test_indices_out_of_their_range_and_without_end_are_refused():
    leaf = FlatLayout((Leaf((), 5, (2, 3), (0, 1)),))
    np.testing.assert_array_equal(leaf.convert(np.array([[1, 1], [0, 3]])), [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
    for wrong in ([[2, 1]], [[-1, 1]], [[0, 0]]):
        with pytest.raises(IndexError):
            leaf.convert(np.array(wrong))
    with pytest.raises(EnvError, match="an index of 1,000,000 choices"):
        layout_of_space("mine", gymnasium.spaces.Discrete(1_000_000))


def test_keys_of_several_kinds_have_one_order():
    space = gymnasium.spaces.Dict({"b": gymnasium.spaces.Box(0, 1, (2,)), 2: gymnasium.spaces.Box(0, 1, (1,))})
    assert [leaf.path for leaf in layout_of_space("mine", space).leaves] == [(2,), ("b",)]


def test_whole_numbers_are_choices_where_they_are_few():
    few = gymnasium.spaces.Box(-1, 2, (2,), np.int64)
    assert actions_of("mine", few).space == MultiDiscrete((4, 4))
    np.testing.assert_array_equal(actions_of("mine", few).convert(np.array([[0, 3]])), [[-1, 2]])
    whole = np.iinfo(np.int64)
    with pytest.raises(EnvError, match="has actions Box"):
        actions_of("mine", gymnasium.spaces.Box(whole.min, whole.max, (1,), np.int64))
