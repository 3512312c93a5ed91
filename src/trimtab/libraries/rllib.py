"""RLlib 2.50. `train_batch_size` is N × T over the environments of all runners."""

from __future__ import annotations

from typing import Any

from trimtab.config import ConfigError, nearest_divisors
from trimtab.libraries.translation_rules import Library, Translated, nothing, same, step_size


def _sizes(values: dict[str, Any], to: Translated) -> None:
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


def _whole_minibatches(to: Translated) -> None:
    """RLlib lets the last minibatch wrap around; here every sample is used once an epoch, so sizes must divide."""
    batch, size = to.fields["num_envs"] * to.fields.get("num_steps", 0), to.fields.get("minibatch_size")
    if batch and size and batch % int(size):
        to.fields["minibatch_size"] = min(nearest_divisors(batch, int(size)), key=lambda d: abs(d - int(size)))
        to.notes.append(f"minibatch_size: {size} does not divide {batch}; there the last one wraps around")


LIBRARY = Library(
    rules={
        "gamma": same("gamma"),
        "lr": step_size,
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
    silent={
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
    sizes=("num_env_runners", "num_envs_per_env_runner", "train_batch_size", "train_batch_size_per_learner"),
    prepare=_sizes,
    finish=_whole_minibatches,
)
