"""Policy and value networks of a run, as functions of two flat parameter vectors.

The policy vector holds every parameter the policy depends on (and, for PPG, the auxiliary value head that trains its
trunk); the value vector holds the rest. One vector each makes the optimizer, the EWMA, gradient norms and per-sample
gradients single operations, and small networks train a third faster for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Num, PRNGKeyArray

from trimtab.nets.families import FAMILIES, TrunkShape
from trimtab.nets.heads import Bernoullis, Categorical, Distribution, Gaussian, MultiCategorical
from trimtab.nets.mlp import Dense


class Params(NamedTuple):
    """The two flat vectors."""

    policy: Float[Array, " P"]
    value: Float[Array, " V"]


class _PolicyNet(eqx.Module):
    """Trunk, action head, free log standard deviations (Gaussian), auxiliary value head (PPG)."""

    trunk: Any  # a module of the network family
    head: Dense
    log_std: Float[Array, " d"] | None
    auxiliary: Dense | None

    def act(self, features: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """Distribution parameters from the trunk's features."""
        outputs = self.head(features)
        return outputs if self.log_std is None else jnp.concatenate([outputs, self.log_std])


class _ValueNet(eqx.Module):
    """A trunk of its own (dual) or none, and the value head (none: there is no critic)."""

    trunk: Any
    head: Dense | None


Parts = tuple[tuple[int, int], ...]  # [start, stop) of a flat observation; none: all of it


class Agent:
    """Static description of the networks; every method is a pure function of `Params`.

    `actor_parts` and `critic_parts` are what each network sees of a flat observation.
    """

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        obs_dtype: str,
        dist: Distribution,
        *,
        network: str = "mlp",
        hidden_sizes: tuple[int, ...] = (64, 64),
        impala_channels: tuple[int, ...] = (16, 32, 32),
        activation: str = "tanh",
        arch: str = "dual",
        critic: bool = True,
        auxiliary: bool = False,
        log_std_init: float = 0.0,
        ortho_init: bool = True,
        actor_parts: Parts = (),
        critic_parts: Parts = (),
    ):
        if arch != "dual" and actor_parts != critic_parts:
            raise ValueError("a shared trunk sees one observation; nearest: arch='dual'")
        self._actor_parts, self._critic_parts = actor_parts, critic_parts
        self.dist, self.arch, self.critic, self.auxiliary = dist, arch, critic, auxiliary
        self._obs_shape, self._scale = obs_shape, 1 / 255 if obs_dtype == "uint8" else 1.0
        self._family, self._hidden, self._channels = FAMILIES[network], hidden_sizes, impala_channels
        self.sees_images = self._family.sees_images
        self._activation, self._log_std_init, self._ortho_init = activation, log_std_init, ortho_init
        policy, value = jax.eval_shape(self._build, jax.random.key(0))
        self._policy_unravel, self.policy_layout = _layout(policy)
        self._value_unravel, self.value_layout = _layout(value)

    def _trunk(self, key: PRNGKeyArray, parts: Parts) -> Any:
        inputs = sum(stop - start for start, stop in parts) if parts else math.prod(self._obs_shape)
        sizes, start = (self._hidden, self._channels, self._scale), (self._activation, self._ortho_init)
        return self._family.module.trunk(key, TrunkShape(self._obs_shape, inputs, *sizes, *start))

    def _build(self, key: PRNGKeyArray) -> tuple[_PolicyNet, _ValueNet]:
        trunk_key, head_key, value_key, value_head_key, aux_key = jax.random.split(key, 5)
        trunk = self._trunk(trunk_key, self._actor_parts)
        features = self._features(self._actor_parts)
        log_std = jnp.full(self.dist.d, self._log_std_init) if isinstance(self.dist, Gaussian) else None
        action_gain, value_gain = (0.01, 1.0) if self._ortho_init else (None, None)
        auxiliary = Dense(aux_key, features, 1, value_gain) if self.auxiliary else None
        policy = _PolicyNet(trunk, Dense(head_key, features, self.dist.num_outputs, action_gain), log_std, auxiliary)
        if not self.critic:
            return policy, _ValueNet(None, None)
        value_trunk = self._trunk(value_key, self._critic_parts) if self.arch == "dual" else None
        head = Dense(value_head_key, self._features(self._critic_parts), 1, value_gain)
        return policy, _ValueNet(value_trunk, head)

    def _features(self, parts: Parts) -> int:
        if self._hidden:
            return self._hidden[-1]
        one = self._view(jnp.zeros((1, *self._obs_shape)), parts)
        return jax.eval_shape(lambda key: _features_of(self._trunk(key, parts), one), jax.random.key(0)).shape[1]

    def _view(self, obs: Array, parts: Parts) -> Array:
        """What a trunk sees: its parts; for dense trunks as floats (image trunks scale for themselves)."""
        if parts:
            obs = jnp.concatenate([obs[..., start:stop] for start, stop in parts], axis=-1)
        if self.sees_images or obs.dtype == jnp.float32:
            return obs
        return obs.astype(jnp.float32) * self._scale

    def images_at_a_time(self, count: int) -> int:
        """How many of so many samples a gradient is best computed of at a time, all of them where it does not matter.

        On CPU activations of a few images stay in the caches; `count` is a multiple of it.
        """
        if not self.sees_images or jax.default_backend() != "cpu":
            return count
        most = self._family.module.CPU_GROUP
        best = max(size for size in range(1, most + 1) if count % size == 0)
        return best if 2 * best > most or best == count else count

    def policy_view(self, obs: Array) -> Array:
        """What the policy sees of observations."""
        return self._view(obs, self._actor_parts)

    def init(self, key: PRNGKeyArray) -> Params:
        policy, value = self._build(key)
        return Params(ravel_pytree(policy)[0], ravel_pytree(value)[0].astype(jnp.float32))

    def policy_net(self, policy: Float[Array, " P"]) -> _PolicyNet:
        """The policy network with these parameters, as a module."""
        return self._policy_unravel(policy)

    def policy(self, policy: Float[Array, " P"], obs: Num[Array, "B ..."]) -> Float[Array, "B outputs"]:
        """Distribution parameters for a batch of observations."""
        return self.acting(policy)(obs)

    def acting(self, policy: Float[Array, " P"]) -> Callable[[Num[Array, "B ..."]], Float[Array, "B outputs"]]:
        """`policy` with its weights cut out of the vector once: what a loop over steps calls."""
        net = self._policy_unravel(policy)
        return lambda obs: jax.vmap(net.act)(_features_of(net.trunk, self.policy_view(obs)))

    def value(self, params: Params, obs: Num[Array, "B ..."]) -> Float[Array, " B"]:
        net = self._value_unravel(params.value)
        trunk = net.trunk if net.trunk is not None else self._policy_unravel(params.policy).trunk
        return jax.vmap(net.head)(_features_of(trunk, self._view(obs, self._critic_parts)))[:, 0]

    def rescale_value(
        self, value: Float[Array, " V"], scale: Float[Array, ""], shift: Float[Array, ""]
    ) -> Float[Array, " V"]:
        """Value parameters whose predictions are scale · V + shift."""
        net = self._value_unravel(value)
        return ravel_pytree(eqx.tree_at(lambda n: n.head, net, _rescaled(net.head, scale, shift)))[0]

    def rescale_auxiliary(
        self, policy: Float[Array, " P"], scale: Float[Array, ""], shift: Float[Array, ""]
    ) -> Float[Array, " P"]:
        """Policy parameters whose auxiliary values (PPG), if there are any, are scale · V + shift."""
        net = self._policy_unravel(policy)
        if net.auxiliary is None:
            return policy
        return ravel_pytree(eqx.tree_at(lambda n: n.auxiliary, net, _rescaled(net.auxiliary, scale, shift)))[0]

    def both(self, params: Params, obs: Num[Array, "B ..."]) -> tuple[Float[Array, "B outputs"], Float[Array, " B"]]:
        """Distribution parameters and values, sharing the trunk where it is shared; `detach` cuts its gradient."""
        if self.arch == "dual":
            return self.policy(params.policy, obs), self.value(params, obs)
        return self.acting_and_judging(params)(obs)

    def acting_and_judging(
        self, params: Params
    ) -> Callable[[Num[Array, "B ..."]], tuple[Float[Array, "B outputs"], Float[Array, " B"]]]:
        """`both` of a shared trunk with its weights cut out of the vectors once: what a loop over steps calls."""
        policy_net, value_net = self._policy_unravel(params.policy), self._value_unravel(params.value)

        def judged(obs):
            features = _features_of(policy_net.trunk, self.policy_view(obs))
            value_features = jax.lax.stop_gradient(features) if self.arch == "detach" else features
            return jax.vmap(policy_net.act)(features), jax.vmap(value_net.head)(value_features)[:, 0]

        return judged

    def policy_and_auxiliary(
        self, policy: Float[Array, " P"], obs: Num[Array, "B ..."]
    ) -> tuple[Float[Array, "B outputs"], Float[Array, " B"]]:
        """Distribution parameters and the auxiliary value of the policy network (PPG)."""
        net = self._policy_unravel(policy)
        features = _features_of(net.trunk, self.policy_view(obs))
        return jax.vmap(net.act)(features), jax.vmap(net.auxiliary)(features)[:, 0]


