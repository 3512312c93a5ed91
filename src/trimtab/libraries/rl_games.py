"""rl_games 1.6, of Isaac Lab: the `config` of its YAML. The value loss is half of the squared error.

Its logs are TensorBoard's (in `summaries` of a run), with params/agent.yaml of Isaac Lab. There is no clip fraction;
the KL is recorded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trimtab.config import Config
from trimtab.libraries.common.foreign_options import (
    ACTIVATION,
    CLIPS_VALUE,
    GROUPED,
    HALF_SQUARED,
    NOT_SET,
    Option,
    Translated,
    Values,
    inside,
    read_length,
    same,
    switch,
)
from trimtab.libraries.common.library import Details, Library, LogFormat, Sources, agent_yaml, table_in
from trimtab.libraries.common.settings_text import in_tables

RATE = "info/last_lr"


def _prepare(values: Values, to: Translated) -> None:
    """grad_norm counts only where gradients are clipped at all, kl_threshold where the learning rate is adaptive."""
    if "truncate_grads" in values and not values.pop("truncate_grads"):
        values.pop("grad_norm", None)
        to.fields["max_grad_norm"] = None
    if str(values.get("lr_schedule")).lower() != "adaptive":
        values.pop("kl_threshold", None)
    if values.get("num_actors") == -1:  # Isaac Lab's: as many as the environment has
        values.pop("num_actors")
    read_length("max_epochs", ("num_actors", "horizon_length"), values, to)


OPTIONS = {
    **inside("params", same("seed")),
    **inside("params.network", {"separate": switch("arch", "dual", "shared").otherwise(False)}),
    **inside("params.network.mlp", {"units": Option("hidden_sizes"), "activation": ACTIVATION}),
    **inside(
        "params.config",
        {
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
            "truncate_grads": replace(GROUPED, default=False, write=lambda config: config.max_grad_norm is not None),
            "grad_norm": Option("max_grad_norm"),
            "normalize_input": Option("norm_obs"),
            "normalize_advantage": switch("norm_adv", "batch", "none"),
            "normalize_value": switch("norm_value", "popart", "none"),
            "max_frames": Option("total_timesteps", write=lambda config: NOT_SET),
            "max_epochs": replace(GROUPED, write=lambda config: config.iterations),
            "weight_decay": Option("weight_decay"),
            "bounds_loss_coef": Option(absent="no loss keeps means within the actions' bounds"),
            "reward_shaper": Option(absent="rewards are not multiplied by a constant; see norm_reward and norm_value"),
            "value_bootstrap": Option(absent="values are always bootstrapped beyond time limits here"),
            "schedule_type": Option(
                absent="an adaptive learning rate is moved minibatch by minibatch here, as in legacy"
            ),
        },
    ),
}


def _frame(values: Values, config: Config) -> Values:
    """The tables of continuous actions, as rl_games's own examples have them."""
    network = {"name": "actor_critic", "mlp": {"initializer": {"name": "default"}}}
    network["space"] = {
        "continuous": {
            "mu_activation": "None",
            "sigma_activation": "None",
            "mu_init": {"name": "default"},
            "sigma_init": {"name": "const_initializer", "val": config.log_std_init},
            "fixed_sigma": True,
        }
    }
    settings = {"name": config.env_id, "env_name": "rlgpu", "ppo": True, "reward_shaper": {"scale_value": 1.0}}
    params = {"algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}}
    return {"params": {**params, "network": network, "config": settings}}


def _details(sources: Sources) -> Details:
    agent = agent_yaml(sources.folder)
    config = table_in(agent, "params.config")
    frames = sources.of("losses/a_loss")[0]
    batch = int(np.median(np.diff(frames))) if len(frames) > 1 else None
    offset = batch or 0 if len(frames) and frames[0] == 0 else 0  # of continuous actions the batch is counted after
    name = table_in(config, "env_config").get("name") or config.get("name")
    return Details(_recorded(sources) | LIBRARY.settings(agent), batch, offset, name)


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
    fixed={"adam_eps": 1e-8, "norm_adv_ddof": 1},
    always=("anneal_lr: rl_games lowers an adaptive learning rate down to 1e-6, trimtab to 1e-5",),
    prepare=_prepare,
    forms={"yaml": in_tables(OPTIONS, _frame, frozenset())},
    per_rank=frozenset({"num_actors", "minibatch_size"}),
    tables=("", "network", "network.mlp", "config", "params", "params.network", "params.network.mlp", "params.config"),
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
