"""Hyperparameters of other libraries in this one's words, and what they do differently. Pure.

The same word means different things: `batch_size` is the minibatch in Stable-Baselines3 and N × T in CleanRL; the value
loss is half of the squared error in CleanRL and all of it in Stable-Baselines3. Versions meant: Stable-Baselines3 2.9,
CleanRL's ppo.py, RLlib 2.50.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trimtab.config import Config, ConfigError, from_dict, nearest_divisors
from trimtab.wording import nearest


@dataclass
class Translated:
    """Fields here, remarks on what is not the same, and what has no counterpart."""

    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def config(self, env_id: str | None) -> Config:
        return from_dict(({"env_id": env_id} if env_id else {}) | self.fields)


Rule = Callable[[Any, Translated], None]


def same(name: str) -> Rule:
    """Another name for the same thing."""

    def rule(value: Any, to: Translated) -> None:
        to.fields[name] = value

    return rule


def times(name: str, factor: float, why: str) -> Rule:
    """The same thing in another unit."""

    def rule(value: Any, to: Translated) -> None:
        if value is not None:
            to.fields[name] = value * factor
            to.notes.append(f"{name}: {value:g} there is {value * factor:g} here, {why}")

    return rule


def nothing(why: str) -> Rule:
    """A field without counterpart; `why` says what happens instead."""

    def rule(value: Any, to: Translated) -> None:
        raise _NoCounterpart(why)

    return rule


class _NoCounterpart(Exception):
    pass


# Rules that take more than a name ----------------------------------------------------------------------------


def _step_size(value: Any, to: Translated) -> None:
    """A number, or RL Zoo's lin_3e-4: linear to 0."""
    text = str(value)
    to.fields["learning_rate"] = float(text.removeprefix("lin_"))
    if text.startswith("lin_"):
        to.fields["anneal_lr"] = "linear"


def _clip(value: Any, to: Translated) -> None:
    text = str(value)
    to.fields["clip_coef"] = float(text.removeprefix("lin_"))
    if text.startswith("lin_"):
        to.notes.append("clip_coef: falls linearly to 0 there, stays here")


def _normalized(value: Any, to: Translated) -> None:
    to.fields["norm_adv"] = "minibatch" if value else "none"
    if value:
        to.notes.append(
            "norm_adv: over each minibatch there, so kept; batch is the default here and couples no samples"
        )


def _vec_normalize(value: Any, to: Translated) -> None:
    """RL Zoo: true, or the keyword arguments of VecNormalize as text."""
    text = str(value)
    to.fields["norm_obs"] = bool(value) and not re.search(r"norm_obs['\"]?\s*[:=]\s*False", text)
    to.fields["norm_reward"] = bool(value) and not re.search(r"norm_reward['\"]?\s*[:=]\s*False", text)


def _policy_kwargs(value: Any, to: Translated) -> None:
    """Widths and activation out of policy_kwargs, given as a mapping or as RL Zoo's text."""
    text = str(value)
    widths = re.search(r"net_arch.*?\[\s*([\d,\s]+)\]", text)
    if widths:
        to.fields["hidden_sizes"] = [int(n) for n in widths[1].replace(" ", "").split(",") if n]
    for name in ("tanh", "relu"):
        if re.search(rf"activation_fn.*{name}", text, re.IGNORECASE):
            to.fields["activation"] = name
    found = re.search(r"log_std_init['\"]?\s*[:=]\s*(-?[\d.]+)", text)
    if found:
        to.fields["log_std_init"] = float(found[1])
    if re.search(r"ortho_init['\"]?\s*[:=]\s*False", text):
        to.notes.append("ortho_init: off there; networks start orthogonal here")


def _value_clip(value: Any, to: Translated) -> None:
    """CleanRL: a switch; the range is clip_coef."""
    if value:
        to.fields["clip_vloss"] = "clip_coef"


def _anneal(value: Any, to: Translated) -> None:
    to.fields["anneal_lr"] = "linear" if value else "constant"


SHARED: dict[str, Rule] = {
    name: same(name) for name in ("gamma", "gae_lambda", "ent_coef", "max_grad_norm", "total_timesteps", "seed")
}

