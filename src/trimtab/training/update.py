"""The update of one iteration: epochs of minibatch steps on the policy and value networks.

PPO, PPO-EWMA, PPG's policy phase and REINFORCE differ only in the objective and in where the proximal policy comes
from: the samples (`Batch.dist`, the policy that acted), a policy frozen at the start of the iteration (stale data), or
an EWMA of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from trimtab.config import Config
from trimtab.math import across_devices, ewma, minibatch, objectives
from trimtab.math.ewma import Ewma
from trimtab.math.normalize import standardize, with_ddof
from trimtab.math.prng import unrolled
from trimtab.math.step_sizes import adapt_to_kl, clip_factor, descend, global_norm
from trimtab.math.surrogates import Terms
from trimtab.nets.agent import Agent, Params
from trimtab.training.state import Batch, Hypers, Optimizer, Rates, absent

METRICS = (
    "policy_gradient_loss",
    "value_loss",
    "entropy_loss",
    "approx_kl",
    "approx_kl_prox",
    "kl_prox",
    "clip_fraction",
    "zero_gradient_fraction",
    "ratio_cap_fraction",
    "importance_ess",
    "grad_norm",
    "ratio_error",
)


MAXIMA = ("ratio_error",)  # over samples; everything else is a mean
RATIOS = "ratios"  # the means of a minibatch that its effective sample size is made of


class Learner(NamedTuple):
    """What changes with every gradient step."""

    params: Params
    optimizer: Optimizer
    prox: Ewma | None
    gradient_steps: Int[Array, ""]
    stopped: Bool[Array, ""]
    has_moved: Bool[Array, ""]  # its policy from the one that acted
    learning_rate: Float[Array, ""] | None = None  # an adaptive one


class Proximal(NamedTuple):
    """Per sample, the proximal policy's distribution parameters and log-probability of the taken action."""

    dist: Float[Array, "B outputs"]
    logp: Float[Array, " B"]


def _policy_objective(
    config: Config, agent: Agent, hypers: Hypers, dist, batch: Batch, proximal: Proximal
) -> Float[Array, " B"]:
    """Per sample, to maximise, given the current distribution parameters `dist`; the one the trainer averages."""
    logp, limit = agent.dist.logp(dist, batch.action), config.surrogate_kind
    if limit is None:
        return objectives.policy_gradient(logp, batch.advantage)
    return limit.objective(_terms(agent, hypers, dist, logp, batch, proximal), hypers[limit.coefficient])


def _terms(agent: Agent, hypers: Hypers, dist, logp: Float[Array, " B"], batch: Batch, proximal: Proximal) -> Terms:
    """What a surrogate may use of each sample."""
    kl_prox = lambda: agent.dist.kl(proximal.dist, dist)
    return Terms(logp, proximal.logp, batch.logp, batch.advantage, hypers["imp_samp_max"], kl_prox)


def mean_objective(config: Config, agent: Agent, hypers: Hypers, dist, batch: Batch, proximal: Proximal):
    """The weighted mean of the policy objective over a minibatch."""
    return (batch.weight * _policy_objective(config, agent, hypers, dist, batch, proximal)).mean()


