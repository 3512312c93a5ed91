"""Stable-Baselines3 2.9, and RL Zoo's files. `batch_size` is the minibatch; the value loss is the squared error."""

from __future__ import annotations

import re
from typing import Any

from trimtab.libraries.translation_rules import Library, Translated, normalized, nothing, same, step_size, whole


def _clip(value: Any, to: Translated) -> None:
    """A number, or RL Zoo's lin_0.2: linear to 0."""
    text = str(value)
    to.fields["clip_coef"] = float(text.removeprefix("lin_"))
    if text.startswith("lin_"):
        to.fields["clip_anneal"] = "linear"


def _value_clip(value: Any, to: Translated) -> None:
    """A number; one that falls keeps its first value."""
    to.fields["clip_vloss"] = None if value is None else float(str(value).removeprefix("lin_"))


def _vec_normalize(value: Any, to: Translated) -> None:
    """RL Zoo: true, or the keyword arguments of VecNormalize as text."""
    text = str(value)
    to.fields["norm_obs"] = bool(value) and not re.search(r"norm_obs['\"]?\s*[:=]\s*False", text)
    to.fields["norm_reward"] = bool(value) and not re.search(r"norm_reward['\"]?\s*[:=]\s*False", text)


READ = {"net_arch", "pi", "vf", "activation_fn", "log_std_init", "ortho_init"}  # out of policy_kwargs


def _policy_kwargs(value: Any, to: Translated) -> None:
    """Widths and activation out of policy_kwargs, given as a mapping or as RL Zoo's text."""
    text = str(value)
    widths = [[int(n) for n in re.findall(r"\d+", group)] for group in re.findall(r"\[([\d,\s]+)\]", text)]
    if widths and "net_arch" in text:
        to.fields["hidden_sizes"] = widths[0]
        if any(other != widths[0] for other in widths):
            to.notes.append(f"hidden_sizes: {widths} there; both networks have those of the policy here")
    for name in ("tanh", "relu", "elu", "silu", "gelu"):
        if re.search(rf"activation_fn[^,)]*\b{name}\b", text, re.IGNORECASE):
            to.fields["activation"] = name
    if "activation_fn" in text and "activation" not in to.fields:
        to.left_out["policy_kwargs: activation_fn"] = "not one of the activations here"
    deviation = re.search(r"log_std_init['\"]?\s*[:=]\s*(-?[\d.]+)", text)
    if deviation:
        to.fields["log_std_init"] = float(deviation[1])
    if re.search(r"ortho_init['\"]?\s*[:=]\s*False", text):
        to.fields["ortho_init"] = False
    named = set(re.findall(r"['\"]?(\w+)['\"]?\s*[:=]", text))
    for name in sorted(named - READ):
        to.left_out[f"policy_kwargs: {name}"] = "has no counterpart here"
    if not named or ("net_arch" in named and not widths):
        to.left_out["policy_kwargs"] = f"{text!r} cannot be read"


LIBRARY = Library(
    rules={
        **{
            name: same(name) for name in ("gamma", "gae_lambda", "ent_coef", "max_grad_norm", "total_timesteps", "seed")
        },
        "n_envs": same("num_envs"),
        "n_steps": same("num_steps"),
        "batch_size": same("minibatch_size"),
        "n_epochs": same("update_epochs"),
        "n_timesteps": whole("total_timesteps"),
        "learning_rate": step_size,
        "clip_range": _clip,
        "clip_range_vf": _value_clip,
        "vf_coef": same("vf_coef"),
        "target_kl": same("target_kl"),
        "normalize_advantage": normalized,
        "normalize": _vec_normalize,
        "policy_kwargs": _policy_kwargs,
        "policy": nothing("the network follows from the observation and --network"),
        "use_sde": nothing("state-dependent exploration is not implemented"),
        "sde_sample_freq": nothing("state-dependent exploration is not implemented"),
        "env_wrapper": nothing("wrappers are Python code; register the wrapped environment"),
        "frame_stack": nothing("frames are not stacked"),
    },
    silent={
        "n_envs": 1,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "learning_rate": 3e-4,
        "ent_coef": 0.0,
        "normalize_advantage": True,
    },
)
