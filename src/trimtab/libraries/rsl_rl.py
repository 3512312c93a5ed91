"""rsl_rl 5, of Isaac Lab and legged_gym. One order of minibatches serves all epochs there.

Its logs are TensorBoard's, by iteration, with params/agent.yaml of Isaac Lab. There is no clip fraction and no KL; the
adaptive learning rate, which follows the KL, stands in for them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from trimtab.config import Config
from trimtab.libraries.common.foreign_options import (
    ACTIVATION,
    CLIPS_VALUE,
    GRADIENT_NORM,
    GROUPED,
    Option,
    Translated,
    Values,
    inside,
    read_length,
    same,
    switch,
)
from trimtab.libraries.common.library import Details, Library, LogFormat, NetworkNames, Sources, agent_yaml
from trimtab.libraries.common.settings_text import in_tables

COLLECTING = ("Perf/collection_time", "Perf/collection time")
LEARNING = "Perf/learning_time"


def _deviation(value: Any, to: Translated) -> None:
    to.fields["log_std_init"] = math.log(value)


DEVIATION = Option("log_std_init", read=_deviation, write=lambda config: math.exp(config.log_std_init))
OBSERVATIONS = Option("norm_obs")
OPTIONS = {
    "num_envs": Option("num_envs", default=4096),
    "num_steps_per_env": Option("num_steps", default=24),
    "max_iterations": replace(GROUPED, write=lambda config: config.iterations),
    **inside(
        "algorithm",
        {
            "num_learning_epochs": Option("update_epochs", default=5),
            "num_mini_batches": Option("num_minibatches", default=4),
            "clip_param": Option("clip_coef", default=0.2),
            "gamma": Option("gamma", default=0.99),
            "lam": Option("gae_lambda", default=0.95),
            "value_loss_coef": Option("vf_coef", default=1.0),
            "entropy_coef": Option("ent_coef", default=0.01),
            "learning_rate": Option("learning_rate", default=1e-3),
            "max_grad_norm": GRADIENT_NORM.otherwise(1.0),
            "use_clipped_value_loss": CLIPS_VALUE.otherwise(True),
            "schedule": Option(
                "anneal_lr",
                values={"adaptive": "adaptive", "fixed": "constant"},
                default="adaptive",
                write=lambda config: "adaptive" if config.anneal_lr == "adaptive" else "fixed",
            ),
            "desired_kl": Option("desired_kl", default=0.01),
            "normalize_advantage_per_mini_batch": switch("norm_adv", "minibatch", "batch"),
        },
    ),
    **inside(
        "actor",
        {
            "activation": ACTIVATION.otherwise("elu"),
            "hidden_dims": Option("hidden_sizes"),
            "actor_hidden_dims": Option("hidden_sizes"),
            "critic_hidden_dims": Option(absent="both networks have the widths of hidden_sizes"),
            "obs_normalization": OBSERVATIONS,
            "actor_obs_normalization": OBSERVATIONS,
            "empirical_normalization": OBSERVATIONS,
        },
    ),
    **inside("actor.distribution_cfg", {"init_std": DEVIATION, "init_noise_std": DEVIATION}),
    **same("seed"),
}


def _frame(values: Values, config: Config) -> Values:
    """The tables of version 5: two networks of the same widths."""
    network = {name: values[name] for name in ("hidden_dims", "activation", "obs_normalization") if name in values}
    return {
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {"class_name": "MLPModel", "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": {"class_name": "MLPModel", **network},
        "algorithm": {"class_name": "PPO"},
    }


def _details(sources: Sources) -> Details:
    agent = agent_yaml(sources.folder)
    values, batch = LIBRARY.settings(agent), _batch(sources)
    if "num_steps_per_env" in values and batch:
        values.setdefault("num_envs", max(1, round(batch / values["num_steps_per_env"])))
    return Details(values, batch, env_id=agent.get("experiment_name"))


def _batch(sources: Sources) -> int | None:
    """Samples of an iteration: steps per second times the seconds it took."""
    collecting, learning, speed = (sources.of(*tags)[1] for tags in (COLLECTING, (LEARNING,), ("Perf/total_fps",)))
    if not min(len(collecting), len(learning), len(speed)):
        return None
    return round(float(np.median(speed * (collecting + learning))))


LIBRARY = Library(
    name="rsl_rl",
    title="rsl_rl",
    options=OPTIONS,
    fixed={"adam_eps": 1e-8, "norm_adv_ddof": 1},
    always=(
        "anneal_lr: rsl_rl adds 1e-5 inside the logarithm of the KL, so a policy that has not moved raises the "
        "learning rate",
        "minibatches: rsl_rl shuffles once for all epochs of an iteration, trimtab for each epoch",
        "time limits: rsl_rl bootstraps the value of the last observation, trimtab that of the true next one",
    ),
    prepare=lambda values, to: read_length("max_iterations", ("num_envs", "num_steps_per_env"), values, to),
    forms={"yaml": in_tables(OPTIONS, _frame, frozenset({"num_envs"}))},
    outside={"num_envs": "num_envs is not part of agent.yaml: start training with --num_envs {value}"},
    per_rank=frozenset({"num_envs"}),
    tables=("", "algorithm", "policy", "actor", "actor.distribution_cfg"),  # policy up to rsl_rl 3, actor since 4
    log=LogFormat(
        marks=("Loss/surrogate", "Perf/total_fps", "Policy/mean_noise_std"),
        names={
            "Loss/value": "train/value_loss",
            "Loss/value_function": "train/value_loss",
            "Loss/surrogate": "train/policy_gradient_loss",
            "Loss/entropy": "train/entropy_loss",
            "Loss/learning_rate": "train/learning_rate",
            "Policy/mean_std": "train/std",
            "Policy/mean_noise_std": "train/std",
            "Perf/total_fps": "time/fps",
            "Train/mean_reward": "rollout/ep_rew_mean",
            "Train/mean_episode_length": "rollout/ep_len_mean",
        },
        details=_details,
        negated=frozenset({"Loss/entropy"}),
        axis="iterations",
    ),
    networks=(
        NetworkNames(
            policy="actor_state_dict.mlp",
            value="critic_state_dict.mlp",
            log_std=("actor_state_dict.distribution.log_std_param",),
            std=("actor_state_dict.distribution.std_param",),
            observed=("actor_state_dict.obs_normalizer",),
            observed_by_critic=("critic_state_dict.obs_normalizer",),
        ),
        NetworkNames(
            policy="actor",
            value="critic",
            log_std=("log_std",),
            std=("std",),
            observed=("actor_obs_normalizer", "obs_norm_state_dict"),
            observed_by_critic=(
                "critic_obs_normalizer",
                "critic_obs_norm_state_dict",
                "privileged_obs_norm_state_dict",
            ),
            needs_spread=True,
        ),
    ),
)
