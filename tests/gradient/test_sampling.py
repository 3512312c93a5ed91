"""Stationary starts: what is drawn follows the exact stationary distribution over (time into the episode, state)."""

import jax
import numpy as np
import pytest
import tiny
from scipy import stats

from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv
from trimtab.gradient import exact
from trimtab.gradient.host_rows import Cutter
from trimtab.gradient.row_sampling import CompiledSampler
from trimtab.training.algorithm import Algorithm, hypers_of

LIMIT, ROWS = 12, 8192
START, DOOMED, SAFE = range(3)


def fork() -> FiniteMDP:
    """At the start an episode turns to where it soon ends, or to where it lasts up to the limit."""
    prob = np.zeros((3, 2, 3))
    prob[START, 0], prob[START, 1] = [0, 0.6, 0.4], [0, 0.3, 0.7]
    prob[DOOMED] = [0.5, 0.5, 0]  # the first outcome ends it
    prob[SAFE] = [0, 0, 1]
    ends = np.zeros((3, 2, 3), bool)
    ends[DOOMED, :, 0] = True
    return FiniteMDP.from_arrays(prob, np.arange(3), 1.0, ends, [1, 0, 0], LIMIT, "fork")


class Starts:
    """Starts of rows of a finite MDP, found as they are where the dynamics are not known."""

    def __init__(self):
        env = TabularEnv(fork())
        algorithm = Algorithm(tiny.config(), env)
        self.hypers = hypers_of(algorithm.config)
        self.state = jax.jit(algorithm.init)(jax.random.key(0), self.hypers)
        policy, _ = exact.policy_tables(algorithm.agent, self.state.params, env.state_obs())
        self.problem = exact.problem(env.mdp, policy, 0.9, LIMIT)
        self.sampler = CompiledSampler(algorithm, self.state, self.hypers, ROWS, 1, "stationary", reference=False)

    def drawn(self, seed: int) -> np.ndarray:
        """How often each (time, state) was where a row started."""
        carry = self.sampler._begin(self.state, self.hypers, jax.random.key(seed), None)
        np.testing.assert_array_equal(carry.env_state.time, carry.episode_length)
        np.testing.assert_array_equal(carry.env_state.state, np.asarray(carry.obs).argmax(-1))
        counts = np.zeros((LIMIT, 3))
        np.add.at(counts, (np.asarray(carry.env_state.time), np.asarray(carry.env_state.state)), 1)
        return counts


@pytest.fixture(scope="module")
def starts():
    return Starts()


def unlike(counts: np.ndarray, expected: np.ndarray) -> float:
    """p-value that counts are draws from a distribution, cells of fewer than 5 expected ones together."""
    expected = expected / expected.sum() * counts.sum()
    rare = expected < 5
    merge = lambda x: np.append(x[~rare], x[rare].sum()) if expected[rare].sum() else x[~rare]
    return float(stats.chisquare(merge(counts), merge(expected)).pvalue)


def after_limit_plus_phase(p: exact.Problem) -> np.ndarray:
    """The law of a row that walked L + U(0, L) steps from reset, exactly: d(k, s) by powers of the restarting chain."""
    mass, total = np.zeros((LIMIT, 3)), np.zeros((LIMIT, 3))
    mass[0] = p.rho
    for t in range(2 * LIMIT):
        if t >= LIMIT:
            total += mass / LIMIT
        moved = mass @ p.kernel
        following = np.zeros_like(mass)
        following[1:] = moved[:-1]
        following[0] = p.rho * (1 - moved[:-1].sum())
        mass = following
    return total


def test_starts_follow_the_stationary_distribution_of_time_and_state(starts):
    d = exact.stationary(starts.problem)
    assert 0.2 < d[-1].sum() / d[0].sum() < 0.8  # many episodes end before the limit, and many reach it
    counts = sum(starts.drawn(seed) for seed in range(4))
    assert unlike(counts.ravel(), d.ravel()) > 1e-3
    assert unlike(counts.sum(1), d.sum(1)) > 1e-3


def test_one_limit_and_a_random_phase_is_not_stationary(starts):
    """What a burn-in of L + U(0, L) steps gives is told apart by as many draws."""
    d, burnt = exact.stationary(starts.problem), after_limit_plus_phase(starts.problem)
    assert burnt.sum() == pytest.approx(1)
    assert unlike(np.random.default_rng(0).multinomial(4 * ROWS, burnt.ravel()), d.ravel()) < 1e-6


@pytest.mark.parametrize("lengths", [[3, 10, 10, 10], [7], [1, 2, 9]], ids=str)
def test_rows_cut_out_of_a_walk_begin_at_stationary_times(lengths):
    """P(k) ∝ P(length > k), whatever the lengths of episodes, and rows do not overlap."""
    rng, num_envs, limit = np.random.default_rng(1), 64, 10
    cutter = Cutter(num_envs, 4, limit, rng)
    left, time = rng.choice(lengths, num_envs), np.zeros(num_envs, int)
    times, found = np.zeros((3000, num_envs), int), []
    for t in range(3000):
        times[t] = time
        done = time + 1 == left
        found += cutter.follow(done[None])
        time = np.where(done, 0, time + 1)
        left = np.where(done, rng.choice(lengths, num_envs), left)
    counts = np.bincount([times[first, env] for env, first in found], minlength=limit)
    alive = np.array([np.mean(np.array(lengths) > k) for k in range(limit)])
    assert len(found) > 2000 and (counts[alive == 0] == 0).all()
    assert unlike(counts[alive > 0], alive[alive > 0]) > 1e-3
    one = sorted(first for env, first in found if env == 0)
    assert (np.diff(one) >= 4).all()


def test_without_a_limit_rows_are_far_apart():
    cutter = Cutter(8, 5, None, np.random.default_rng(0))
    found = cutter.follow(np.zeros((8000, 8), bool))
    starts = sorted(first for env, first in found if env == 0)
    assert 1000 <= starts[0] < 2000 and set(np.diff(starts)) == {1005}
