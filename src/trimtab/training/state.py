"""What an algorithm carries (State), what it learns from (Batch) and what is only looked at (Info)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from trimtab.math.ewma import Ewma
from trimtab.math.normalize import AdvantageMoments, Moments, RewardScale
from trimtab.nets.agent import Params
from trimtab.training.rollout import Carry

Hypers = dict[str, Float[Array, ""]]  # the traced numbers of a Config, by field


class Rates(NamedTuple):
    """Of one iteration: step sizes, entropy coefficient, and the share that schedule and warm-up leave of a step."""

    learning_rate: Float[Array, ""]
    ent_coef: Float[Array, ""]
    value_learning_rate: Float[Array, ""]
    share: Float[Array, ""]


class Batch(NamedTuple):
    """Samples ready to learn from; leading axis [B] (or [k, B] in a queue).

    Values and advantages are those of collection time; `weight` is 0 where a sample is not experience.
    """

    obs: Array
    action: Array
    dist: Float[Array, "*k B outputs"]
    logp: Float[Array, "*k B"]
    value: Float[Array, "*k B"]
    target: Float[Array, "*k B"]
    advantage: Float[Array, "*k B"]
    weight: Float[Array, "*k B"]


class Phase(NamedTuple):
    """What the auxiliary phase needs of each policy iteration; leading axes [N_π, B]."""

    obs: Array
    target: Float[Array, "N_pi B"]
    weight: Float[Array, "N_pi B"]


class Optimizer(NamedTuple):
    """Optimizer state of each network."""

    policy: Any
    value: Any


class State(eqx.Module):
    """Everything that must survive a kill. If it is not here, it does not exist after a restart."""

    params: Params
    optimizer: Optimizer
    prox: Ewma | None
    obs_stats: Moments | None
    reward_scale: RewardScale | None
    advantages: AdvantageMoments
    env: Carry
    key: PRNGKeyArray
    iteration: Int[Array, ""]
    gradient_steps: Int[Array, ""]
    queue: Batch | None = None
    phase: Phase | None = None
    auxiliary: Optimizer | None = None
    learning_rate: Float[Array, ""] | None = None
    value_stats: Moments | None = None


class Info(NamedTuple):
    """Watched, never carried: metrics by name, finished episodes [T, N], and which tensors are finite."""

    metrics: dict[str, Float[Array, ""]]
    done: Array
    episode_return: Array
    episode_length: Array
    finite: dict[str, Array]


def absent(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` returns, with NaN in the place of every number: of iterations that have nothing to report."""
    return jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), jax.eval_shape(function, *arguments))