LIBRARIES: dict[str, dict[str, Rule]] = {
    "sb3": SHARED
    | {
        "n_envs": same("num_envs"),
        "n_steps": same("num_steps"),
        "batch_size": same("minibatch_size"),
        "n_epochs": same("update_epochs"),
        "n_timesteps": lambda value, to: same("total_timesteps")(int(float(value)), to),
        "learning_rate": _step_size,
        "clip_range": _clip,
        "clip_range_vf": same("clip_vloss"),
        "vf_coef": same("vf_coef"),
        "target_kl": same("target_kl"),
        "normalize_advantage": _normalized,
        "normalize": _vec_normalize,
        "policy_kwargs": _policy_kwargs,
        "policy": nothing("the network follows from the observation and --network"),
        "use_sde": nothing("state-dependent exploration is not implemented"),
        "sde_sample_freq": nothing("state-dependent exploration is not implemented"),
        "env_wrapper": nothing("wrappers are Python code; register the wrapped environment"),
        "frame_stack": nothing("frames are not stacked"),
    },
    "cleanrl": SHARED
    | {
        **{name: same(name) for name in ("num_envs", "num_steps", "num_minibatches", "update_epochs", "learning_rate")},
        **{name: same(name) for name in ("env_id", "clip_coef")},
        "anneal_lr": _anneal,
        "norm_adv": _normalized,
        "clip_vloss": _value_clip,
        "vf_coef": times("vf_coef", 0.5, "because its value loss is half of the squared error"),
        "target_kl": times("target_kl", 1 / 1.5, "because here updates stop at 1.5 times it"),
        "batch_size": nothing("it follows: num_envs × num_steps"),
        "minibatch_size": nothing("it follows from num_minibatches"),
        "num_iterations": nothing("it follows from total_timesteps"),
    },
    "rllib": {
        "gamma": same("gamma"),
        "lr": _step_size,
        "lambda": same("gae_lambda"),
        "lambda_": same("gae_lambda"),
        "clip_param": same("clip_coef"),
        "vf_clip_param": nothing("it caps the value loss; clip_vloss here clips the change of the prediction"),
        "vf_loss_coeff": same("vf_coef"),
        "entropy_coeff": same("ent_coef"),
        "grad_clip": same("max_grad_norm"),
        "num_epochs": same("update_epochs"),
        "num_sgd_iter": same("update_epochs"),
        "minibatch_size": same("minibatch_size"),
        "sgd_minibatch_size": same("minibatch_size"),
        "rollout_fragment_length": nothing("rows here have one length, which follows from train_batch_size"),
        "kl_coeff": nothing("the penalty beside the clip is not implemented; surrogate kl is a penalty alone"),
        "kl_target": nothing("the penalty beside the clip is not implemented"),
        "use_gae": nothing("advantages always use it"),
        "use_critic": nothing("there is always a critic"),
    },
}
# What a library does where its user says nothing, if it is not what happens here.
SILENT: dict[str, dict[str, Any]] = {
    "sb3": {
        "n_envs": 1,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "learning_rate": 3e-4,
        "ent_coef": 0.0,
        "normalize_advantage": True,
    },
    "cleanrl": {"norm_adv": True, "clip_vloss": True, "anneal_lr": True, "vf_coef": 0.5},
    "rllib": {
        "train_batch_size": 4000,
        "minibatch_size": 128,
        "num_epochs": 30,
        "lr": 5e-5,
        "lambda_": 1.0,
        "clip_param": 0.3,
        "vf_loss_coeff": 1.0,
        "entropy_coeff": 0.0,
        "grad_clip": None,
        "kl_coeff": 0.2,
    },
}
ALWAYS = {
    "sb3": [],
    "cleanrl": ["time limits: the end of an episode like any other there; here values are bootstrapped beyond them"],
    "rllib": [],
}


def translate(library: str, given: dict[str, Any], defaults: bool = True) -> Translated:
    """Fields of another library here. With `defaults`, what it does where nothing is given is translated too."""
    rules, to = _rules(library), Translated(notes=list(ALWAYS.get(library, [])))
    values = (SILENT[library] if defaults else {}) | given
    if library == "rllib":
        _rllib_sizes(values, to)
    for name, value in values.items():
        if name not in rules:
            close = nearest(name, rules)
            raise ConfigError(
                name, value, f"{library} has no such field; nearest: {', '.join(close) or 'see the docs'}"
            )
        try:
            rules[name](value, to)
        except _NoCounterpart as why:
            to.left_out[name] = str(why)
        except (TypeError, ValueError):
            raise ConfigError(name, value, "cannot be read as a value of this field") from None
    if to.fields.get("clip_vloss") == "clip_coef":
        to.fields["clip_vloss"] = to.fields.get("clip_coef", Config.clip_coef)
    if library == "rllib":
        _whole_minibatches(to)
    return to


def _rules(library: str) -> dict[str, Rule]:
    if library not in LIBRARIES:
        raise ConfigError("library", library, f"must be one of {', '.join(LIBRARIES)}")
    return LIBRARIES[library]


def _whole_minibatches(to: Translated) -> None:
    """RLlib lets the last minibatch wrap around; here every sample is used once an epoch, so sizes must divide."""
    batch, size = to.fields["num_envs"] * to.fields.get("num_steps", 0), to.fields.get("minibatch_size")
    if batch and size and batch % int(size):
        to.fields["minibatch_size"] = min(nearest_divisors(batch, int(size)), key=lambda d: abs(d - int(size)))
        to.notes.append(f"minibatch_size: {size} does not divide {batch}; there the last one wraps around")


def _rllib_sizes(values: dict[str, Any], to: Translated) -> None:
    """N is the environments of all runners; train_batch_size is N × T, so T follows."""
    runners, each = values.pop("num_env_runners", 0), values.pop("num_envs_per_env_runner", 1)
    num_envs = to.fields["num_envs"] = max(1, int(runners)) * int(each)
    usual = values.pop("train_batch_size", None)
    size = values.pop("train_batch_size_per_learner", usual)
    if size is None:
        return
    if int(size) % num_envs:
        near = int(size) // num_envs * num_envs
        raise ConfigError("train_batch_size", size, f"is no multiple of {num_envs} environments; nearest: {near}")
    to.fields["num_steps"] = int(size) // num_envs
    to.notes.append(f"num_steps: train_batch_size {size} is N × T, so T = {int(size) // num_envs} with N = {num_envs}")
