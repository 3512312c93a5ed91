"""brax 0.14 and MuJoCo Playground. An iteration is a number of unrolls, and minibatches keep them whole."""

from __future__ import annotations

from typing import Any

from trimtab.config import ConfigError
from trimtab.libraries.translation_rules import (
    Library,
    Translated,
    activation,
    normalized,
    nothing,
    same,
    schedule,
    times,
    whole,
)

SIZES = ("num_envs", "batch_size", "num_minibatches", "unroll_length")


def _sizes(values: dict[str, Any], to: Translated) -> None:
    """batch_size × num_minibatches unrolls of unroll_length steps: each is a row here."""
    sizes = {name: int(values.pop(name)) for name in SIZES if name in values}
    if not sizes:
        return
    absent = [name for name in SIZES[1:] if name not in sizes]
    if absent:
        raise ConfigError(absent[0], None, f"{', '.join(SIZES[1:])} make the size of an iteration together; give all")
    rows = sizes["batch_size"] * sizes["num_minibatches"]
    to.fields |= {"num_envs": rows, "num_steps": sizes["unroll_length"], "num_minibatches": sizes["num_minibatches"]}
    to.fields["minibatch_by"] = "rows"
    if sizes.get("num_envs", rows) != rows:
        to.notes.append(
            f"num_envs: an iteration's {rows} unrolls are rows here, each of an environment of its own; there "
            f"{sizes['num_envs']} environments take them one after the other"
        )


LIBRARY = Library(
    rules={
        "num_timesteps": whole("total_timesteps"),
        "learning_rate": same("learning_rate"),
        "learning_rate_schedule": schedule,
        "desired_kl": same("desired_kl"),
        "entropy_cost": same("ent_coef"),
        "discounting": same("gamma"),
        "gae_lambda": same("gae_lambda"),
        "clipping_epsilon": same("clip_coef"),
        "num_updates_per_batch": same("update_epochs"),
        "normalize_observations": same("norm_obs"),
        "normalize_advantage": normalized,
        "max_grad_norm": same("max_grad_norm"),
        "vf_loss_coefficient": times("vf_coef", 0.5, "because its value loss is half of the squared error"),
        "episode_length": same("time_limit"),
        "seed": same("seed"),
        "activation": activation,
        "reward_scaling": nothing("rewards are not multiplied; norm_reward or norm_value scale them by what is seen"),
        "action_repeat": nothing("actions are not repeated"),
        "num_evals": nothing("see eval_every"),
        "num_eval_envs": nothing("see eval_episodes"),
    },
    silent={
        "num_envs": 1,
        "unroll_length": 10,
        "batch_size": 32,
        "num_minibatches": 16,
        "num_updates_per_batch": 2,
        "learning_rate": 1e-4,
        "entropy_cost": 1e-4,
        "discounting": 0.9,
        "gae_lambda": 0.95,
        "clipping_epsilon": 0.3,
        "normalize_advantage": True,
        "vf_loss_coefficient": 0.5,
        "max_grad_norm": None,
        "activation": "swish",
    },
    fixed={"adam_eps": 1e-8},
    always=("advantages: computed anew with the current critic at every minibatch there, once an iteration here",),
    sizes=SIZES,
    prepare=_sizes,
)
