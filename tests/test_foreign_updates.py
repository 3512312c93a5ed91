"""A translated configuration makes the same update: other libraries' losses, written out, on one buffer."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

from trimtab.libraries.common.translation import translate
from trimtab.training.algorithm import hypers_of

SIZES = {"num_envs": 4, "num_steps": 16, "total_timesteps": 64, "hidden_sizes": (8,), "eval_every": 0}
EPOCHS, RATE = 8, 0.02  # far enough for both clips to bind


def sb3_value_loss(value, old, target, clip):
    """F.mse_loss(returns, values_pred) of the clipped prediction, times vf_coef 0.5."""
    near = old + jnp.clip(value - old, -clip, clip)
    return 0.5 * ((target - near) ** 2).mean()


def cleanrl_value_loss(value, old, target, clip):
    """0.5 of the mean of the larger loss, times vf_coef 0.5."""
    near = old + jnp.clip(value - old, -clip, clip)
    return 0.5 * 0.5 * jnp.maximum((value - target) ** 2, (near - target) ** 2).mean()


THEIRS = {
    "sb3": (
        {"n_envs": 4, "n_steps": 16, "batch_size": 64, "n_epochs": EPOCHS, "learning_rate": RATE, "clip_range_vf": 0.1},
        sb3_value_loss,
        0.1,
    ),
    "cleanrl": (
        {"num_envs": 4, "num_steps": 16, "num_minibatches": 1, "update_epochs": EPOCHS, "learning_rate": RATE}
        | {"anneal_lr": False, "ent_coef": 0.0, "clip_coef": 0.2, "vf_coef": 0.5},
        cleanrl_value_loss,
        0.2,
    ),
}


def their_update(agent, params, batch, value_loss, clip_vloss):
    """The epochs on one whole batch as both libraries write them: n - 1, one Adam, one clipped norm."""
    advantage = np.asarray(batch.advantage)
    advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)

    def loss(params):
        dist = agent.policy(params.policy, batch.obs)
        ratio = jnp.exp(agent.dist.logp(dist, batch.action) - batch.logp)
        surrogate = jnp.minimum(advantage * ratio, advantage * jnp.clip(ratio, 0.8, 1.2)).mean()
        return value_loss(agent.value(params, batch.obs), batch.value, batch.target, clip_vloss) - surrogate

    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE, eps=1e-5))
    step = jax.jit(lambda params, state: adam.update(jax.grad(loss)(params), state))
    state = adam.init(params)
    for _ in range(EPOCHS):
        updates, state = step(params, state)
        params = optax.apply_updates(params, updates)
    return params


def difference(library, changes=()):
    """How far our update ends from theirs, as a share of the movement of all parameters."""
    given, value_loss, clip_vloss = THEIRS[library]
    config = translate(library, given).config("CartPole-v1").replace(**SIZES, **dict(changes))
    bench, hypers = tiny.Bench(config), hypers_of(config)
    before, rows = bench.collect(bench.init(jax.random.key(0), hypers), hypers)
    after, _ = jax.jit(bench.algorithm.learn)(before, rows, hypers)
    batch = jax.jit(bench.algorithm.batch_of)(before, rows, hypers)
    theirs = their_update(bench.algorithm.agent, before.params, batch, value_loss, clip_vloss)
    flat = lambda params: np.concatenate([np.asarray(part).ravel() for part in jax.tree.leaves(params)])
    movement = np.linalg.norm(flat(theirs) - flat(before.params))
    return np.linalg.norm(flat(after.params) - flat(theirs)) / movement


@pytest.mark.parametrize("library", THEIRS)
def test_a_translated_configuration_makes_the_same_update(library):
    assert difference(library) < 1e-5


def test_each_option_of_a_library_is_needed_for_that():
    assert difference("sb3", {"clip_vloss_form": "larger"}) > 0.05
    assert difference("cleanrl", {"norm_adv_ddof": 0}) > 1e-4
