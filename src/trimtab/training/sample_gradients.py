"""Per-sample policy gradients g_i = ∇_θ [ A_i log π_θ(a_i|s_i) ], three ways behind one interface.

- `layers`: for dense networks. With layer inputs X and output sensitivities D, g_i is the outer product x_i d_iᵀ (and
  d_i for the bias), so Gram matrices and sums over samples need no [samples, parameters] array.
- `chunks`: exact for any network, a few samples at a time.
- `projection`: a seeded sketch of k numbers per sample, for networks whose gradients are too large to keep. Signs and
  a permutation are random, parameters are summed in k groups; an inner product a·b is unbiased with standard error
  √((|a|² |b|² + (a·b)²)/k) at most, so a relative error of √(2/k).

θ is the flat policy vector: every parameter the policy depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from trimtab.math import objectives
from trimtab.nets.agent import Agent, Params
from trimtab.nets.mlp import ACTIVATIONS, MLP

METHODS = ("layers", "chunks", "projection")
LARGE = 100_000  # parameters from which gradients are sketched unless asked otherwise
SKETCH = 8192
FEW = 8  # columns up to which inner products are written out
CHUNK_FLOATS = 1 << 25  # at most this many gradient entries exist at once (128 MiB)


class Samples(NamedTuple):
    """What a policy gradient needs of each sample; one leading axis [B]. `target` only for the full objective."""

    obs: Array
    action: Array
    advantage: Float[Array, " B"]
    target: Float[Array, " B"]


class _Layer(NamedTuple):
    """A dense layer's inputs and the objective's sensitivity to its outputs, per sample."""

    inputs: Float[Array, "B i"]
    sensitivity: Float[Array, "B o"]


class Factors(NamedTuple):
    """All layers in the order of the flat vector, the free vector (log σ) if there is one, and unused parameters."""

    layers: tuple[_Layer, ...]
    free: Float[Array, "B d"] | None
    unused: int


@dataclass(frozen=True)
class FullObjective:
    """Entropy and value terms beside the policy term, with their coefficients."""

    ent_coef: float
    vf_coef: float


class PerSample:
    """Per-sample gradients of one agent by one method; all methods are pure and can be jitted or vmapped."""

    def __init__(
        self,
        agent: Agent,
        method: str = "auto",
        full: FullObjective | None = None,
        sketch: int = SKETCH,
        seed: int = 0,
    ):
        self.agent, self.full = agent, full
        self.num_parameters = sum(int(np.prod(s)) for s in agent.policy_layout.values())
        self.method = _choose(agent, method, full, self.num_parameters)
        self.width = min(sketch, self.num_parameters) if self.method == "projection" else self.num_parameters
        self._sketch_key = jax.random.key(seed)

    @property
    def relative_error(self) -> float:
        """Standard error of an inner product over |a||b|; 0 where gradients are exact."""
        return float(np.sqrt(2 / self.width)) if self.method == "projection" else 0.0

    # The objective of one sample ---------------------------------------------------------------------------

    def objective(self, params: Params, sample: Samples) -> Float[Array, ""]:
        """A log π(a|s), plus the other terms of the full objective if requested."""
        one = jax.tree.map(lambda x: x[None], sample)
        agent = self.agent
        if self.full is None:
            dist = agent.policy(params.policy, one.obs)
            return objectives.policy_gradient(agent.dist.logp(dist, one.action), one.advantage)[0]
        dist, value = agent.both(params, one.obs)
        gain = objectives.policy_gradient(agent.dist.logp(dist, one.action), one.advantage)
        gain = gain + self.full.ent_coef * agent.dist.entropy(dist)
        return (gain - self.full.vf_coef * objectives.value_loss(value, one.target, value, None))[0]

    def mean_gradient(self, params: Params, samples: Samples, weight: Float[Array, " B"]) -> Float[Array, " P"]:
        """Gradient of Σ weight · objective, in full (not sketched)."""
        total = lambda policy: (
            weight * jax.vmap(lambda s: self.objective(params._replace(policy=policy), s))(samples)
        ).sum()
        return jax.grad(total)(params.policy)

    # Vectors, sums and Gram matrices -----------------------------------------------------------------------

    def vectors(self, params: Params, samples: Samples) -> Float[Array, "B width"]:
        """g_i as rows, exact or sketched."""
        if self.method == "layers":
            return _assemble(self.factors(params, samples))
        one = lambda s: jax.grad(lambda policy: self.objective(params._replace(policy=policy), s))(params.policy)
        if self.method == "chunks":
            return jax.vmap(one)(samples)
        return jax.vmap(lambda s: self.sketch(one(s)))(samples)

    def sketch(self, vector: Float[Array, " P"]) -> Float[Array, " width"]:
        """Random signs, a random permutation, sums over equal groups: linear, so sums of g_i sketch too."""
        if self.method != "projection":
            return vector
        order_key, sign_key = jax.random.split(self._sketch_key)
        order = jax.random.permutation(order_key, self.num_parameters)
        signs = jax.random.rademacher(sign_key, (self.num_parameters,), vector.dtype)
        groups = -(-self.num_parameters // self.width)
        padded = jnp.pad((signs * vector)[order], (0, groups * self.width - self.num_parameters))
        return padded.reshape(groups, self.width).sum(0)

    def factors(self, params: Params, samples: Samples) -> Factors:
        """Layer inputs and sensitivities (dense networks only)."""
        net = self.agent.policy_net(params.policy)
        layers = (*net.trunk.layers, net.head)
        activation = ACTIVATIONS[net.trunk.activation]

        def forward(taps, free, sample: Samples):
            x, inputs = self.agent.policy_view(sample.obs).reshape(-1), []
            for layer, tap in zip(layers, taps):
                inputs.append(x)
                x = layer(x) + tap
                if layer is not net.head:
                    x = activation(x)
            outputs = x if free is None else jnp.concatenate([x, free])
            return objectives.policy_gradient(self.agent.dist.logp(outputs, sample.action), sample.advantage), inputs

        taps = [jnp.zeros(layer.bias.shape) for layer in layers]
        gradient = jax.vmap(jax.grad(forward, argnums=(0, 1), has_aux=True), in_axes=(None, None, 0))
        (sensitivity, free), inputs = gradient(taps, net.log_std, samples)
        unused = 0 if net.auxiliary is None else net.auxiliary.weight.size + net.auxiliary.bias.size
        return Factors(tuple(map(_Layer, inputs, sensitivity)), free, unused)

    def gram(self, params: Params, samples: Samples) -> Float[Array, "B B"]:
        """All pairwise inner products."""
        if self.method == "layers":
            return _factor_gram(self.factors(params, samples))
        rows = chunked_vectors(self, params, samples)
        return rows @ rows.T


def _choose(agent: Agent, method: str, full: FullObjective | None, num_parameters: int) -> str:
    """The method to use: as asked, or by network and size."""
    dense = isinstance(jax.eval_shape(agent.policy_net, jnp.zeros(num_parameters)).trunk, MLP) and full is None
    if method == "auto":
        if dense:
            return "layers"
        return "projection" if num_parameters > LARGE else "chunks"
    if method not in METHODS:
        raise ValueError(f"method={method!r}: must be one of auto, {', '.join(METHODS)}")
    if method == "layers" and not dense:
        raise ValueError("method='layers': needs a dense network and the policy objective; nearest: chunks, projection")
    return method


def _assemble(factors: Factors) -> Float[Array, "B P"]:
    """g_i from its factors: for each layer x dᵀ and d, then the free vector, then zeros."""
    count = factors.layers[0].inputs.shape[0]
    parts = []
    for layer in factors.layers:
        outer = layer.inputs[:, :, None] * layer.sensitivity[:, None, :]
        parts += [outer.reshape(count, -1), layer.sensitivity]
    if factors.free is not None:
        parts.append(factors.free)
    if factors.unused:
        parts.append(jnp.zeros((count, factors.unused)))
    return jnp.concatenate(parts, axis=1)


def _factor_gram(factors: Factors) -> Float[Array, "B B"]:
    """g_i·g_j = Σ_layers (x_i·x_j + 1)(d_i·d_j) + free_i·free_j: the 1 is the bias."""
    free: Any = 0.0 if factors.free is None else _products(factors.free)
    return sum(((_products(x) + 1.0) * _products(d) for x, d in factors.layers), start=free)


def _products(x: Float[Array, "B i"]) -> Float[Array, "B B"]:
    """x_i·x_j. A few columns are written out: they become part of the sum they are used in and are never stored."""
    return sum(column[:, None] * column[None] for column in x.T) if x.shape[1] <= FEW else x @ x.T


def row_sums(factors: Factors, weight: Float[Array, "T N"]) -> Float[Array, "N P"]:
    """Σ_t weight_tn g_tn for every row n, sample (t, n) being at t N + n: one product per layer."""
    num_steps, num_envs = weight.shape
    apart = lambda x: x.reshape(num_steps, num_envs, -1)
    parts = []
    for layer in factors.layers:
        weighted = weight[:, :, None] * apart(layer.sensitivity)
        outer = jnp.einsum("tni,tno->nio", apart(layer.inputs), weighted)
        parts += [outer.reshape(num_envs, -1), weighted.sum(0)]
    if factors.free is not None:
        parts.append((weight[:, :, None] * apart(factors.free)).sum(0))
    if factors.unused:
        parts.append(jnp.zeros((num_envs, factors.unused)))
    return jnp.concatenate(parts, axis=1)


def chunked_vectors(per_sample: PerSample, params: Params, samples: Samples) -> Float[Array, "B width"]:
    """`vectors` with at most CHUNK_FLOATS unsketched gradient entries alive beside them."""
    if per_sample.method == "layers":
        return per_sample.vectors(params, samples)
    return by_chunks(per_sample, params, samples, lambda vectors: vectors)


def by_chunks(
    per_sample: PerSample,
    params: Params,
    samples: Samples,
    of: Callable[[Float[Array, "b width"]], Float[Array, "b k"]],
) -> Float[Array, "B k"]:
    """What `of` makes of every g_i, with at most CHUNK_FLOATS unsketched gradient entries alive."""
    count = samples.advantage.shape[0]
    size = int(max(1, min(count, CHUNK_FLOATS // per_sample.num_parameters)))
    chunks = -(-count // size)
    pad = lambda x: jnp.pad(x, [(0, chunks * size - count)] + [(0, 0)] * (x.ndim - 1))
    split = jax.tree.map(lambda x: pad(x).reshape(chunks, size, *x.shape[1:]), samples)
    rows = jax.lax.map(lambda s: of(per_sample.vectors(params, s)), split)
    return rows.reshape(chunks * size, -1)[:count]
