"""brax 0.14 and MuJoCo Playground. An iteration is a number of unrolls, and minibatches keep them whole."""

from __future__ import annotations

import math
from dataclasses import replace

from trimtab.config import Config, ConfigError
from trimtab.libraries.common.foreign_options import (
    ACTIVATION,
    GROUPED,
    HALF_SQUARED,
    NOT_SET,
    PER_MINIBATCH,
    Option,
    Translated,
    Values,
    same,
)
from trimtab.libraries.common.library import Library
from trimtab.libraries.common.settings_text import as_call

SIZES = ("batch_size", "num_minibatches", "unroll_length")


def _sizes_of(values: Values, config: Config) -> None:
    """A minibatch is batch_size whole unrolls."""
    minibatches = math.gcd(config.num_envs, config.minibatches)
    values |= {"num_envs": config.num_envs, "unroll_length": config.num_steps}
    values |= {"num_minibatches": minibatches, "batch_size": config.num_envs // minibatches}


def _sizes(values: Values, to: Translated) -> None:
    """batch_size × num_minibatches unrolls of unroll_length steps: each is a row here."""
    sizes = {name: int(values.pop(name)) for name in ("num_envs", *SIZES) if name in values}
    if not sizes:
        return
    missing = [name for name in SIZES if name not in sizes]
    if missing:
        raise ConfigError(missing[0], None, f"{', '.join(SIZES)} make the size of an iteration together; give all")
    rows = sizes["batch_size"] * sizes["num_minibatches"]
    to.fields |= {"num_envs": rows, "num_steps": sizes["unroll_length"], "num_minibatches": sizes["num_minibatches"]}
    to.fields["minibatch_by"] = "rows"
    if sizes.get("num_envs", rows) != rows:
        to.notes.append(
            f"num_envs: an iteration's {rows} unrolls are rows here, each of an environment of its own; there "
            f"{sizes['num_envs']} environments take them one after the other"
        )


OPTIONS = {
    "num_envs": GROUPED.otherwise(1),
    "unroll_length": GROUPED.otherwise(10),
    "batch_size": GROUPED.otherwise(32),
    "num_minibatches": GROUPED.otherwise(16),
    "num_timesteps": Option("total_timesteps"),
    "learning_rate": Option("learning_rate", default=1e-4),
    "learning_rate_schedule": Option(
        "anneal_lr",
        values={"adaptive_kl": "adaptive", None: "constant"},
        write=lambda config: "ADAPTIVE_KL" if config.anneal_lr == "adaptive" else NOT_SET,
    ),
    "desired_kl": Option("desired_kl"),
    "entropy_cost": Option("ent_coef", default=1e-4),
    "discounting": Option("gamma", default=0.9),
    "gae_lambda": Option("gae_lambda", default=0.95),
    "clipping_epsilon": Option("clip_coef", default=0.3),
    "num_updates_per_batch": Option("update_epochs", default=2),
    "normalize_observations": Option("norm_obs"),
    "normalize_advantage": PER_MINIBATCH.otherwise(True),
    "max_grad_norm": Option("max_grad_norm", default=None),
    "vf_loss_coefficient": HALF_SQUARED.otherwise(0.5),
    "episode_length": Option("time_limit"),
    "activation": replace(ACTIVATION, default="swish", write=lambda config: NOT_SET),  # of the network factory
    "reward_scaling": Option(absent="rewards are not multiplied by a constant; see norm_reward and norm_value"),
    "action_repeat": Option(absent="actions are not repeated"),
    "num_evals": Option(absent="see eval_every"),
    "num_eval_envs": Option(absent="see eval_episodes"),
    **same("seed"),
}

LIBRARY = Library(
    name="brax",
    title="brax",
    options=OPTIONS,
    fixed={"adam_eps": 1e-8, "hidden_sizes": [32, 32, 32, 32]},
    phrases={
        "hidden_sizes": "network_factory with policy_hidden_layer_sizes and value_hidden_layer_sizes={value}",
        "activation": "network_factory with activation=jax.nn.{value}",
    },
    always=(
        "hidden_sizes: without a network_factory the value function of brax has 5 layers of 256; trimtab gives both "
        "networks the widths of the policy",
        "advantages: brax computes them again with the current critic for every minibatch, trimtab once per iteration",
    ),
    prepare=_sizes,
    complete=_sizes_of,
    forms={"python": as_call("ppo.train", "environment=environment")},
)
