"""Running statistics of observations, rewards, value targets and advantages.

They are frozen while a batch is collected and learned from, and updated after.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from trimtab.math import across_devices

Scalar = float | Float[Array, ""]


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations, merged batch by batch (Chan et al. 1983)."""

    count: Float[Array, ""]  # type: ignore[assignment]  # tuples have a method of this name
    mean: Float[Array, "*shape"]
    deviation: Float[Array, "*shape"]

    @property
    def std(self) -> Float[Array, "*shape"]:
        """Standard deviation; 1 while nothing has been seen."""
        variance = self.deviation / jnp.maximum(self.count, 1.0)
        return jnp.where(self.count > 1, jnp.sqrt(variance + 1e-8), 1.0)


def moments(shape: tuple[int, ...] = ()) -> Moments:
    return Moments(jnp.zeros(()), jnp.zeros(shape), jnp.zeros(shape))


def merge(old: Moments, samples: Float[Array, " B *shape"], weight: Float[Array, " B"]) -> Moments:
    """Add samples, each counted `weight` times (0 leaves a row out)."""
    weight_of = weight.reshape(weight.shape + (1,) * (samples.ndim - 1))
    count, total = across_devices.psum_tree((weight.sum(), (weight_of * samples).sum(0)))
    safe = jnp.maximum(count, 1.0)
    mean = total / safe
    deviation = across_devices.psum_tree((weight_of * (samples - mean[None]) ** 2).sum(0))
    all_counted = jnp.maximum(old.count + count, 1.0)
    gap = mean - old.mean
    return Moments(
        old.count + count,
        old.mean + gap * (count / all_counted),
        old.deviation + deviation + gap**2 * (old.count * count / all_counted),
    )


def normalize_obs(obs: Float[Array, "*batch *shape"], stats: Moments, clip: Scalar) -> Float[Array, "*batch *shape"]:
    """(obs - mean) / std, clipped."""
    lead = (1,) * (obs.ndim - stats.mean.ndim)
    mean, std = stats.mean.reshape(lead + stats.mean.shape), stats.std.reshape(lead + stats.mean.shape)
    return jnp.clip((obs - mean) / std, -clip, clip)


class RewardScale(NamedTuple):
    """Discounted sum of past rewards in each environment, and the moments of that sum."""

    total: Float[Array, " N"]
    stats: Moments


def scale_reward(reward: Float[Array, "T N"], scale: RewardScale, clip: Scalar) -> Float[Array, "T N"]:
    return jnp.clip(reward / scale.stats.std, -clip, clip)


def update_reward_scale(
    scale: RewardScale,
    reward: Float[Array, "T N"],
    done: Bool[Array, "T N"],
    valid: Bool[Array, "T N"],
    gamma: Scalar,
) -> RewardScale:
    """R_t = γ R_{t-1} (1 - done_{t-1}) + r_t, and its moments."""

    def step(total, row):
        reward, done, valid = row
        total = jnp.where(valid, gamma * total + reward, total)
        return jnp.where(done, 0.0, total), total

    last, totals = jax.lax.scan(step, scale.total, (reward, done, valid))
    return RewardScale(last, merge(scale.stats, totals.reshape(-1), valid.reshape(-1).astype(reward.dtype)))


def popart(old: Moments, new: Moments) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(scale, shift) of a normalized value head that keep μ + σ V as the moments change (van Hasselt et al. 2016).

    V' = (σ V + μ - μ') / σ'
    """
    return old.std / new.std, (old.mean - new.mean) / new.std


class AdvantageMoments(NamedTuple):
    """Moments of advantages in which earlier iterations count less and less.

    Deviations from the mean, not squares: E[x²] − mean² has no digits left where the mean is large.
    """

    count: Float[Array, ""]  # type: ignore[assignment]  # tuples have a method of this name
    mean: Float[Array, ""]
    deviation: Float[Array, ""]

    @property
    def std(self) -> Float[Array, ""]:
        return jnp.sqrt(self.deviation / jnp.maximum(self.count, 1e-8))


def advantage_moments() -> AdvantageMoments:
    return AdvantageMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))


def update_advantage_moments(
    old: AdvantageMoments, advantage: Float[Array, "*B"], weight: Float[Array, "*B"], decay: Scalar
) -> AdvantageMoments:
    """x̄ ← β x̄ + x for the count, the sum and the sum of squares; decay 0 forgets all but this batch."""
    decayed_moments = Moments(decay * old.count, old.mean, decay * old.deviation)
    return AdvantageMoments(*merge(decayed_moments, advantage.reshape(-1), weight.reshape(-1)))


def with_ddof(std: Float[Array, ""], count: Float[Array, ""], ddof: int) -> Float[Array, ""]:
    """A standard deviation of `count` samples that was divided by n, divided by n - `ddof` instead."""
    return std * jnp.sqrt(count / jnp.maximum(count - ddof, 1.0)) if ddof else std


def standardize(advantage: Float[Array, "*B"], mean: Float[Array, ""], std: Float[Array, ""]) -> Float[Array, "*B"]:
    return (advantage - mean) / (std + 1e-8)
