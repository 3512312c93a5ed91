"""Learning curves: credited returns against a slow twin, and areas that do not depend on the number of environments."""

import gymnasium
import jax
import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from trimtab.config import Config
from trimtab.training import loop
from trimtab.training.algorithm import hypers_of
from trimtab.training.evaluation import BLOCK, Evaluator, longest_episode
from trimtab.training.learning_curve import BINS, credited_curve, evaluated_curve, evaluated_rise
from trimtab.training.records import Evaluation


def slow(ends, lengths, returns, num_envs, steps, bins):
    """Episode by episode and bin by bin."""
    bins = min(bins, steps)
    edges = np.arange(bins + 1) * steps / bins
    total, weight = np.zeros(bins), np.zeros(bins)
    for end, length, value in zip(ends, lengths, returns):
        start = max(end - length * num_envs, 0)
        for k in range(bins):
            overlap = max(min(end, edges[k + 1]) - max(start, edges[k]), 0) / (end - start)
            total[k] += overlap * value
            weight[k] += overlap
    return total, weight


@st.composite
def runs(draw):
    num_envs = draw(st.sampled_from([1, 2, 5]))
    steps = draw(st.integers(10, 300))
    ends = sorted(draw(st.lists(st.integers(1, steps), min_size=1, max_size=30)))
    lengths = [draw(st.integers(1, max(1, end // num_envs))) for end in ends]
    returns = draw(st.lists(st.integers(-50, 50), min_size=len(ends), max_size=len(ends)))
    return ends, lengths, returns, num_envs, steps, draw(st.sampled_from([1, 2, 7, BINS]))


@given(runs())
def test_credited_returns_are_their_slow_twin(run):
    curve, (total, weight) = credited_curve(*run[:5], bins=run[5]), slow(*run)
    seen = weight > 1e-6
    assert (curve.seen[seen]).all()
    np.testing.assert_allclose(curve.value[seen], total[seen] / weight[seen], rtol=1e-6, atol=1e-6)


def play(num_envs, steps, value_at, length_of, staggered, seed=0):
    """Training episodes of a policy whose expected return after s steps is value_at(s): (ends, lengths, returns)."""
    rng, ends, lengths, returns = np.random.default_rng(seed), [], [], []
    for _ in range(num_envs):
        now = -int(rng.integers(length_of(rng))) if staggered else 0
        while True:
            length = length_of(rng)
            span = np.arange(max(now, 0), now + length)
            now += length
            if now * num_envs > steps:
                break
            if len(span) < length:
                continue  # it began before training
            ends.append(now * num_envs)
            lengths.append(length)
            returns.append(np.mean([value_at(t * num_envs) for t in span[:: max(1, length // 20)]]) + rng.normal())
    order = np.argsort(ends)
    return np.array(ends)[order], np.array(lengths)[order], np.array(returns)[order]


def by_ends(ends, returns, steps, bins=BINS):
    """The definition of earlier versions: the mean return of the episodes that end in a bin."""
    where = np.clip((ends - 1) * bins // steps, 0, bins - 1)
    values = [returns[where == k].mean() if (where == k).any() else None for k in range(bins)]
    filled, last = [], next(v for v in values if v is not None)
    for value in values:
        last = last if value is None else value
        filled.append(last)
    return float(np.mean(filled))


@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize("num_envs", [1, 4, 16, 64, 256])
def test_the_credited_area_of_a_frozen_policy_does_not_depend_on_n(num_envs, staggered):
    steps = 200_000
    for length_of in (lambda rng: 200, lambda rng: int(rng.integers(20, 200))):
        ends, lengths, returns = play(num_envs, steps, lambda s: 5.0, length_of, staggered)
        curve = credited_curve(ends, lengths, returns, num_envs, steps)
        assert curve.area == pytest.approx(5.0, abs=0.25)


def test_a_policy_that_improves_is_credited_where_it_plays_and_lags_by_ends():
    """On a line from 0 to 10 the area is 5: by ends, 256 environments lose a sixth of it."""
    steps, line = 400_000, lambda s: 10.0 * s / 400_000
    areas, old = {}, {}
    for num_envs in (4, 256):
        ends, lengths, returns = play(num_envs, steps, line, lambda rng: 200, False)
        areas[num_envs] = credited_curve(ends, lengths, returns, num_envs, steps).area
        old[num_envs] = by_ends(ends, returns, steps)
    assert areas[4] == pytest.approx(5.0, abs=0.1) and areas[256] == pytest.approx(5.0, abs=0.4)
    assert abs(old[256] - old[4]) > 2 * abs(areas[256] - areas[4])


def test_evaluations_give_the_trapezoid():
    curve = evaluated_curve([100, 0, 50], [4.0, 0.0, 1.0])
    assert curve.measure == "evaluated" and curve.step.tolist() == [0, 50, 100]
    assert curve.area == pytest.approx((0.5 * 50 + 2.5 * 50) / 100)


def test_nothing_is_known_without_episodes():
    curve = credited_curve([], [], [], 4, 100)
    assert curve.area is None and np.isnan(curve.value).all() and curve.unseen == 1


# Evaluations -----------------------------------------------------------------------------------------------

SPLITS = [(1, 256), (4, 64), (16, 16), (64, 4), (256, 1)]


@pytest.mark.parametrize("split", SPLITS)
def test_the_evaluated_area_of_a_policy_that_jumps_does_not_depend_on_n(split):
    """From 0 to 1 halfway: the area is a half, up to half of the way from one evaluation to the next."""
    config = Config(num_envs=split[0], num_steps=split[1], total_timesteps=256 * 1000)
    steps = np.array([iteration * config.batch for iteration in config.evaluation_iterations()])
    assert len(steps) == 21 and steps[0] == 0 and steps[-1] == config.steps
    curve = evaluated_curve(steps, (steps >= config.steps / 2).astype(float))
    assert curve.area == pytest.approx(0.5 + 0.5 / 20)


def test_evaluations_of_a_frozen_policy_are_the_same_whatever_the_split(tmp_path):
    """A step size of 0: the same policy, start states and noise, with 1 and 64 environments, in and out of step."""
    seen = set()
    for num_envs, staggered in ((1, False), (64, False), (64, True)):
        config = tiny.config(
            env_id="CartPole-v1",
            time_limit=40,
            num_envs=num_envs,
            num_steps=64 // num_envs,
            stagger_resets=staggered,
            total_timesteps=64 * 20,
            learning_rate=0.0,
            eval_every=None,
            eval_episodes=3,
        )
        run = loop.train(config, tmp_path / f"{num_envs}{staggered}", checkpoints=1)
        assert run.curve.measure == "evaluated" and len(run.curve.step) == 21
        rows = run.files.evaluations()
        seen.add(tuple((row.sampled_reward, row.mean_reward) for row in rows))
        assert len({row.sampled_reward for row in rows}) > 3, "every evaluation plays other episodes"
    assert len(seen) == 1


def test_evaluations_are_their_slow_twin():
    """Step by step, with one episode after another in plain calls of the environment."""
    algorithm = tiny.bench(tiny.config(env_id="CartPole-v1", time_limit=37)).algorithm
    hypers = hypers_of(algorithm.config)
    state, m = algorithm.init(jax.random.key(3), hypers), 2
    episodes = Evaluator(algorithm, m).play(state, hypers, seed=5)
    reset_key, noise_key, step_key = jax.random.split(jax.random.key(5), 3)
    starts, env = jax.random.split(reset_key, m), algorithm.env
    for which in range(2 * m):
        env_state, obs = env.reset(starts[which % m])
        total, length, over = 0.0, 0, False
        while not over:
            block = length // BLOCK * BLOCK
            noise = algorithm.dist.noise(jax.random.fold_in(noise_key, block), (BLOCK, m))[length - block]
            key = jax.random.split(jax.random.fold_in(step_key, block), (BLOCK, m))[length - block, which % m]
            dist = algorithm.agent.policy(state.params.policy, obs[None])[0]
            action = algorithm.dist.sample(dist, noise[which]) if which < m else algorithm.dist.mode(dist)
            env_state, out = env.step(key, env_state, action)
            total, length, over = total + float(out.reward), length + 1, bool(out.terminated | out.truncated)
            obs = out.obs
        assert (total, length) == (episodes.returns[which], episodes.lengths[which])


def test_runs_without_evaluations_credit_returns_to_steps(tmp_path):
    config = tiny.config(env_id="CartPole-v1", time_limit=10, total_timesteps=160)
    run = loop.train(config, tmp_path / "run", checkpoints=1)
    assert run.curve.measure == "credited" and not run.files.evaluations()
    assert run.area == pytest.approx(np.mean(run.episodes["return"].to_numpy()), rel=0.5)


def test_returns_that_rise_and_returns_that_do_not():
    row = lambda step, mean: Evaluation(step, mean, None, mean, mean, None, None, 10, mean, 2.0)
    rise = evaluated_rise([row(k, float(10 * (k > 2))) for k in range(8)])
    assert rise is not None and rise.value == 10 and rise.lo > 0
    flat = evaluated_rise([row(k, 1.0) for k in range(8)])
    assert flat is not None and flat.lo < 0 < flat.hi
    assert evaluated_rise([row(100, 1.0), row(200, 9.0)]) is None, "the start is missing"


def test_a_run_that_broke_down_has_the_return_it_began_with_from_there_on():
    curve = evaluated_curve([0, 10, 20], [1.0, 5.0, 5.0]).broken_at(20, 40)
    assert curve.step.tolist() == [0, 10, 20, 40] and curve.value.tolist() == [1.0, 5.0, 1.0, 1.0]
    assert curve.area == pytest.approx((3 * 10 + 3 * 10 + 1 * 20) / 40) and curve.final(0.25) == 1.0


class Endless(gymnasium.Env):
    """Episodes that never end, or end after `length` steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    length = None

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == self.length, False, {}


def test_evaluations_stop_where_episodes_never_end(tmp_path):
    said: list[str] = []
    config = tiny.config(env_id="Endless", total_timesteps=64, eval_every=None, eval_episodes=1)
    run = loop.train(config, tmp_path / "run", Endless, checkpoints=1, say=said.append)
    assert run.files.evaluations() == []
    assert any("no episode ended within 1,000 steps" in line for line in said)


def test_the_cost_of_evaluations_in_python_is_shown(tmp_path):
    said: list[str] = []
    env = type("Short", (Endless,), {"length": 3})
    config = tiny.config(env_id="Short", total_timesteps=64, eval_every=None, eval_episodes=1)
    run = loop.train(config, tmp_path / "run", env, checkpoints=1, say=said.append, quiet=False)
    steps = sum(row.env_steps for row in run.files.evaluations())
    assert steps == 2 * 3 * len(run.files.evaluations())
    assert any(line.startswith(f"evaluations: {steps} environment steps in") for line in said)


def test_episodes_without_a_limit_are_cut_at_a_small_part_of_the_run():
    assert [longest_episode(steps) for steps in (10, 100_000, 10**9)] == [1_000, 5_000, 27_000]
