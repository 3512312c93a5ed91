"""Action distributions as functions of a parameter vector, so that they batch, store and differentiate plainly."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Categorical(NamedTuple):
    """Parameters: n logits."""

    n: int

    @property
    def num_outputs(self) -> int:
        return self.n

    @property
    def num_params(self) -> int:
        return self.n

    @property
    def action_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def action_dtype(self):
        return jnp.int32

    def uniform(self, key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
        """Actions that owe nothing to a policy."""
        return jax.random.randint(key, (count,), 0, self.n, dtype=jnp.int32)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape n"]:
        """Randomness of `shape` actions, drawn ahead of a rollout in one call."""
        return jax.random.gumbel(key, (*shape, self.n))

    def sample(self, params: Float[Array, "*b n"], noise: Float[Array, "*b n"]) -> Int[Array, "*b"]:
        return jnp.argmax(params + noise, axis=-1).astype(jnp.int32)

    def mode(self, params: Float[Array, "*b n"]) -> Int[Array, "*b"]:
        return jnp.argmax(params, axis=-1).astype(jnp.int32)

    def logp(self, params: Float[Array, "*b n"], action: Int[Array, "*b"]) -> Float[Array, "*b"]:
        # A one-hot product, not a gather: its transpose is a product too, and scatters are slow on CPU.
        one_hot = jax.nn.one_hot(action, self.n, dtype=params.dtype)
        return (jax.nn.log_softmax(params) * one_hot).sum(-1)

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
    def num_params(self) -> int:
        return 2 * self.d

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def action_dtype(self):
        return jnp.float32

    def uniform(self, key: PRNGKeyArray, count: int) -> Float[Array, "count d"]:
        """Uniform in the box; where it has no bound, as far as a new policy reaches: one from the other bound or 0."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        bounded_low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1.0, -1.0))
        bounded_high = np.where(np.isfinite(high), high, np.where(np.isfinite(low), low + 1.0, 1.0))
        ends = jnp.asarray(bounded_low)[None], jnp.asarray(bounded_high)[None]
        return jax.random.uniform(key, (count, self.d), minval=ends[0], maxval=ends[1])

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


class MultiCategorical(NamedTuple):
    """Independent choices, one categorical each. Parameters: sizes[0] logits, then sizes[1], ..."""

    sizes: tuple[int, ...]

    @property
    def num_outputs(self) -> int:
        return sum(self.sizes)

    @property
    def num_params(self) -> int:
        return self.num_outputs

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (len(self.sizes),)

    @property
    def action_dtype(self):
        return jnp.int32

    def split(self, params: Float[Array, "*b outputs"]) -> list[tuple[Categorical, Array]]:
        """Each choice with its logits."""
        ends = [sum(self.sizes[: k + 1]) for k in range(len(self.sizes))]
        return [(Categorical(n), params[..., end - n : end]) for n, end in zip(self.sizes, ends)]

    def uniform(self, key: PRNGKeyArray, count: int) -> Int[Array, "count k"]:
        sizes = jnp.asarray(self.sizes, jnp.int32)
        return jax.random.randint(key, (count, len(self.sizes)), 0, sizes[None], dtype=jnp.int32)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape outputs"]:
        return jax.random.gumbel(key, (*shape, self.num_outputs))

    def sample(self, params: Float[Array, "*b outputs"], noise: Float[Array, "*b outputs"]) -> Int[Array, "*b k"]:
        return self.mode(params + noise)

    def mode(self, params: Float[Array, "*b outputs"]) -> Int[Array, "*b k"]:
        return jnp.stack([choice.mode(logits) for choice, logits in self.split(params)], axis=-1)

    def logp(self, params: Float[Array, "*b outputs"], action: Int[Array, "*b k"]) -> Float[Array, "*b"]:
        parts = [choice.logp(logits, action[..., k]) for k, (choice, logits) in enumerate(self.split(params))]
        return sum(parts)  # type: ignore[return-value]  # sum() starts at 0

    def entropy(self, params: Float[Array, "*b outputs"]) -> Float[Array, "*b"]:
        return sum(choice.entropy(logits) for choice, logits in self.split(params))  # type: ignore[return-value]  # sum() starts at 0

    def kl(self, p: Float[Array, "*b outputs"], q: Float[Array, "*b outputs"]) -> Float[Array, "*b"]:
        """KL[p, q]."""
        parts = [choice.kl(a, b) for (choice, a), (_, b) in zip(self.split(p), self.split(q))]
        return sum(parts)  # type: ignore[return-value]  # sum() starts at 0


class Bernoullis(NamedTuple):
    """Independent switches. Parameters: the log odds of each being on."""

    switches: int

    @property
    def num_outputs(self) -> int:
        return self.switches

    @property
    def num_params(self) -> int:
        return self.switches

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (self.switches,)

    @property
    def action_dtype(self):
        return jnp.int32

    def uniform(self, key: PRNGKeyArray, count: int) -> Int[Array, "count k"]:
        return jax.random.randint(key, (count, self.switches), 0, 2, dtype=jnp.int32)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "*shape k"]:
        """The difference of two Gumbels, as between the two choices of a categorical."""
        return jax.random.logistic(key, (*shape, self.switches))

    def sample(self, params: Float[Array, "*b k"], noise: Float[Array, "*b k"]) -> Int[Array, "*b k"]:
        return self.mode(params + noise)

    def mode(self, params: Float[Array, "*b k"]) -> Int[Array, "*b k"]:
        return (params > 0).astype(jnp.int32)

    def logp(self, params: Float[Array, "*b k"], action: Int[Array, "*b k"]) -> Float[Array, "*b"]:
        return jax.nn.log_sigmoid(jnp.where(action == 1, params, -params)).sum(-1)

    def entropy(self, params: Float[Array, "*b k"]) -> Float[Array, "*b"]:
        on = jax.nn.sigmoid(params)
        return -(on * jax.nn.log_sigmoid(params) + (1.0 - on) * jax.nn.log_sigmoid(-params)).sum(-1)

    def kl(self, p: Float[Array, "*b k"], q: Float[Array, "*b k"]) -> Float[Array, "*b"]:
        """KL[p, q], switch by switch: a difference of sums over many would lose what is left of small ones."""
        on, log = jax.nn.sigmoid(p), jax.nn.log_sigmoid
        return (on * (log(p) - log(q)) + (1.0 - on) * (log(-p) - log(-q))).sum(-1)


Distribution = Categorical | Gaussian | MultiCategorical | Bernoullis


def clip_action(dist: Distribution, action):
    """What the environment receives: Gaussian actions clipped to the box."""
    if not isinstance(dist, Gaussian):
        return action
    low, high = (np.asarray(x, action.dtype) for x in (dist.low, dist.high))
    if isinstance(action, np.ndarray):
        return np.clip(action, low, high)
    return jnp.clip(action, *(jnp.broadcast_to(x, action.shape) for x in (low, high)))
