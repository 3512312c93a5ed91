"""rsl_rl 5, of Isaac Lab and legged_gym. One order of minibatches serves all epochs there."""

from __future__ import annotations

import math
from typing import Any

from trimtab.libraries.translation_rules import Library, Translated, activation, nothing, same, schedule, value_clip


def _deviation(value: Any, to: Translated) -> None:
    to.fields["log_std_init"] = math.log(value)


LIBRARY = Library(
    rules={
        **{name: same(name) for name in ("gamma", "learning_rate", "max_grad_norm", "desired_kl", "seed", "num_envs")},
        "num_steps_per_env": same("num_steps"),
        "num_learning_epochs": same("update_epochs"),
        "num_mini_batches": same("num_minibatches"),
        "max_iterations": nothing("give total_timesteps: iterations × num_envs × num_steps_per_env"),
        "clip_param": same("clip_coef"),
        "lam": same("gae_lambda"),
        "value_loss_coef": same("vf_coef"),
        "entropy_coef": same("ent_coef"),
        "use_clipped_value_loss": value_clip,
        "schedule": schedule,
        "activation": activation,
        "hidden_dims": same("hidden_sizes"),
        "actor_hidden_dims": same("hidden_sizes"),
        "critic_hidden_dims": nothing("both networks have the widths of hidden_sizes"),
        "init_noise_std": _deviation,
        "init_std": _deviation,
        "obs_normalization": same("norm_obs"),
        "empirical_normalization": same("norm_obs"),
        "normalize_advantage_per_mini_batch": lambda value, to: same("norm_adv")("minibatch" if value else "batch", to),
    },
    silent={
        "num_envs": 4096,
        "num_steps_per_env": 24,
        "num_learning_epochs": 5,
        "num_mini_batches": 4,
        "clip_param": 0.2,
        "gamma": 0.99,
        "lam": 0.95,
        "value_loss_coef": 1.0,
        "entropy_coef": 0.01,
        "learning_rate": 1e-3,
        "max_grad_norm": 1.0,
        "use_clipped_value_loss": True,
        "schedule": "adaptive",
        "desired_kl": 0.01,
        "activation": "elu",
    },
    fixed={"adam_eps": 1e-8},
    always=(
        "anneal_lr: the KL has 1e-5 inside its logarithm there, so a policy that has not moved raises the step size",
        "minibatches: one order for all epochs of an iteration there, a new one for each here",
        "time limits: the end of an episode, with the value of its last observation there; of the true next one here",
    ),
)
