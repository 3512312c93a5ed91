"""The light probe: what one training batch shows of its own gradient, cheap enough to run along with training.

Linear in the number of samples: sums of per-sample gradients, over rows and over positions, and products at a few lags,
never all pairs. One batch has only N rows, so its variance is rough; `trimtab probe` draws replicates instead.

The variance between rows (what environments share, above all the phase of their episodes) is unknown here, and
`grad/variance` leaves it out. One iteration cannot identify it: what is common to all of its rows moves their mean, and
nothing tells that from the gradient itself. Differences of successive iterations do not either: the policy moves in
between, and phases come in order, so neighbours are more alike than two iterations drawn at random.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from trimtab.math import across_devices, returns
from trimtab.nets.agent import Agent, Params
from trimtab.training.rollout import Rollout
from trimtab.training.sample_gradients import Factors, PerSample, Samples, row_sums
from trimtab.training.state import Batch

LAGS = (1, 5, 20)


def light_probe(agent: Agent, params: Params, batch: Batch, rows: Rollout) -> dict[str, Float[Array, ""]]:
    """Metrics under grad/ from the samples of one iteration, flattened as (t, n) at t N + n."""
    num_envs = rows.reward.shape[1]
    per_sample = PerSample(agent, "auto")
    samples = Samples(batch.obs, batch.action, batch.advantage, batch.target)
    weight = batch.weight.reshape(-1, num_envs)
    if per_sample.method != "layers":
        by_row = jax.tree.map(
            lambda x: jnp.moveaxis(x.reshape(weight.shape + x.shape[1:]), 1, 0), (samples, batch.weight)
        )
        sums = jax.lax.map(lambda row: per_sample.mean_gradient(params, *row), by_row)
        return _of_sums(sums, weight)
    factors = per_sample.factors(params, samples)
    sums = row_sums(factors, weight)
    metrics = _of_sums(sums, weight)
    mean = across_devices.pmean_tree(sums.sum(0) / batch.weight.shape[0])
    square, along = _squares(factors), _along(factors, mean, agent)
    valid = (batch.weight > 0).astype(jnp.float32)
    count = across_devices.psum_tree(valid.sum())
    centred = jnp.maximum(square - 2 * along + mean @ mean, 0.0)
    individual = _individual(factors, weight > 0, centred, along, mean)
    variance = metrics["grad/variance"]
    cosine = along / jnp.maximum(jnp.sqrt(square) * jnp.linalg.norm(mean), 1e-12)
    metrics |= {
        "grad/individual": individual,
        "grad/covariance": variance - individual,
        "grad/ess": count * individual / jnp.maximum(variance, 1e-30),
        "grad/cosine_batch_mean": across_devices.psum_tree((valid * cosine).sum()) / count,
    }
    episode = returns.episode_index(rows.terminated, rows.truncated)
    for lag in LAGS:
        if lag < len(weight):
            metrics[f"grad/cosine_lag{lag}"] = _cosine_at(
                factors, lag * num_envs, along, centred, mean, valid, episode, lag
            )
    return metrics


def _of_sums(sums: Float[Array, "N P"], weight: Float[Array, "T N"]) -> dict[str, Float[Array, ""]]:
    """Var(G_B) and |G| from row sums S_n: of S_n − w_n G, for rows that have fewer samples count for less."""
    num_steps, num_envs = len(weight), across_devices.global_size(sums.shape[0])
    mean = across_devices.pmean_tree(sums.mean(0)) / num_steps
    residual = sums - weight.sum(0)[:, None] * mean[None]
    spread = across_devices.psum_tree((residual**2).sum()) / max(num_envs - 1, 1)
    variance = spread / (num_envs * num_steps**2) if num_envs > 1 else jnp.full((), jnp.nan)
    return {"grad/policy_norm": jnp.linalg.norm(mean), "grad/variance": variance}


def _individual(
    factors: Factors, valid: Bool[Array, "T N"], centred: Float[Array, " B"], along: Float[Array, " B"], mean
) -> Float[Array, ""]:
    """Σ_t Tr Cov(g_t) / (N T²) about position means: Σ_n |x|² − |Σ_n x|²/N of x = valid (g − G), with N − 1."""
    num_envs = across_devices.global_size(valid.shape[1])
    if num_envs == 1:
        return jnp.full((), jnp.nan)
    counted = valid.astype(jnp.float32)
    total_sq = _position_squares(factors, counted)
    by_position = lambda per_sample: (counted * per_sample.reshape(valid.shape)).sum(1)
    samples, total_along, squares = across_devices.psum_tree((counted.sum(1), by_position(along), by_position(centred)))
    of_sums = total_sq - 2 * samples * total_along + samples**2 * (mean @ mean)
    spread = (squares - of_sums / num_envs).sum() / (num_envs - 1)
    return spread * num_envs / samples.sum() ** 2


def _position_squares(factors: Factors, counted: Float[Array, "T N"]) -> Float[Array, " T"]:
    """|Σ_n g_tn|² at every position t, one sum of gradients at a time."""
    apart = lambda x: x.reshape(*counted.shape, -1)

    def at(position) -> Float[Array, ""]:
        weight, layers, free = position
        weighted = [(x, weight[:, None] * d) for x, d in layers]
        parts = [part for x, d in weighted for part in (x.T @ d, d.sum(0))]
        parts += [] if free is None else [(weight[:, None] * free).sum(0)]
        return sum((part**2).sum() for part in across_devices.psum_tree(parts))

    layers = [(apart(x), apart(d)) for x, d in factors.layers]
    return jax.lax.map(at, (counted, layers, None if factors.free is None else apart(factors.free)))


def _squares(factors: Factors) -> Float[Array, " B"]:
    """|g_i|² = Σ (|x_i|² + 1)|d_i|² + |free_i|²."""
    total: Any = sum(((x**2).sum(1) + 1.0) * (d**2).sum(1) for x, d in factors.layers)
    return total if factors.free is None else total + (factors.free**2).sum(1)


def _along(factors: Factors, mean: Float[Array, " P"], agent: Agent) -> Float[Array, " B"]:
    """g_i·G, layer by layer: x_iᵀ M d_i."""
    net = agent.policy_net(mean)
    total = jnp.zeros(())
    for (x, d), layer in zip(factors.layers, (*net.trunk.layers, net.head)):
        total = total + ((x @ layer.weight) * d).sum(1) + d @ layer.bias
    return total if factors.free is None or net.log_std is None else total + factors.free @ net.log_std


def _cosine_at(factors: Factors, shift: int, along, centred, mean, valid, episode, lag: int) -> Float[Array, ""]:
    """Mean of cos(g_i - G, g_j - G) over pairs `lag` steps apart in one trajectory."""
    product = sum(((x[:-shift] * x[shift:]).sum(1) + 1.0) * (d[:-shift] * d[shift:]).sum(1) for x, d in factors.layers)
    if factors.free is not None:
        product = product + (factors.free[:-shift] * factors.free[shift:]).sum(1)
    product = product - along[:-shift] - along[shift:] + mean @ mean
    same = (episode[:-lag] == episode[lag:]).reshape(-1) * valid[:-shift] * valid[shift:]
    cosine = product / jnp.maximum(jnp.sqrt(centred[:-shift] * centred[shift:]), 1e-12)
    total, pairs = across_devices.psum_tree(((same * cosine).sum(), same.sum()))
    return total / jnp.maximum(pairs, 1.0)
