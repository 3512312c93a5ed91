"""The auxiliary phase of Phasic Policy Gradient (Cobbe et al. 2020, arXiv 2009.04416)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from trimtab.config import Config
from trimtab.math import across_devices, minibatch
from trimtab.math.prng import unrolled
from trimtab.math.step_sizes import clip_factor, descend, global_norm
from trimtab.nets.agent import Agent, Params
from trimtab.training.state import Hypers, Optimizer, Phase

METRICS = ("value_loss", "aux_value_loss", "clone_kl", "value_error_before", "value_error_after")


def _auxiliary_loss(agent: Agent, hypers: Hypers, params: Params, obs, target, weight, dist_before):
    """½ (V_aux - target)² + β_clone KL[π_before, π] on the policy network, ½ (V - target)² on the value network."""
    dist, aux_value = agent.policy_and_auxiliary(params.policy, obs)
    value = agent.value(params, obs)
    mean = lambda x: (weight * x).mean()
    aux_error, error = 0.5 * mean((aux_value - target) ** 2), 0.5 * mean((value - target) ** 2)
    clone = mean(agent.dist.kl(dist_before, dist))
    return aux_error + hypers["beta_clone"] * clone + error, jnp.stack([error, aux_error, clone])


def auxiliary_phase(
    config: Config,
    agent: Agent,
    hypers: Hypers,
    params: Params,
    optimizer: Optimizer,
    phase: Phase,
    key: PRNGKeyArray,
    share: Float[Array, ""],
) -> tuple[Params, Optimizer, Float[Array, " metrics"]]:
    """E_aux passes over all samples of the phase, minibatches mixing its iterations; `share` anneals the step size."""
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), phase)
    total = flat.weight.shape[0]
    minibatches = config.phase_batch // config.aux_minibatch
    before = jax.lax.map(lambda o: agent.policy(params.policy, o), phase.obs)
    before = before.reshape(total, before.shape[-1])
    keys = jax.random.split(unrolled(key), config.aux_epochs)
    order = jax.vmap(lambda k: minibatch.epoch(k, total, minibatches))(keys).reshape(-1, total // minibatches)
    sample = order.reshape(-1)[: total // config.policy_iterations]  # a batch's worth, of all iterations and rows
    square = lambda p: flat.weight[sample] * (agent.value(p, flat.obs[sample]) - flat.target[sample]) ** 2
    value_error = lambda p: across_devices.pmean_tree(square(p).mean())

    def step(carry, index):
        params, optimizer = carry
        obs, target, weight = jax.tree.map(lambda x: x[index], flat)
        loss = lambda p: _auxiliary_loss(agent, hypers, p, obs, target, weight, before[index])
        (_, watched), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        gradient, watched = across_devices.pmean_tree((gradient, watched))
        if config.max_grad_norm is not None:
            factor = clip_factor(global_norm(*gradient), hypers["max_grad_norm"])
            gradient = jax.tree.map(lambda g: factor * g, gradient)
        rate = share * hypers["aux_learning_rate"]
        policy, policy_state = descend(hypers, params.policy, gradient.policy, optimizer.policy, rate)
        value, value_state = descend(hypers, params.value, gradient.value, optimizer.value, rate)
        return (Params(policy, value), Optimizer(policy_state, value_state)), watched

    (after, optimizer), watched = jax.lax.scan(step, (params, optimizer), order)
    errors = jnp.stack([value_error(params), value_error(after)])
    return after, optimizer, jnp.concatenate([watched.mean(0), errors])
