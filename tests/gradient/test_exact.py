"""Finite MDPs: known answers, brute force, and the samplers against them."""

import dataclasses

import jax
import numpy as np
import pytest
from gradient.enumeration import moments

from trimtab.envs.tabular_backend import FiniteMDP
from trimtab.gradient import exact
from trimtab.gradient.calibration import Bench, Cell, coverage, sticky_chain
from trimtab.gradient.moments import measure
from trimtab.gradient.variance import decompose_rows

RNG = np.random.default_rng(0)


def tabular_scores(policy):
    """∇ log π for logits [S, A] as parameters."""
    num_states, num_actions = policy.shape
    score = np.zeros((num_states, num_actions, num_states, num_actions))
    for s in range(num_states):
        for a in range(num_actions):
            score[s, a, s] = np.eye(num_actions)[a] - policy[s]
    return score.reshape(num_states, num_actions, -1)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def a_problem(env_id="FrozenLake-v1", gamma=0.95, limit=None, **kwargs):
    mdp = sticky_chain() if env_id == "chain" else FiniteMDP.from_gymnasium(env_id, **kwargs)
    policy = softmax(RNG.normal(size=(mdp.num_states, mdp.num_actions)))
    return mdp, exact.problem(mdp, policy, gamma, limit), tabular_scores(policy)


def test_values_solve_the_bellman_equation():
    _, p, _ = a_problem()
    value = exact.values(p)
    for _ in range(3):
        assert np.allclose(value, p.mean_reward + p.gamma * p.kernel @ value)


def test_the_return_gradient_is_the_derivative_of_the_return():
    mdp = FiniteMDP.from_gymnasium("FrozenLake-v1")
    logits = RNG.normal(size=(mdp.num_states, mdp.num_actions))

    def start_value(logits):
        p = exact.problem(mdp, softmax(logits), 0.95)
        return p.rho @ exact.values(p)

    p = exact.problem(mdp, softmax(logits), 0.95)
    gradient = exact.return_gradient(p, tabular_scores(p.policy)).reshape(logits.shape)
    for s, a in ((0, 1), (1, 3), (4, 0)):
        step = np.zeros_like(logits)
        step[s, a] = 1e-5
        numeric = (start_value(logits + step) - start_value(logits - step)) / 2e-5
        assert gradient[s, a] == pytest.approx(numeric, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("limit", [None, 30])
@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "chain"])
def test_with_the_exact_critic_there_is_no_bias(env_id, limit):
    """Only true without a limit, or where the critic's value is that of going on, which bootstrapping makes so."""
    _, p, score = a_problem(env_id, limit=limit)
    true = exact.true_gradient(p, score)
    for num_steps in (1, 4, 50):
        for gae_lambda in (0.0, 0.5, 1.0):
            expected = exact.expected_gradient(p, score, exact.values(p), gae_lambda, num_steps)
            assert np.allclose(expected, true, atol=1e-12)


def test_bias_falls_like_one_over_t_at_lambda_one_and_levels_off_below():
    _, p, score = a_problem("chain", gamma=0.9)
    critic = exact.values(p) + RNG.normal(size=3)
    norms = lambda lam, steps: [np.sqrt(exact.bias_sq(p, score, critic, lam, t)) for t in steps]
    at_one = norms(1.0, (200, 400))
    assert at_one[1] / at_one[0] == pytest.approx(0.5, rel=0.02)
    below = norms(0.5, (200, 400))
    assert below[1] / below[0] > 0.95


def test_several_recurrent_classes_are_refused():
    prob = np.eye(2)[:, None, :].repeat(2, 1)
    states = np.broadcast_to(np.arange(2), prob.shape)
    mdp = FiniteMDP.from_arrays(prob, states, 0.0, False, [0.5, 0.5])
    with pytest.raises(exact.NotErgodic):
        exact.stationary(exact.problem(mdp, np.full((2, 2), 0.5), 0.9))


def test_the_stationary_distribution_is_the_one_a_long_walk_visits():
    mdp, p, _ = a_problem(limit=20)
    d = exact.visits(p)
    rng, counts = np.random.default_rng(1), np.zeros(mdp.num_states)
    s, k = 0, 0
    for _ in range(60_000):
        counts[s] += 1
        a = rng.choice(mdp.num_actions, p=p.policy[s])
        o = rng.choice(mdp.prob.shape[2], p=mdp.prob[s, a])
        done = mdp.terminated[s, a, o] or k + 1 == 20
        s, k = (rng.choice(mdp.num_states, p=mdp.rho), 0) if done else (mdp.next_state[s, a, o], k + 1)
    assert np.abs(counts / counts.sum() - d).max() < 0.015


@pytest.mark.parametrize("env_id", ["CliffWalking-v1", "Taxi-v4", "FrozenLake8x8-v1"])
def test_every_toy_text_environment_has_an_exact_gradient(env_id):
    mdp = FiniteMDP.from_gymnasium(env_id)
    policy = softmax(0.3 * RNG.normal(size=(mdp.num_states, mdp.num_actions)))
    p = exact.problem(mdp, policy, 0.99, mdp.time_limit or 200)
    assert np.isclose(exact.visits(p).sum(), 1)
    assert np.isfinite(exact.values(p)).all()


