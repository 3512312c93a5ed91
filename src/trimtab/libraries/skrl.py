"""skrl 2, of Isaac Lab: the fields of PPO_CFG, or of `agent` in its YAML. The value loss is the squared error.

Its logs are TensorBoard's, over calls of the vector environment, with params/agent.yaml of Isaac Lab. There is no clip
fraction and no KL; an adaptive learning rate, which follows the KL, stands in for them. The recorded losses of entropy
and values have been multiplied by their coefficients.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from trimtab.config import Config
from trimtab.libraries.common.foreign_options import (
    ACTIVATION,
    CLIPS_VALUE_ALONE,
    GROUPED,
    NOT_SET,
    STOPS_AT_TARGET,
    NoCounterpart,
    Option,
    Translated,
    Values,
    inside,
    positive,
    read_length,
    same,
    switch,
)
from trimtab.libraries.common.library import Details, Library, LogFormat, NetworkNames, Sources, agent_yaml, table_in
from trimtab.libraries.common.settings_text import in_tables

KL_THRESHOLD = 0.008  # KLAdaptiveLR's own
RATE = "Learning / Learning rate"
SCALER = "RunningStandardScaler"


def _prepare(values: Values, to: Translated) -> None:
    """Version 1 has a switch for the clip of values; the trainer counts calls of the vector environment."""
    if "clip_predicted_values" in values and not values.pop("clip_predicted_values"):
        values["value_clip"] = 0.0
    read_length("timesteps", ("num_envs",), values, to)


def _learning_rate(value: Any, to: Translated) -> None:
    """One; of two, the first, which both networks are trained with."""
    to.fields["learning_rate"] = float(value[0] if isinstance(value, list | tuple) else value)


def _scheduler(value: Any, to: Translated) -> None:
    """KLAdaptiveLR (KLAdaptiveRL in older versions), or none."""
    if not _is_given(value):
        to.fields["anneal_lr"] = "constant"
    elif "kladaptive" in str(value).lower():
        to.fields |= {"anneal_lr": "adaptive", "desired_kl": KL_THRESHOLD}
    else:
        raise NoCounterpart("not one of the schedules here; see anneal_lr")


def _scheduler_settings(value: Any, to: Translated) -> None:
    if to.fields.get("anneal_lr") == "adaptive" and isinstance(value, dict):
        to.fields["desired_kl"] = value.get("kl_threshold", KL_THRESHOLD)


def _scheduler_settings_of(config: Config) -> Any:
    return {"kl_threshold": config.desired_kl} if config.anneal_lr == "adaptive" else NOT_SET


def _is_given(value: Any) -> bool:
    return bool(value) and str(value).lower() != "none"


def _values(value: Any, to: Translated) -> None:
    to.fields["norm_value"] = "popart" if _is_given(value) else "none"


def _observations(value: Any, to: Translated) -> None:
    to.fields["norm_obs"] = _is_given(value)


OBSERVATIONS = Option("norm_obs", read=_observations, write=lambda config: SCALER if config.norm_obs else None)
OPTIONS = {
    **same("seed"),
    "num_envs": Option("num_envs"),
    **inside("trainer", {"timesteps": replace(GROUPED, write=lambda config: config.steps // config.num_envs)}),
    **inside("models", {"separate": switch("arch", "dual", "shared")}),
    **inside("models.policy", {"initial_log_std": Option("log_std_init")}),
    **inside("models.policy.network.0", {"layers": Option("hidden_sizes"), "activations": ACTIVATION}),
    **inside(
        "agent",
        {
            "rollouts": Option("num_steps", default=16),
            "learning_epochs": Option("update_epochs", default=8),
            "mini_batches": Option("num_minibatches", default=2),
            "discount_factor": Option("gamma", default=0.99),
            "gae_lambda": Option("gae_lambda", default=0.95),
            "lambda": Option("gae_lambda"),
            "learning_rate": Option("learning_rate", read=_learning_rate, default=1e-3),
            "learning_rate_scheduler": Option(
                "anneal_lr",
                read=_scheduler,
                write=lambda config: {"adaptive": "KLAdaptiveLR", "constant": None}.get(config.anneal_lr, NOT_SET),
            ),
            "learning_rate_scheduler_kwargs": Option(read=_scheduler_settings, write=_scheduler_settings_of),
            "observation_preprocessor": OBSERVATIONS,
            "state_preprocessor": OBSERVATIONS,
            "value_preprocessor": Option(
                "norm_value", read=_values, write=lambda config: SCALER if config.norm_value == "popart" else None
            ),
            "grad_norm_clip": positive(Option("max_grad_norm")).otherwise(0.5),
            "ratio_clip": Option("clip_coef", default=0.2),
            "clip_predicted_values": GROUPED,
            "value_clip": positive(CLIPS_VALUE_ALONE).otherwise(0.2),
            "entropy_loss_scale": Option("ent_coef", default=0.0),
            "value_loss_scale": Option("vf_coef", default=2.5),
            "kl_threshold": positive(STOPS_AT_TARGET),
            "time_limit_bootstrap": Option(absent="values are always bootstrapped beyond time limits here"),
            "rewards_shaper_scale": Option(absent="rewards are not multiplied by a constant; see norm_reward"),
        },
    ),
}


def _frame(values: Values, config: Config) -> Values:
    """Models of skrl's instantiator, of the same widths, and the classes around them."""
    layers = {"name": "net", "input": "OBSERVATIONS"}
    sizes = {"layers": values.get("layers"), "activations": values.get("activations")}
    policy = {"class": "GaussianMixin", "clip_actions": False, "clip_log_std": True, "network": [dict(layers)]}
    value = {"class": "DeterministicMixin", "clip_actions": False, "network": [layers | sizes], "output": "ONE"}
    return {
        "models": {"policy": policy | {"output": "ACTIONS"}, "value": value},
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {"class": "PPO"},
        "trainer": {"class": "SequentialTrainer"},
    }


