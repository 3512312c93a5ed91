"""CleanRL's ppo.py. `batch_size` is N × T; the value loss is half of the squared error."""

from __future__ import annotations

from typing import Any

from trimtab.libraries.translation_rules import Library, Translated, normalized, nothing, same, times, value_clip


def _anneal(value: Any, to: Translated) -> None:
    to.fields["anneal_lr"] = "linear" if value else "constant"


LIBRARY = Library(
    rules={
        **{
            name: same(name) for name in ("gamma", "gae_lambda", "ent_coef", "max_grad_norm", "total_timesteps", "seed")
        },
        **{name: same(name) for name in ("num_envs", "num_steps", "num_minibatches", "update_epochs", "learning_rate")},
        **{name: same(name) for name in ("env_id", "clip_coef")},
        "anneal_lr": _anneal,
        "norm_adv": normalized,
        "clip_vloss": value_clip,
        "vf_coef": times("vf_coef", 0.5, "because its value loss is half of the squared error"),
        "target_kl": times("target_kl", 1 / 1.5, "because here updates stop at 1.5 times it"),
        "batch_size": nothing("it follows: num_envs × num_steps"),
        "minibatch_size": nothing("it follows from num_minibatches"),
        "num_iterations": nothing("it follows from total_timesteps"),
    },
    silent={"norm_adv": True, "clip_vloss": True, "anneal_lr": True, "vf_coef": 0.5},
    always=("time limits: the end of an episode like any other there; here values are bootstrapped beyond them",),
)
