"""How alike gradients are: along a trajectory, across environments, with their means.

Everything is computed from the Gram matrix of the samples of a batch, [N T, N T], sample (n, t) at n T + t,
so per-sample gradients need never exist. `episode` [N, T] numbers the episodes; a trajectory is the part of a
row with one number. `valid` [N, T] is false at samples that are not experience: they enter nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

SMALLEST_NORM = 1e-12
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_VALUES = 10_000


@dataclass(frozen=True)
class Distribution:
    """Cosines of many pairs: their mean and quantiles, and at most 10,000 of the values (a seeded choice)."""

    mean: float
    quantiles: Float[np.ndarray, " levels"]
    values: Float[np.ndarray, " kept"]
    num_pairs: int


@dataclass(frozen=True)
class CosineCorrelation:
    """Cosines within trajectories at lags 1, 2, ... and across environments; samples left out."""

    lags: tuple[Distribution, ...]
    across: Distribution
    num_left_out: int


@dataclass(frozen=True)
class CovarianceCorrelation:
    """E[(g_i − μ)·(g_j − μ)] / E|g − μ|² within trajectories at lags 0, 1, ... and across environments."""

    lags: Float[np.ndarray, " lags"]
    across: float


@dataclass(frozen=True)
class TrajectoryAlignment:
    """cos(g_t, mean of its trajectory), and t counted from the first sample of the trajectory in its row."""

    cosine: Float[np.ndarray, "N T"]
    step: Int[np.ndarray, "N T"]
    num_left_out: int


def gram_matrix(gradients: ArrayLike) -> Float[np.ndarray, "samples samples"]:
    """Inner products of all pairs of samples, from gradients [..., P]; leading axes are flattened."""
    gradients = np.asarray(gradients, dtype=np.float64)
    flat = gradients.reshape(-1, gradients.shape[-1])
    return flat @ flat.T


def cosine_matrix(gram: ArrayLike, usable: ArrayLike | None = None) -> Float[np.ndarray, "samples samples"]:
    """cos(g_i, g_j) = g_i·g_j / (|g_i| |g_j|); NaN where either is not usable or shorter than 1e-12."""
    gram = np.asarray(gram, dtype=np.float64)
    norm = np.sqrt(np.maximum(np.diagonal(gram), 0))
    keep = norm >= SMALLEST_NORM if usable is None else (norm >= SMALLEST_NORM) & usable
    inverse = np.where(keep, 1 / np.where(keep, norm, 1), np.nan)
    return np.clip(gram * inverse * inverse[:, None], -1, 1)


def cosine_correlation(
    gram: ArrayLike, episode: ArrayLike, valid: ArrayLike | None = None, seed: int = 0
) -> CosineCorrelation:
    """cos(g_i − ḡ, g_j − ḡ), ḡ the batch mean: pairs of one trajectory by lag, and pairs across environments.

    The latter lie slightly below 0 on average: centring gives their inner products the mean −Var(G_B).
    """
    gram, episode, valid = _batch(gram, episode, valid)
    share = valid.ravel() / valid.sum()
    along = gram @ share
    centred = gram - along - along[:, None] + share @ along
    long_enough = np.diagonal(gram) >= SMALLEST_NORM**2
    cosine = cosine_matrix(centred, long_enough & valid.ravel())
    rng = np.random.default_rng(seed)
    within, across = _pairs(cosine, episode)
    lags = tuple(_distribution(pairs, rng) for pairs in within[1:])
    return CosineCorrelation(lags, _distribution(across, rng), int(np.sum(valid.ravel() & ~long_enough)))


def covariance_correlation(
    gram: ArrayLike, episode: ArrayLike, valid: ArrayLike | None = None
) -> CovarianceCorrelation:
    """E[(g_i − μ)·(g_j − μ)] / E|g − μ|², μ the mean at the same position over the other rows.

    Of two rows each is in the other's means: `across` lies below 0 for independent rows, by about 1/(N − 1) of the mean
    correlation along a row.
    """
    gram, episode, valid = _batch(gram, episode, valid)
    others = np.einsum("nt,mt->tnm", valid, valid) * (1 - np.eye(len(valid)))
    count = others.sum(axis=2, keepdims=True)
    centring = np.eye(len(valid)) - others / np.maximum(count, 1)
    products = gram.reshape(2 * valid.shape)
    products = np.einsum("tnk,ktms->ntms", centring, products, optimize=True)
    products = np.einsum("smk,ntks->ntms", centring, products, optimize=True).reshape(gram.shape)
    usable = (valid & (count[:, :, 0].T > 0)).ravel()
    products[~usable], products[:, ~usable] = np.nan, np.nan
    within, across = _pairs(products, episode)
    means = np.array([_mean(pairs) for pairs in within])
    return CovarianceCorrelation(means / means[0], float(_mean(across) / means[0]))


def trajectory_alignment(gram: ArrayLike, episode: ArrayLike, valid: ArrayLike | None = None) -> TrajectoryAlignment:
    """cos(g_t, trajectory mean) along every trajectory of the batch; NaN where it is left out."""
    gram, episode, valid = _batch(gram, episode, valid)
    blocks = np.einsum("ntns->nts", gram.reshape(2 * episode.shape))
    same = (episode[:, :, None] == episode[:, None, :]) & valid[:, :, None] & valid[:, None, :]
    step = np.sum(same & np.tri(episode.shape[1], k=-1, dtype=bool), axis=2)
    size = np.maximum(same.sum(axis=2), 1)
    along = np.sum(blocks * same, axis=2) / size
    mean_sq = np.einsum("nts,ns->nt", same, along) / size
    sample_sq = np.einsum("ntt->nt", blocks)
    cosine = _cosine(along, sample_sq, mean_sq, valid)
    return TrajectoryAlignment(cosine, step, int(np.sum(valid & (sample_sq < SMALLEST_NORM**2))))


def replicate_cosines(
    gram: ArrayLike, num_replicates: int, valid: ArrayLike | None = None
) -> Float[np.ndarray, "replicates replicates"]:
    """Cosines between the means of equal batches, from the Gram matrix of one batch after another."""
    gram, share = _replicates(gram, num_replicates, valid)
    return cosine_matrix(share @ gram @ share.T)


def _batch(gram, episode, valid) -> tuple[np.ndarray, np.ndarray, Bool[np.ndarray, "N T"]]:
    gram, episode = np.asarray(gram, dtype=np.float64), np.asarray(episode)
    valid = np.ones(episode.shape, dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
    if gram.shape != (episode.size, episode.size) or valid.shape != episode.shape:
        raise ValueError(f"gram: shape {gram.shape} does not belong to episodes of shape {episode.shape}")
    return np.where(valid.ravel() & valid.reshape(-1, 1), gram, 0.0), episode, valid


def _replicates(gram, num_replicates: int, valid) -> tuple[np.ndarray, Float[np.ndarray, "replicates all"]]:
    """The Gram matrix, and for every batch the weights over all samples that give its mean."""
    gram = np.asarray(gram, dtype=np.float64)
    if len(gram) % num_replicates:
        raise ValueError(f"num_replicates: {num_replicates} does not divide {len(gram)} samples")
    valid = np.ones(len(gram)) if valid is None else np.asarray(valid, dtype=np.float64).ravel()
    member = np.repeat(np.eye(num_replicates), len(gram) // num_replicates, axis=1) * valid
    return gram, member / member.sum(axis=1, keepdims=True)


def _pairs(matrix, episode) -> tuple[list[np.ndarray], np.ndarray]:
    """Entries of pairs in one trajectory, at every lag from 0, and of pairs in different rows, each once."""
    num_envs, num_steps = episode.shape
    blocks = np.einsum("ntns->nts", matrix.reshape(2 * episode.shape))
    within = []
    for lag in range(num_steps):
        same = episode[:, : num_steps - lag] == episode[:, lag:]
        within.append(np.diagonal(blocks, lag, axis1=1, axis2=2)[same])
    row = np.repeat(np.arange(num_envs), num_steps)
    return within, matrix[row[:, None] < row]


def _distribution(values, rng: np.random.Generator) -> Distribution:
    values = values[~np.isnan(values)]
    if not len(values):
        return Distribution(np.nan, np.full(len(QUANTILES), np.nan), values, 0)
    subset = values if len(values) <= MAX_VALUES else rng.choice(values, MAX_VALUES, replace=False)
    return Distribution(float(values.mean()), np.quantile(values, QUANTILES), subset, len(values))


def _mean(values) -> float:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan


def _cosine(product, sample_sq, mean_sq, usable) -> np.ndarray:
    """product / √(sample_sq mean_sq); NaN where a vector is shorter than 1e-12 or not usable."""
    keep = (sample_sq >= SMALLEST_NORM**2) & (mean_sq >= SMALLEST_NORM**2) & usable
    norms = np.sqrt(np.where(keep, sample_sq * mean_sq, 1.0))
    return np.where(keep, np.clip(product / norms, -1, 1), np.nan)


def alignment(
    products: Float[np.ndarray, "samples batches"],
    squares: Float[np.ndarray, " samples"],
    means: Float[np.ndarray, "batches P"],
    valid: Bool[np.ndarray, " samples"],
) -> Float[np.ndarray, "batches samples"]:
    """cos(g_i, mean of batch j) from g_i · mean_j and |g_i|²; not a number where one of them has no direction."""
    return _cosine(products.T, squares[None], np.einsum("ij,ij->i", means, means)[:, None], valid[None])
