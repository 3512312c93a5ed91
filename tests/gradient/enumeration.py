"""Exact second moments by brute force: every T-step trajectory of a small MDP, with its probability."""

import itertools

import numpy as np


def trajectories(problem, num_steps):
    """(probability, states s_0..s_T, actions) from stationary starts; the MDP must not terminate."""
    from trimtab.gradient import exact

    start = exact.stationary(problem)
    num_states, num_actions = problem.policy.shape
    for states in itertools.product(range(num_states), repeat=num_steps + 1):
        for actions in itertools.product(range(num_actions), repeat=num_steps):
            chance = start[states[0]]
            for t in range(num_steps):
                chance *= problem.policy[states[t], actions[t]] * problem.going[states[t], actions[t], states[t + 1]]
            if chance > 0:
                yield chance, states, actions


def moments(problem, score, critic, gae_lambda, num_steps):
    """Exact (variance, individual, covariance, E[G_B]) of one row (N = 1), and C_k."""
    gamma = problem.gamma
    chances, rows = [], []
    for chance, states, actions in trajectories(problem, num_steps):
        advantage, later = np.zeros(num_steps), 0.0
        for t in reversed(range(num_steps)):
            s, a, after = states[t], actions[t], states[t + 1]
            delta = problem.reward[s, a] + gamma * critic[after] - critic[s]
            later = delta + gamma * gae_lambda * later
            advantage[t] = later
        chances.append(chance)
        rows.append([advantage[t] * score[states[t], actions[t]] for t in range(num_steps)])
    weight, g = np.array(chances), np.array(rows)
    mean = np.einsum("m,mtp->tp", weight, g)
    centred = g - mean
    total = centred.sum(1)
    variance = np.einsum("m,mp,mp->", weight, total, total) / num_steps**2
    individual = np.einsum("m,mtp,mtp->", weight, centred, centred) / num_steps**2
    lags = [
        np.einsum("m,mtp,mtp->", weight, centred[:, : num_steps - k], centred[:, k:]) / (num_steps - k)
        for k in range(num_steps)
    ]
    return variance, individual, variance - individual, mean.mean(0), np.array(lags)
