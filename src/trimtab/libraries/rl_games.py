"""rl_games 1.6, of Isaac Lab: the `config` of its YAML. The value loss is half of the squared error."""

from __future__ import annotations

from typing import Any

from trimtab.libraries.translation_rules import (
    Library,
    Translated,
    activation,
    nothing,
    same,
    schedule,
    times,
    value_clip,
)


def _schedule(value: Any, to: Translated) -> None:
    """adaptive, linear, or none."""
    if str(value).lower() == "linear":
        to.fields["anneal_lr"] = "linear"
    else:
        schedule(value, to)


def _ignored(values: dict[str, Any], to: Translated) -> None:
    """grad_norm counts only where gradients are clipped at all, kl_threshold where the step size is adaptive."""
    if "truncate_grads" in values and not values.pop("truncate_grads"):
        values.pop("grad_norm", None)
        to.fields["max_grad_norm"] = None
    if str(values.get("lr_schedule")).lower() != "adaptive":
        values.pop("kl_threshold", None)


def _learned_rate(value: Any, to: Translated) -> None:
    to.fields["learning_rate"] = float(value)  # often the text 3e-4


def _networks(value: Any, to: Translated) -> None:
    to.fields["arch"] = "dual" if value else "shared"


LIBRARY = Library(
    rules={
        **{name: same(name) for name in ("gamma", "seed")},
        "num_actors": same("num_envs"),
        "horizon_length": same("num_steps"),
        "minibatch_size": same("minibatch_size"),
        "mini_epochs": same("update_epochs"),
        "learning_rate": _learned_rate,
        "lr_schedule": _schedule,
        "kl_threshold": same("desired_kl"),
        "tau": same("gae_lambda"),
        "e_clip": same("clip_coef"),
        "clip_value": value_clip,
        "critic_coef": times("vf_coef", 0.5, "because its value loss is half of the squared error"),
        "entropy_coef": same("ent_coef"),
        "grad_norm": same("max_grad_norm"),
        "normalize_input": same("norm_obs"),
        "normalize_advantage": lambda value, to: same("norm_adv")("batch" if value else "none", to),
        "normalize_value": lambda value, to: same("norm_value")("popart" if value else "none", to),
        "units": same("hidden_sizes"),
        "activation": activation,
        "separate": _networks,
        "max_epochs": nothing("give total_timesteps: iterations × num_actors × horizon_length"),
        "max_frames": same("total_timesteps"),
        "weight_decay": same("weight_decay"),
        "bounds_loss_coef": nothing("no loss keeps means within the actions' bounds"),
        "reward_shaper": nothing("rewards are not multiplied; norm_reward or norm_value scale them by what is seen"),
        "value_bootstrap": nothing("values are always bootstrapped beyond time limits here"),
        "schedule_type": nothing("an adaptive step size is moved minibatch by minibatch here, as in legacy"),
    },
    silent={"truncate_grads": False, "lr_schedule": None, "separate": False},
    fixed={"adam_eps": 1e-8},
    always=("anneal_lr: an adaptive step size goes down to 1e-6 there, to 1e-5 here",),
    sizes=("truncate_grads",),
    prepare=_ignored,
)