def loss(
    config: Config,
    agent: Agent,
    hypers: Hypers,
    ent_coef: Float[Array, ""],
    which: tuple[bool, bool],
    params: Params,
    batch: Batch,
    proximal: Proximal,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Minus the objective and entropy bonus, plus the value loss; `which` networks take part (policy, value)."""
    train_policy, train_value = which
    total, watched = jnp.zeros(()), {}
    dist: Any = None
    value: Any = None
    if train_policy and train_value:
        dist, value = agent.both(params, batch.obs)
    elif train_policy:
        dist = agent.policy(params.policy, batch.obs)
    else:
        value = agent.value(params, batch.obs)
    if train_policy:
        objective = mean_objective(config, agent, hypers, dist, batch, proximal)
        entropy = (batch.weight * agent.dist.entropy(dist)).mean()
        total = total - objective - ent_coef * entropy
        watched = _watch_policy(config, agent, hypers, jax.lax.stop_gradient(dist), batch, proximal)
        watched |= {"policy_gradient_loss": -objective, "entropy_loss": -entropy}
    if train_value:
        clip, clipped_only = hypers.get("clip_vloss"), config.clip_vloss_form == "clipped"
        loss = objectives.value_loss(value, batch.target, batch.value, clip, clipped_only)
        error = (batch.weight * loss).mean()
        total = total + hypers["vf_coef"] * error
        watched["value_loss"] = error
    return total, watched


def _watch_policy(config: Config, agent: Agent, hypers: Hypers, dist, batch: Batch, proximal: Proximal):
    """How far the current policy is from the behavior and proximal policies."""
    logp = agent.dist.logp(dist, batch.action)
    log_ratio = logp - batch.logp
    ratio = jnp.exp(log_ratio)
    mean = lambda x: (batch.weight * x).mean()
    watched = {
        "approx_kl": mean(ratio - 1.0 - log_ratio),
        "ratio_error": (jnp.where(batch.weight > 0, jnp.abs(ratio - 1.0), 0.0)).max(),
        RATIOS: jnp.stack([mean(ratio), mean(ratio**2), mean(jnp.ones_like(ratio))]),
    }
    if config.anneal_lr == "adaptive":
        watched["kl_behavior"] = mean(agent.dist.kl(batch.dist, dist))
    if (limit := config.surrogate_kind) is not None:
        log_prox = logp - proximal.logp
        outside, zero = limit.limits(_terms(agent, hypers, dist, logp, batch, proximal), hypers[limit.coefficient])
        watched |= {
            "approx_kl_prox": mean(jnp.exp(log_prox) - 1.0 - log_prox),
            "kl_prox": mean(agent.dist.kl(proximal.dist, dist)),
            "clip_fraction": mean(outside),
            "zero_gradient_fraction": mean(zero),
            "ratio_cap_fraction": mean((log_ratio > jnp.log(hypers["imp_samp_max"])).astype(ratio.dtype)),
        }
    return watched


def _proximal_now(agent: Agent, learner: Learner, batch: Batch, placed: Proximal) -> Proximal:
    """The proximal policy at this gradient step: the EWMA as it stands, or where the iteration placed it."""
    if learner.prox is None:
        return placed
    dist = agent.policy(learner.prox.value, batch.obs)
    return Proximal(dist, agent.dist.logp(dist, batch.action))


def prepare_minibatch(
    config: Config, agent: Agent, learner: Learner, batch: Batch, placed: Proximal
) -> tuple[Batch, Proximal]:
    """A minibatch as the objective takes it: advantages normalized over it if asked, the proximal policy of now."""
    if config.norm_adv == "minibatch":
        batch = batch._replace(advantage=_standardize_minibatch(batch, config.norm_adv_ddof))
    return batch, _proximal_now(agent, learner, batch, placed)


def minibatch_step(
    config: Config,
    agent: Agent,
    hypers: Hypers,
    rates: Rates,
    which: tuple[bool, bool],
    learner: Learner,
    batch: Batch,
    proximal: Proximal,
) -> tuple[Learner, Float[Array, " metrics"]]:
    """One gradient step on one minibatch."""
    train_policy, train_value = which
    params = learner.params
    if train_policy:
        batch, proximal = prepare_minibatch(config, agent, learner, batch, proximal)
    gradient_of = jax.grad(partial(loss, config, agent, hypers, rates.ent_coef, which), has_aux=True)
    gradient, watched = _of_all_devices(*_group_by_group(agent, gradient_of, params, batch, proximal))
    norm = global_norm(gradient.policy, gradient.value)
    if config.max_grad_norm is not None:
        factor = clip_factor(norm, hypers["max_grad_norm"])
        gradient = jax.tree.map(lambda g: factor * g, gradient)

    adaptive, rate, value_rate = learner.learning_rate, rates.learning_rate, rates.value_learning_rate
    if adaptive is not None:
        if train_policy:  # the KL of a policy to itself is rounding and says nothing
            steered = adapt_to_kl(adaptive, watched["kl_behavior"], hypers["desired_kl"])
            adaptive = jnp.where(learner.has_moved, steered, adaptive)
        rate = adaptive * rates.share
        value_rate = rate if config.value_learning_rate is None else value_rate
    policy, policy_state = params.policy, learner.optimizer.policy
    if train_policy:
        policy, policy_state = descend(hypers, params.policy, gradient.policy, policy_state, rate)
    value, value_state = params.value, learner.optimizer.value
    if train_value:
        value, value_state = descend(hypers, params.value, gradient.value, value_state, value_rate)

    prox = learner.prox
    if prox is not None and train_policy:
        prox = ewma.update(prox, policy, ewma.decay_from_com(hypers["prox_com"]))
    stopped = learner.stopped
    new = Learner(
        Params(policy, value),
        Optimizer(policy_state, value_state),
        prox,
        learner.gradient_steps + int(train_policy),
        stopped,
        learner.has_moved | train_policy,
        adaptive,
    )
    if config.target_kl is not None and train_policy:
        # As SB3: the minibatch that shows too large a KL is not stepped on, nor any after it.
        stopped = watched["approx_kl"] > 1.5 * hypers["target_kl"]
        next_learner = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), learner, new)
        new = next_learner._replace(stopped=stopped, learning_rate=adaptive)
    if train_policy:  # NaN stands for a step that was not taken, so a gradient that is not finite is infinite here
        watched["grad_norm"] = jnp.where(jnp.isfinite(norm), norm, jnp.inf)
    return new, jnp.stack([watched.get(name, jnp.full((), jnp.nan)) for name in METRICS])


def _group_by_group(
    agent: Agent, gradient_of: Callable[..., tuple[Params, dict]], params: Params, batch: Batch, proximal: Proximal
) -> tuple[Params, dict[str, Array]]:
    """Gradient and what was watched of a minibatch: of all its samples at once, or of a few images at a time."""
    count = batch.weight.shape[0]
    size = agent.images_at_a_time(count)
    if size == count:
        return gradient_of(params, batch, proximal)
    groups = jax.tree.map(lambda x: x.reshape(count // size, size, *x.shape[1:]), (batch, proximal))

    def add(total: Params, group):
        gradient, watched = gradient_of(params, *group)
        return jax.tree.map(jnp.add, total, gradient), watched

    gradient, watched = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), groups)
    means = {name: x.mean(axis=0) for name, x in watched.items()}
    worst = {name: watched[name].max(axis=0) for name in MAXIMA if name in watched}
    return jax.tree.map(lambda g: g * (size / count), gradient), means | worst


def _of_all_devices(gradient: Params, watched: dict[str, Array]) -> tuple[Params, dict[str, Array]]:
    """Means over the whole minibatch, of which a device sees an equal share; maxima stay its own until `_worst`."""
    own = {name: watched.pop(name) for name in MAXIMA if name in watched}
    gradient, watched = across_devices.pmean_tree((gradient, watched))
    if RATIOS in watched:
        mean, square, weight = watched.pop(RATIOS)
        watched["importance_ess"] = mean**2 / jnp.maximum(square * weight, 1e-12)
    return gradient, watched | own


def _worst(table: Float[Array, "steps metrics"]) -> Float[Array, "steps metrics"]:
    """The ratio error is a maximum: over devices too."""
    if across_devices.device_count() == 1:
        return table
    column = METRICS.index("ratio_error")
    return table.at[:, column].set(across_devices.pmax_tree(table[:, column]))


def _standardize_minibatch(batch: Batch, ddof: int) -> Float[Array, " B"]:
    count, total = across_devices.psum_tree((batch.weight.sum(), (batch.weight * batch.advantage).sum()))
    count = jnp.maximum(count, 1e-8)
    mean = total / count
    std = jnp.sqrt(across_devices.psum_tree((batch.weight * (batch.advantage - mean) ** 2).sum()) / count)
    std = with_ddof(std, count, ddof)
    return standardize(batch.advantage, mean, std)


Look = Callable[[Learner, Batch, Proximal], Any]  # what is looked at before a policy step, on its minibatch


def update(
    config: Config,
    agent: Agent,
    hypers: Hypers,
    rates: Rates,
    learner: Learner,
    batch: Batch,
    proximal: Proximal,
    key: PRNGKeyArray,
) -> tuple[Learner, dict[str, Float[Array, ""]]]:
    """All epochs of an iteration, and the means of what was watched."""
    before = learner.gradient_steps
    learner, table, _ = run_epochs(config, agent, hypers, rates, learner, batch, proximal, key)
    table = _worst(table)
    means = jnp.nanmean(table, axis=0)  # rows of steps not taken (after a KL stop) are NaN
    return learner, {
        **dict(zip(METRICS, means)),
        "first_ratio_error": table[0, METRICS.index("ratio_error")],
        "first_kl_prox": table[0, METRICS.index("kl_prox")],
        "gradient_steps_taken": (learner.gradient_steps - before).astype(jnp.float32),
    }


def run_epochs(
    config: Config,
    agent: Agent,
    hypers: Hypers,
    rates: Rates,
    learner: Learner,
    batch: Batch,
    proximal: Proximal,
    key: PRNGKeyArray,
    look: Look = lambda learner, batch, proximal: (),
) -> tuple[Learner, Float[Array, "steps metrics"], Any]:
    """All epochs, joint ones first, then what either network has more of: step by step, with what `look` saw."""
    joint = min(config.update_epochs, config.epochs_of_value) if config.needs_value else 0
    plan = [
        ((True, True), joint),
        ((True, False), config.update_epochs - joint),
        ((False, True), config.epochs_of_value - joint if config.needs_value else 0),
    ]
    tables: list[Float[Array, "steps metrics"]] = []
    looks: list[Any] = []
    for which, epochs in plan:
        if epochs == 0:
            continue
        key, epochs_key = jax.random.split(key)
        learner, (metrics, looked) = _epochs(
            config, agent, hypers, rates, which, learner, batch, proximal, epochs_key, epochs, look
        )
        tables.append(metrics)
        if which[0]:
            looks.append(looked)
    return learner, jnp.concatenate(tables), jax.tree.map(lambda *parts: jnp.concatenate(parts), *looks)


def _epoch_order(config: Config, key: PRNGKeyArray, samples: int) -> Int[Array, "minibatches size"]:
    """The samples of each minibatch of one pass over a batch, or over a device's share of one."""
    if config.minibatch_by == "rows":
        return minibatch.epoch_of_rows(key, samples // config.num_steps, config.num_steps, config.minibatches)
    return minibatch.epoch(key, samples, config.minibatches)


def _epochs(config, agent, hypers, rates, which, learner, batch, proximal, key, epochs, look: Look):
    """`epochs` passes over the batch, each in a new order."""

    def step(learner: Learner, index):
        part, near = jax.tree.map(lambda x: x[index], (batch, proximal))

        def take(learner):
            looked = look(learner, *prepare_minibatch(config, agent, learner, part, near)) if which[0] else ()
            learner, watched = minibatch_step(config, agent, hypers, rates, which, learner, part, near)
            return learner, (watched, looked)

        if config.target_kl is None or not which[0]:
            return take(learner)
        nothing = lambda learner: (learner, absent(lambda learner: take(learner)[1], learner))
        return jax.lax.cond(learner.stopped, nothing, take, learner)

    keys = jax.random.split(unrolled(key), epochs)
    order = jax.vmap(lambda k: _epoch_order(config, k, batch.weight.shape[0]))(keys)
    return jax.lax.scan(step, learner, order.reshape(epochs * config.minibatches, -1))
