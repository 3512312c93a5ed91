"""rl_games 1.6, of Isaac Lab: the `config` of its YAML. The value loss is half of the squared error.

Its logs are TensorBoard's (in `summaries` of a run), with params/agent.yaml of Isaac Lab. There is no clip fraction;
the KL is recorded.
"""

from __future__ import annotations

import numpy as np

from trimtab.libraries.common.isaac_lab import agent_yaml, known_options
from trimtab.libraries.common.library import Details, Library, LogFormat, Sources
from trimtab.libraries.common.options import (
    ACTIVATION,
    CLIPS_VALUE,
    GROUPED,
    HALF_SQUARED,
    Option,
    Translated,
    Values,
    same,
    switch,
)

RATE = "info/last_lr"


def _ignored(values: Values, to: Translated) -> None:
    """grad_norm counts only where gradients are clipped at all, kl_threshold where the learning rate is adaptive."""
    if "truncate_grads" in values and not values.pop("truncate_grads"):
        values.pop("grad_norm", None)
        to.fields["max_grad_norm"] = None
    if str(values.get("lr_schedule")).lower() != "adaptive":
        values.pop("kl_threshold", None)


OPTIONS = {
    "num_actors": Option("num_envs"),
    "horizon_length": Option("num_steps"),
    "minibatch_size": Option("minibatch_size"),
    "mini_epochs": Option("update_epochs"),
    "learning_rate": Option("learning_rate"),
    "lr_schedule": Option(
        "anneal_lr",
        values={"linear": "linear", "adaptive": "adaptive", None: "constant", "none": "constant"},
        default=None,
    ),
    "kl_threshold": Option("desired_kl"),
    "gamma": Option("gamma"),
    "tau": Option("gae_lambda"),
    "e_clip": Option("clip_coef"),
    "clip_value": CLIPS_VALUE,
    "critic_coef": HALF_SQUARED,
    "entropy_coef": Option("ent_coef"),
    "truncate_grads": GROUPED.otherwise(False),
    "grad_norm": Option("max_grad_norm"),
    "normalize_input": Option("norm_obs"),
    "normalize_advantage": switch("norm_adv", "batch", "none"),
    "normalize_value": switch("norm_value", "popart", "none"),
    "units": Option("hidden_sizes"),
    "activation": ACTIVATION,
    "separate": switch("arch", "dual", "shared").otherwise(False),
    "max_epochs": Option(absent="give total_timesteps: iterations × num_actors × horizon_length"),
    "max_frames": Option("total_timesteps"),
    "weight_decay": Option("weight_decay"),
    "bounds_loss_coef": Option(absent="no loss keeps means within the actions' bounds"),
    "reward_shaper": Option(absent="rewards are not multiplied; norm_reward or norm_value scale them by what is seen"),
    "value_bootstrap": Option(absent="values are always bootstrapped beyond time limits here"),
    "schedule_type": Option(absent="an adaptive learning rate is moved minibatch by minibatch here, as in legacy"),
    **same("seed"),
}


def _settings(values: Values, env_id: str | None = None) -> Values:
    """Hyperparameters of its YAML, which Isaac Lab writes to agent.yaml."""
    params = values.get("params") or values
    network = params.get("network") or {}
    return known_options(OPTIONS, params, network, network.get("mlp"), params.get("config"))


def _details(sources: Sources) -> Details:
    agent = agent_yaml(sources.folder)
    config = (agent.get("params") or {}).get("config") or {}
    frames = sources.of("losses/a_loss")[0]
    batch = int(np.median(np.diff(frames))) if len(frames) > 1 else None
    offset = batch or 0 if len(frames) and frames[0] == 0 else 0  # of continuous actions the batch is counted after
    name = (config.get("env_config") or {}).get("name") or config.get("name")
    return Details(_recorded(sources) | _settings(agent), batch, offset, name)


def _recorded(sources: Sources) -> Values:
    """What the records themselves show: the range of the clip, and a learning rate that goes up and down."""
    values: Values = {}
    clips, rates = sources.of("info/e_clip")[1], sources.of(RATE)[1]
    if len(clips):
        values["e_clip"] = float(clips[0])
    if len(rates):
        values["learning_rate"] = float(rates[0])
        falls = "linear" if rates[-1] < 0.5 * rates[0] else None
        values["lr_schedule"] = "adaptive" if (np.diff(rates) > 0).any() else falls
    return values


LIBRARY = Library(
    name="rl_games",
    title="rl_games",
    options=OPTIONS,
    fixed={"adam_eps": 1e-8},
    always=("anneal_lr: an adaptive learning rate goes down to 1e-6 there, to 1e-5 here",),
    prepare=_ignored,
    settings=_settings,
    log=LogFormat(
        marks=("losses/a_loss", "info/e_clip"),
        names={
            "losses/a_loss": "train/policy_gradient_loss",
            "losses/c_loss": "train/value_loss",
            "losses/entropy": "train/entropy_loss",
            "info/kl": "train/approx_kl",
            RATE: "train/learning_rate",
            "performance/step_inference_rl_update_fps": "time/fps",
            "rewards/step": "rollout/ep_rew_mean",
            "episode_lengths/step": "rollout/ep_len_mean",
        },
        details=_details,
        negated=frozenset({"losses/entropy"}),
        rates=(1e-6, 1e-2),
    ),
)
