"""The slow, obvious twin of every fast estimator: loops over samples, one formula at a time."""

from __future__ import annotations

import itertools

import numpy as np


def trace_covariance(gradients, t, s):
    """Tr Cov(g_t, g_s) over rows, about the position means, with M − 1."""
    rows = len(gradients)
    mean_t = sum(gradients[m, t] for m in range(rows)) / rows
    mean_s = sum(gradients[m, s] for m in range(rows)) / rows
    return sum((gradients[m, t] - mean_t) @ (gradients[m, s] - mean_s) for m in range(rows)) / (rows - 1)


def decompose(gradients, num_envs):
    """(individual, covariance): sums of Tr Cov(g_t, g_s) over equal and over different positions."""
    steps = gradients.shape[1]
    pairs = list(itertools.product(range(steps), repeat=2))
    individual = sum(trace_covariance(gradients, t, s) for t, s in pairs if t == s)
    covariance = sum(trace_covariance(gradients, t, s) for t, s in pairs if t != s)
    return individual / (num_envs * steps**2), covariance / (num_envs * steps**2)


def lag_covariance(gradients):
    """C_k = 1/(T − k) Σ_t Tr Cov(g_t, g_{t+k}), all pairs of a row."""
    steps = gradients.shape[1]
    return [sum(trace_covariance(gradients, t, t + k) for t in range(steps - k)) / (steps - k) for k in range(steps)]


def masked_variance(gradients, mask, num_envs):
    """Var of the ratio Σ S_m / Σ n_m: 1/(N n̄²) Σ_m |S_m − n_m G|² / (M − 1), and G."""
    rows, steps = mask.shape
    total = sum(gradients[m, t] for m in range(rows) for t in range(steps) if mask[m, t])
    gradient = total / mask.sum()
    residuals = [
        sum((gradients[m, t] - gradient for t in range(steps) if mask[m, t]), start=np.zeros_like(total))
        for m in range(rows)
    ]
    mean_steps = mask.sum() / rows
    return sum(r @ r for r in residuals) / (rows - 1) / (num_envs * mean_steps**2), gradient


def decompose_iterations(gradients, num_envs):
    """(individual, within rows, between rows) of K iterations of N rows, by pairs.

    E[g_t·g_s] of one row, less μ_t·μ_s from pairs of rows of different iterations; E[R_r·R_s] from pairs of different
    rows of one iteration, less |μ|² from pairs of different iterations.
    """
    count, rows, steps, _ = gradients.shape
    apart = list(itertools.permutations(range(count), 2))
    mean = gradients.mean(axis=1)  # over the rows of an iteration, at every position

    def trace(t, s):
        own = sum(gradients[k, r, t] @ gradients[k, r, s] for k in range(count) for r in range(rows))
        return own / (count * rows) - sum(mean[k, t] @ mean[j, s] for k, j in apart) / len(apart)

    terms = {(t, s): trace(t, s) for t in range(steps) for s in range(steps)}
    individual = sum(value for (t, s), value in terms.items() if t == s)
    within = sum(value for (t, s), value in terms.items() if t != s)
    of_rows, of_batches = gradients.mean(axis=2), mean.mean(axis=1)
    pairs = [of_rows[k, r] @ of_rows[k, s] for k in range(count) for r, s in itertools.permutations(range(rows), 2)]
    shared = np.mean(pairs) - sum(of_batches[k] @ of_batches[j] for k, j in apart) / len(apart)
    scale = num_envs * steps**2
    return individual / scale, within / scale, (1 - 1 / num_envs) * shared


def carry(gradients):
    """(Var, individual): 1/(N T)² Σ_n of the variances over replicates, environment by environment."""
    _, num_envs, _, _ = gradients.shape
    terms = np.array([decompose(gradients[:, n], 1) for n in range(num_envs)])
    return terms.sum() / num_envs**2, terms[:, 0].sum() / num_envs**2


def squared_mean(rows):
    """Mean of D_m·D_m' over all pairs of different rows."""
    pairs = list(itertools.permutations(range(len(rows)), 2))
    return sum(rows[m] @ rows[k] for m, k in pairs) / len(pairs)


def subsampling_variance(samples, size):
    """Variance of the mean over every minibatch of that size."""
    means = [samples[list(chosen)].mean(axis=0) for chosen in itertools.combinations(range(len(samples)), size)]
    centre = np.mean(means, axis=0)
    return np.mean([(m - centre) @ (m - centre) for m in means])


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def sample_pairs(valid):
    """All ordered pairs of valid samples ((n, t), (m, s))."""
    samples = [tuple(index) for index in np.argwhere(valid)]
    return itertools.product(samples, repeat=2)


def cosine_correlation(gradients, episode, valid):
    """(cosines by lag within trajectories, cosines across rows), centred on the mean of valid samples."""
    centre = gradients[valid].mean(axis=0)
    within, across = {}, []
    for (n, t), (m, s) in sample_pairs(valid):
        if min(np.linalg.norm(gradients[n, t]), np.linalg.norm(gradients[m, s])) < 1e-12:
            continue
        value = cosine(gradients[n, t] - centre, gradients[m, s] - centre)
        if n == m and s > t and episode[n, t] == episode[n, s]:
            within.setdefault(s - t, []).append(value)
        if n < m:
            across.append(value)
    return within, across


def covariance_correlation(gradients, episode, valid):
    """(correlations by lag, across rows), each sample about the mean at its position over the other rows."""
    centred = {}
    for n, t in np.argwhere(valid):
        others = [gradients[m, t] for m in range(len(valid)) if m != n and valid[m, t]]
        if others:
            centred[n, t] = gradients[n, t] - sum(others) / len(others)
    within, across = {}, []
    for (n, t), (m, s) in itertools.product(centred, repeat=2):
        product = centred[n, t] @ centred[m, s]
        if n == m and s >= t and episode[n, t] == episode[n, s]:
            within.setdefault(s - t, []).append(product)
        if n < m:
            across.append(product)
    scale = np.mean(within[0])
    return {k: np.mean(v) / scale for k, v in within.items()}, np.mean(across) / scale


def trajectory_alignment(gradients, episode, valid):
    """cos(g_t, mean of its trajectory) for every valid sample long enough, by (n, t)."""
    values = {}
    for n, t in np.argwhere(valid):
        same = [gradients[n, s] for s in range(valid.shape[1]) if valid[n, s] and episode[n, s] == episode[n, t]]
        if np.linalg.norm(gradients[n, t]) >= 1e-12:
            values[n, t] = cosine(gradients[n, t], sum(same) / len(same))
    return values