def _features_of(trunk: Any, obs: Num[Array, "B ..."]) -> Float[Array, "B features"]:
    """A trunk's features of a batch: image networks take batches, dense ones single observations."""
    return trunk(obs) if trunk.takes_batches else jax.vmap(trunk)(obs)


def distribution_for(space) -> Distribution:
    """The action distribution of an environment's action space."""
    if hasattr(space, "n"):
        return Categorical(space.n)
    if hasattr(space, "sizes"):
        return MultiCategorical(tuple(space.sizes))
    return Bernoullis(space.switches) if hasattr(space, "switches") else Gaussian(tuple(space.low), tuple(space.high))


def _rescaled(head: Dense, scale: Float[Array, ""], shift: Float[Array, ""]) -> Dense:
    """A head whose outputs are scaled and shifted."""
    return eqx.tree_at(lambda h: (h.weight, h.bias), head, (scale * head.weight, scale * head.bias + shift))


def _layout(module) -> tuple:
    """(unravel, {tree path: shape}) of a module of abstract arrays, in raveling order."""
    paths, tree = jax.tree_util.tree_flatten_with_path(module)
    shapes = [leaf.shape for _, leaf in paths]
    ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))

    def unravel(vector: Float[Array, " P"]):
        parts = jnp.split(vector, ends[:-1])
        return jax.tree.unflatten(tree, [part.reshape(shape) for part, shape in zip(parts, shapes)])

    return unravel, {jax.tree_util.keystr(path).lstrip("."): shape for (path, _), shape in zip(paths, shapes)}
