"""skrl 2, of Isaac Lab: the fields of PPO_CFG, or of `agent` in its YAML. The value loss is the squared error."""

from __future__ import annotations

from typing import Any

from trimtab.libraries.translation_rules import Library, NoCounterpart, Translated, nothing, same, times

KL_THRESHOLD = 0.008  # KLAdaptiveLR's own


def _prepare(values: dict[str, Any], to: Translated) -> None:
    """Version 1 has a switch for the clip of values; a scheduler's settings follow its name."""
    if "clip_predicted_values" in values and not values.pop("clip_predicted_values"):
        values["value_clip"] = 0.0
    if "learning_rate_scheduler_kwargs" in values:
        values["learning_rate_scheduler_kwargs"] = values.pop("learning_rate_scheduler_kwargs")


def _learned_rate(value: Any, to: Translated) -> None:
    """One; of two, the first, which both networks are trained with."""
    to.fields["learning_rate"] = float(value[0] if isinstance(value, list | tuple) else value)


def _scheduler(value: Any, to: Translated) -> None:
    """KLAdaptiveLR (KLAdaptiveRL in older versions), or none."""
    if not value or str(value).lower() == "none":
        to.fields["anneal_lr"] = "constant"
    elif "kladaptive" in str(value).lower():
        to.fields |= {"anneal_lr": "adaptive", "desired_kl": KL_THRESHOLD}
    else:
        raise NoCounterpart("not one of the schedules here; see anneal_lr")


def _scheduled(value: Any, to: Translated) -> None:
    """The settings of KLAdaptiveLR."""
    if to.fields.get("anneal_lr") == "adaptive" and isinstance(value, dict):
        to.fields["desired_kl"] = value.get("kl_threshold", KL_THRESHOLD)


def _gradient_norm(value: Any, to: Translated) -> None:
    to.fields["max_grad_norm"] = value if value > 0 else None


def _value_clip(value: Any, to: Translated) -> None:
    if value > 0:
        to.fields["clip_vloss"] = value


def _stop(value: Any, to: Translated) -> None:
    if value > 0:
        times("target_kl", 1 / 1.5, "because here updates stop at 1.5 times it")(value, to)


def _values(value: Any, to: Translated) -> None:
    to.fields["norm_value"] = "popart" if value and str(value).lower() != "none" else "none"


def _observations(value: Any, to: Translated) -> None:
    to.fields["norm_obs"] = bool(value) and str(value).lower() != "none"


LIBRARY = Library(
    rules={
        **{name: same(name) for name in ("gae_lambda", "seed", "num_envs")},
        "rollouts": same("num_steps"),
        "learning_epochs": same("update_epochs"),
        "mini_batches": same("num_minibatches"),
        "discount_factor": same("gamma"),
        "lambda": same("gae_lambda"),
        "learning_rate": _learned_rate,
        "learning_rate_scheduler": _scheduler,
        "learning_rate_scheduler_kwargs": _scheduled,
        "observation_preprocessor": _observations,
        "state_preprocessor": _observations,
        "value_preprocessor": _values,
        "grad_norm_clip": _gradient_norm,
        "ratio_clip": same("clip_coef"),
        "value_clip": _value_clip,
        "entropy_loss_scale": same("ent_coef"),
        "value_loss_scale": same("vf_coef"),
        "kl_threshold": _stop,
        "time_limit_bootstrap": nothing("values are always bootstrapped beyond time limits here"),
        "rewards_shaper_scale": nothing("rewards are not multiplied; norm_reward scales them by what is seen"),
    },
    silent={
        "rollouts": 16,
        "learning_epochs": 8,
        "mini_batches": 2,
        "discount_factor": 0.99,
        "gae_lambda": 0.95,
        "learning_rate": 1e-3,
        "grad_norm_clip": 0.5,
        "ratio_clip": 0.2,
        "value_clip": 0.2,
        "entropy_loss_scale": 0.0,
        "value_loss_scale": 2.5,
    },
    fixed={"adam_eps": 1e-8, "norm_adv": "batch"},
    sizes=("clip_predicted_values",),
    prepare=_prepare,
    always=(
        "clip_vloss: the clipped prediction alone makes the loss there, the larger of both losses here",
        "anneal_lr: an adaptive step size is moved once an epoch there and down to 1e-6, by minibatch and 1e-5 here",
        "time limits: without time_limit_bootstrap the next episode's first value stands in for the last one's next "
        "there; the true next one here",
    ),
)
