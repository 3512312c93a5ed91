"""Slow, obvious twins of the engine's mathematics: NumPy, float64, one loop per index."""

from __future__ import annotations

import numpy as np


def gae(reward, value, next_value, terminated, truncated, gamma, lam, valid=None):
    """Every advantage as its own forward sum of discounted errors, stopped at the first cut."""
    steps, envs = reward.shape
    valid = np.ones((steps, envs), bool) if valid is None else valid
    advantage = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                if not valid[k, n]:
                    break
                bootstrap = 0.0 if terminated[k, n] else gamma * next_value[k, n]
                advantage[t, n] += weight * (reward[k, n] + bootstrap - value[k, n])
                if terminated[k, n] or truncated[k, n]:
                    break
                weight *= gamma * lam
    return advantage, advantage + value


def reward_to_go(reward, terminated, truncated, gamma):
    """What followed until the episode's (or the row's) end."""
    steps, envs = reward.shape
    out = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                out[t, n] += gamma ** (k - t) * reward[k, n]
                if terminated[k, n] or truncated[k, n]:
                    break
    return out


def clipped(logp, logp_prox, logp_behav, advantage, clip_coef, cap=100.0):
    """One sample of the decoupled clipped objective; the cap is a constant of the current ratio."""
    behav = np.exp(logp_behav)
    if np.exp(logp) / behav > cap:
        behav = np.exp(logp) / cap
    ratio = np.exp(logp) / np.exp(logp_prox)
    bounded = min(max(ratio, 1 - clip_coef), 1 + clip_coef)
    return np.exp(logp_prox) / behav * min(ratio * advantage, bounded * advantage)


def clipped_gradient(logp, logp_prox, logp_behav, advantage, clip_coef, cap=100.0):
    """d/dlogp of the above: π/π_behav A where the clip does not bind, 0 where it does."""
    ratio = np.exp(logp - logp_prox)
    if (advantage > 0 and ratio > 1 + clip_coef) or (advantage < 0 and ratio < 1 - clip_coef):
        return 0.0
    return min(np.exp(logp - logp_behav), cap) * advantage


def weighted_average(values, decay):
    """Σ βᵏ x_{t-k} / Σ βᵏ, written out."""
    weights = np.array([decay**k for k in range(len(values))])[::-1]
    return np.tensordot(weights, np.asarray(values), 1) / weights.sum()


def mean_age(terms, decay):
    """Σ k βᵏ / Σ βᵏ over this many terms, written out."""
    weights = np.array([decay**k for k in range(terms)])
    return (np.arange(terms) * weights).sum() / weights.sum()


def discounted_sums(reward, done, valid, gamma, total):
    """The discounted sums that normalize rewards, in the order they occur, and where each environment stands."""
    total, seen = np.array(total, np.float64), []
    for t in range(len(reward)):
        for n in range(reward.shape[1]):
            if valid[t, n]:
                total[n] = gamma * total[n] + reward[t, n]
                seen.append(total[n])
            if done[t, n]:
                total[n] = 0.0
    return np.array(seen), total
