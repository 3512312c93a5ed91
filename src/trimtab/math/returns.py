"""Advantages and returns along rows; every array is [T, N] and row t leads to row t + 1."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Scalar = float | Float[Array, ""]


def _backward_sum(term: Float[Array, "T N"], keep: Float[Array, "T N"]) -> Float[Array, "T N"]:
    """x_t = term_t + keep_t · x_{t+1} with x_T = 0, for all t in log T passes."""

    def combine(later, earlier):
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    return jax.lax.associative_scan(combine, (term, keep), reverse=True)[0]


def _alike(*arrays) -> list[Array]:
    """Numbers as floats, the last two, which mark ends, as booleans, all of one shape [T, N]: nothing is stretched."""
    *numbers, terminated, truncated = every = [jnp.asarray(array) for array in arrays]
    shapes = sorted({array.shape for array in every})
    if len(shapes) > 1:
        raise ValueError(f"arrays [T, N] of one shape are needed, not {', '.join(map(str, shapes))}")
    floats = [number.astype(jnp.result_type(number, jnp.float32)) for number in numbers]
    return [*floats, terminated.astype(bool), truncated.astype(bool)]


def gae(
    reward: Float[Array, "T N"],
    value: Float[Array, "T N"],
    next_value: Float[Array, "T N"],
    terminated: Bool[Array, "T N"],
    truncated: Bool[Array, "T N"],
    gamma: Scalar,
    gae_lambda: Scalar,
    valid: Bool[Array, "T N"] | None = None,
) -> tuple[Float[Array, "T N"], Float[Array, "T N"]]:
    """Generalized advantages and value targets (Schulman et al. 2016, arXiv 1506.02438).

    δ_t = r_t + γ (1 - terminated_t) V(s'_t) - V(s_t)
    A_t = δ_t + γ λ (1 - terminated_t)(1 - truncated_t) A_{t+1},  A_T = 0;  target = A + V

    `next_value` is the value of the observation the action really led to, so a truncated episode is bootstrapped
    from its own last state. Samples that are not experience (`valid` false) have advantage 0 and cut the sum.
    """
    reward, value, next_value, terminated, truncated = _alike(reward, value, next_value, terminated, truncated)
    keep = 1.0 - (terminated | truncated).astype(reward.dtype)
    following = jnp.where(terminated, 0.0, next_value)  # not a product: what was never used may be NaN
    delta = reward + gamma * following - value
    if valid is not None:
        delta = jnp.where(valid, delta, 0.0)
        keep = jnp.where(valid, keep, 0.0)
    advantage = _backward_sum(delta, gamma * gae_lambda * keep)
    return advantage, advantage + value


def reward_to_go(
    reward: Float[Array, "T N"],
    terminated: Bool[Array, "T N"],
    truncated: Bool[Array, "T N"],
    gamma: Scalar,
) -> Float[Array, "T N"]:
    """G_t = r_t + γ (1 - done_t) G_{t+1}: what really followed, nothing bootstrapped."""
    reward, terminated, truncated = _alike(reward, terminated, truncated)
    keep = 1.0 - (terminated | truncated).astype(reward.dtype)
    return _backward_sum(reward, gamma * keep)


def episode_index(terminated: Bool[Array, "T N"], truncated: Bool[Array, "T N"]) -> Int[Array, "T N"]:
    """Which episode of its row a sample belongs to, from 0."""
    done = (terminated | truncated).astype(jnp.int32)
    return jnp.cumsum(done, axis=0) - done