@pytest.fixture(scope="module")
def chain():
    return Bench(Cell(sticky_chain(), 4, 0.9, limited=False, num_rows=4096))


def test_every_second_moment_of_the_sticky_chain_is_that_of_all_its_trajectories(chain):
    variance, individual, covariance, mean, lags = moments(chain.problem, chain.score, chain.critic, 0.9, 4)
    assert covariance / variance > 0.2  # large enough for an error in it to show
    assert np.allclose(mean, chain.expected)
    rows = chain.sampler.draw(0, 0)
    measured = measure(chain.measurer, lambda _: rows, 1)
    found = decompose_rows(measured.rows, 1)
    for estimate, truth in ((found.variance, variance), (found.individual, individual), (found.covariance, covariance)):
        width = estimate.hi - estimate.lo
        assert estimate.lo - 0.5 * width <= truth <= estimate.hi + 0.5 * width
    assert found.lag_covariance == pytest.approx(lags, rel=0.1, abs=0.05 * lags[0])
    identity = (found.lag_covariance * np.array([4, 6, 4, 2])).sum() / 16
    assert identity == pytest.approx(found.variance.value, rel=1e-5)


def test_variance_is_that_of_many_independent_batches(chain):
    """Var(G_B) at N = 8 against the scatter of 2,000 batches of 8 rows."""
    means = []
    for seed in range(4):
        rows = chain.sampler.draw(100 + seed, 0)
        measured = measure(chain.measurer, lambda _, rows=rows: rows, 1)
        row_means = measured.reference + measured.differences
        means.append(row_means.reshape(512, 8, -1).mean(1))
    batches = np.concatenate(means)[:2000]
    scatter = ((batches - batches.mean(0)) ** 2).sum(1)
    variance = moments(chain.problem, chain.score, chain.critic, 0.9, 4)[0] / 8
    error = scatter.std() / np.sqrt(len(scatter))
    assert abs(scatter.sum() / (len(scatter) - 1) - variance) < 3 * error


@pytest.mark.parametrize("cell", [0, 1], ids=["frozenlake limited", "chain unlimited"])
def test_a_slice_of_the_calibration(cell):
    """Bias and mean gradient against exact answers, coverage not far from 95%; `make calibrate` does the whole."""
    lake = Cell(FiniteMDP.from_gymnasium("FrozenLake-v1"), 4, 0.9, limited=True, num_rows=512)
    bench = Bench((lake, Cell(sticky_chain(), 4, 1.0, limited=False, num_rows=512))[cell])
    outcome = bench.run(24)
    _, lo, hi = outcome.mean_error_sq
    assert lo - (hi - lo) <= 0 <= hi + (hi - lo)
    shares = coverage(outcome)
    assert min(shares.values()) >= 0.7, shares
    assert np.isfinite(outcome.estimates).all(axis=2).mean() >= 0.9, "an interval that claims nothing covers everything"
    mean_bias = outcome.estimates[:, 4, 0]
    assert abs(mean_bias.mean() - outcome.exact_bias_sq) < 4 * mean_bias.std() / np.sqrt(24) + 1e-12


def test_reference_rows_estimate_the_true_gradient(chain):
    rows = chain.sampler.draw(5, 0)
    measured = measure(chain.measurer, lambda _: rows, 1)
    true = exact.true_gradient(chain.problem, chain.score)
    error = measured.reference.mean(0) - true
    spread = measured.reference.std(0) / np.sqrt(len(measured.reference))
    assert (np.abs(error) < 5 * spread + 1e-3 * np.abs(true).max()).all()


def test_a_limit_shorter_than_the_row_is_in_the_expectation_and_not_in_the_reference():
    """Every row of 4 steps is cut by the limit of 3: the estimator bootstraps there, the reference goes on."""
    cell = Cell(dataclasses.replace(sticky_chain(), time_limit=3), 4, 0.9, True, num_rows=1024)
    bench = Bench(cell, seed=9, critic_error=5.0)  # so wrong that where it is asked shows
    draws = [measure(bench.measurer, lambda _, k=k: bench.sampler.draw(k, 0), 1) for k in range(32)]
    reference, differences = (np.concatenate([getattr(d, n) for d in draws]) for n in ("reference", "differences"))
    true = exact.true_gradient(bench.problem, bench.score)
    for rows, expected in ((reference + differences, bench.expected), (reference, true)):
        spread = rows.std(0) / np.sqrt(len(rows))
        assert (np.abs(rows.mean(0) - expected) < 5 * spread + 1e-3 * np.abs(expected).max()).all()
    assert np.linalg.norm(bench.expected - true) > 0.1 * np.linalg.norm(true)  # far enough apart to tell


def test_keys_are_the_only_randomness(chain):
    a, b = chain.sampler.draw(3, 0), chain.sampler.draw(3, 0)
    assert all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a.samples), jax.tree.leaves(b.samples)))
    assert not np.array_equal(a.samples.advantage, chain.sampler.draw(4, 0).samples.advantage)
