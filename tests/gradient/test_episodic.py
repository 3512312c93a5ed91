"""Exact variances of episode gradients against every episode, written out."""

import numpy as np
import pytest

from trimtab.envs.tabular_backend import FiniteMDP
from trimtab.gradient import exact_episodes

GAMMA, LIMIT = 0.9, 3


@pytest.fixture(scope="module")
def problem():
    """A random MDP of three states whose episodes may end early, with any policy and any scores, some of them 0."""
    rng = np.random.default_rng(0)
    shape = (3, 2, 2)
    mdp = FiniteMDP.from_arrays(
        rng.dirichlet(np.ones(2), shape[:2]),
        rng.integers(0, 3, shape),
        rng.normal(size=shape),
        rng.random(shape) < 0.3,
        rng.dirichlet(np.ones(3)),
    )
    policy = rng.dirichlet(np.ones(2), 3)
    score = rng.normal(size=(3, 2, 4)) * (rng.random((3, 2, 4)) < 0.7)
    return mdp, policy, score, rng.normal(size=3)


def episodes(mdp, policy, state, probability, past=()):
    """Every episode from a state: (probability, [(state, action, reward, ended)])."""
    if len(past) == LIMIT or (past and past[-1][3]):
        yield probability, past
        return
    for action in range(mdp.num_actions):
        for k in range(mdp.prob.shape[2]):
            share = probability * policy[state, action] * mdp.prob[state, action, k]
            step = (state, action, float(mdp.reward[state, action, k]), bool(mdp.terminated[state, action, k]))
            yield from episodes(mdp, policy, int(mdp.next_state[state, action, k]), share, (*past, step))


def enumerated(problem, gradient):
    """E[Z] and Tr Cov(Z), Z = gradient(scores, returns to go, states) of an episode."""
    mdp, policy, score, _ = problem
    mean, square = np.zeros(score.shape[2]), 0.0
    for start, rho in enumerate(mdp.rho):
        for probability, steps in episodes(mdp, policy, start, float(rho)):
            rewards = [r for _, _, r, _ in steps]
            to_go = [sum(GAMMA ** (u - t) * rewards[u] for u in range(t, len(steps))) for t in range(len(steps))]
            z = gradient([score[s, a] for s, a, _, _ in steps], to_go, [s for s, *_ in steps])
            mean, square = mean + probability * z, square + probability * float(z @ z)
    return mean, square - float(mean @ mean)


def test_whole_returns(problem):
    mdp, policy, score, _ = problem
    found = exact_episodes.whole_return(mdp, policy, score, GAMMA, LIMIT)
    mean, variance = enumerated(problem, lambda x, g, s: g[0] * sum(x))
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    assert found.variance == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("with_baseline", [False, True])
def test_reward_to_go(problem, with_baseline):
    mdp, policy, score, values = problem
    b = values if with_baseline else np.zeros(3)
    found = exact_episodes.reward_to_go(mdp, policy, score, GAMMA, LIMIT, values if with_baseline else None)
    mean, variance = enumerated(problem, lambda x, g, s: sum((gt - b[st]) * xt for xt, gt, st in zip(x, g, s)))
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    assert found.variance == pytest.approx(variance, rel=1e-10)


def test_with_real_scores_every_estimator_has_the_same_mean(problem):
    mdp, policy, score, values = problem
    score = score - np.einsum("sa,sap->sp", policy, score)[:, None]  # E over actions of ∇ log π is 0
    given = (mdp, policy, score, GAMMA, LIMIT)
    to_go = exact_episodes.reward_to_go(*given).mean
    np.testing.assert_allclose(exact_episodes.reward_to_go(*given, values).mean, to_go, atol=1e-12)
    undiscounted = (mdp, policy, score, 1.0, LIMIT)
    np.testing.assert_allclose(
        exact_episodes.whole_return(*undiscounted).mean, exact_episodes.reward_to_go(*undiscounted).mean, atol=1e-12
    )


def test_returns_over_the_visits_of_an_episode(problem):
    mdp, policy, _, _ = problem
    total, visits = np.zeros(3), np.zeros(3)
    for start, rho in enumerate(mdp.rho):
        for probability, steps in episodes(mdp, policy, start, float(rho)):
            for t, (state, *_) in enumerate(steps):
                to_go = sum(GAMMA ** (u - t) * steps[u][2] for u in range(t, len(steps)))
                total[state], visits[state] = total[state] + probability * to_go, visits[state] + probability
    np.testing.assert_allclose(exact_episodes.visited_returns(mdp, policy, GAMMA, LIMIT), total / visits, atol=1e-12)