def _details(sources: Sources) -> Details:
    agent = agent_yaml(sources.folder)
    values, rates = LIBRARY.settings(agent), sources.of(RATE)[1]
    if "learning_rate_scheduler" not in values and (np.diff(rates) > 0).any():
        values["learning_rate_scheduler"] = "KLAdaptiveLR"
    return Details(values, env_id=table_in(agent, "agent.experiment").get("directory"))


LIBRARY = Library(
    name="skrl",
    title="skrl",
    options=OPTIONS,
    fixed={"adam_eps": 1e-8, "norm_adv": "batch", "norm_adv_ddof": 1},
    always=(
        "anneal_lr: skrl moves an adaptive learning rate once per epoch and down to 1e-6; trimtab once per minibatch "
        "and down to 1e-5",
        "time limits: without time_limit_bootstrap, skrl uses the first value of the next episode; trimtab uses the "
        "value of the true next observation",
    ),
    prepare=_prepare,
    forms={"yaml": in_tables(OPTIONS, _frame, frozenset({"num_envs"}))},
    outside={"num_envs": "num_envs is not part of this file: start training with --num_envs {value}"},
    per_rank=frozenset({"num_envs"}),
    tables=("", "trainer", "models", "models.policy", "models.policy.network.0", "agent"),
    log=LogFormat(
        marks=("Loss / Policy loss",),
        names={
            "Loss / Policy loss": "train/policy_gradient_loss",
            "Loss / Value loss": "train/value_loss",
            "Policy / Standard deviation": "train/std",
            RATE: "train/learning_rate",
            "Reward / Total reward (mean)": "rollout/ep_rew_mean",
            "Episode / Total timesteps (mean)": "rollout/ep_len_mean",
        },
        details=_details,
        axis="calls",
        rates=(1e-6, 1e-2),
    ),
    networks=(
        NetworkNames(
            policy="net_container",
            value="value.net_container",
            log_std=("log_std_parameter",),
            observed=("observation_preprocessor", "state_preprocessor"),
            observed_by_critic=("observation_preprocessor", "state_preprocessor"),
            values="value_preprocessor",
        ),
    ),
    phrases={
        "norm_obs": "observation_preprocessor: RunningStandardScaler",
        "norm_value": "value_preprocessor: RunningStandardScaler",
        "anneal_lr": "learning_rate_scheduler: KLAdaptiveLR",
    },
    activation_known=False,
)
