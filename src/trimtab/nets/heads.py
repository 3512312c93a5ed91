"""Action distributions as functions of a parameter vector, so that they batch, store and differentiate plainly."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Categorical(NamedTuple):
    """Parameters: n logits."""

    n: int

    @property
    def num_outputs(self) -> int:
        return self.n

    @property
    def action_shape(self) -> tuple[int, ...]:
        return ()

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape n"]:
        """Randomness of `shape` actions, drawn ahead of a rollout in one call."""
        return jax.random.gumbel(key, (*shape, self.n))

    def sample(self, params: Float[Array, "*b n"], noise: Float[Array, "*b n"]) -> Int[Array, "*b"]:
        return jnp.argmax(params + noise, axis=-1).astype(jnp.int32)

    def mode(self, params: Float[Array, "*b n"]) -> Int[Array, "*b"]:
        return jnp.argmax(params, axis=-1).astype(jnp.int32)

    def logp(self, params: Float[Array, "*b n"], action: Int[Array, "*b"]) -> Float[Array, "*b"]:
        # A one-hot product, not a gather: its transpose is a product too, and scatters are slow on CPU.
        taken = jax.nn.one_hot(action, self.n, dtype=params.dtype)
        return (jax.nn.log_softmax(params) * taken).sum(-1)

    def entropy(self, params: Float[Array, "*b n"]) -> Float[Array, "*b"]:
        logp = jax.nn.log_softmax(params)
        return -(jnp.exp(logp) * logp).sum(-1)

    def kl(self, p: Float[Array, "*b n"], q: Float[Array, "*b n"]) -> Float[Array, "*b"]:
        """KL[p, q]."""
        logp, logq = jax.nn.log_softmax(p), jax.nn.log_softmax(q)
        return (jnp.exp(logp) * (logp - logq)).sum(-1)


class Gaussian(NamedTuple):
    """Parameters: d means, then d log standard deviations. Actions are unclipped; the environment gets them clipped."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def d(self) -> int:
        return len(self.low)

    @property
    def num_outputs(self) -> int:
        return self.d

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (self.d,)

    def split(self, params: Float[Array, "*b d2"]) -> tuple[Float[Array, "*b d"], Float[Array, "*b d"]]:
        return params[..., : self.d], params[..., self.d :]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape d"]:
        return jax.random.normal(key, (*shape, self.d))

    def sample(self, params: Float[Array, "*b d2"], noise: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
        mean, log_std = self.split(params)
        return mean + jnp.exp(log_std) * noise

    def mode(self, params: Float[Array, "*b d2"]) -> Float[Array, "*b d"]:
        return self.split(params)[0]

    def logp(self, params: Float[Array, "*b d2"], action: Float[Array, "*b d"]) -> Float[Array, "*b"]:
        mean, log_std = self.split(params)
        z = (action - mean) * jnp.exp(-log_std)
        return (-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, params: Float[Array, "*b d2"]) -> Float[Array, "*b"]:
        _, log_std = self.split(params)
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, p: Float[Array, "*b d2"], q: Float[Array, "*b d2"]) -> Float[Array, "*b"]:
        """KL[p, q]."""
        mean_p, log_p = self.split(p)
        mean_q, log_q = self.split(q)
        ratio = jnp.exp(2 * (log_p - log_q))
        return (log_q - log_p + 0.5 * (ratio + ((mean_p - mean_q) * jnp.exp(-log_q)) ** 2 - 1.0)).sum(-1)


Distribution = Categorical | Gaussian


def clip_action(dist: Distribution, action):
    """What the environment receives: Gaussian actions clipped to the box."""
    if isinstance(dist, Categorical):
        return action
    low, high = (jnp.broadcast_to(jnp.asarray(x, action.dtype), action.shape) for x in (dist.low, dist.high))
    return jnp.clip(action, low, high)
