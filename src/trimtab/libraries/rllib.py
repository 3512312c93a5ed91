"""RLlib 2.50. `train_batch_size` is N × T over the environments of all runners."""

from __future__ import annotations

from trimtab.config import ConfigError, nearest_divisors
from trimtab.libraries.common.foreign_options import GROUPED, Option, Translated, Values
from trimtab.libraries.common.library import Library


def _sizes(values: Values, to: Translated) -> None:
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
    name="rllib",
    title="RLlib",
    options={
        "num_env_runners": GROUPED,
        "num_envs_per_env_runner": GROUPED,
        "train_batch_size": GROUPED.otherwise(4000),
        "train_batch_size_per_learner": GROUPED,
        "gamma": Option("gamma"),
        "lr": Option("learning_rate", default=5e-5),
        "lambda_": Option("gae_lambda", default=1.0),
        "lambda": Option("gae_lambda"),
        "clip_param": Option("clip_coef", default=0.3),
        "vf_clip_param": Option(absent="it caps the value loss; clip_vloss here clips the change of the prediction"),
        "vf_loss_coeff": Option("vf_coef", default=1.0),
        "entropy_coeff": Option("ent_coef", default=0.0),
        "grad_clip": Option("max_grad_norm", default=None),
        "num_epochs": Option("update_epochs", default=30),
        "num_sgd_iter": Option("update_epochs"),
        "minibatch_size": Option("minibatch_size", default=128),
        "sgd_minibatch_size": Option("minibatch_size"),
        "rollout_fragment_length": Option(absent="rows here have one length, which follows from train_batch_size"),
        "kl_coeff": Option(
            absent="the penalty beside the clip is not implemented; surrogate kl is a penalty alone"
        ).otherwise(0.2),
        "kl_target": Option(absent="the penalty beside the clip is not implemented"),
        "use_gae": Option(absent="advantages always use it"),
        "use_critic": Option(absent="there is always a critic"),
    },
    prepare=_sizes,
    finish=_whole_minibatches,
)
