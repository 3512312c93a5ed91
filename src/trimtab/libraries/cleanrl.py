"""CleanRL's ppo.py. `batch_size` is N × T; the value loss is half of the squared error.

Its logs are TensorBoard's, with every episode and a table of hyperparameters as text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from trimtab.core import reading
from trimtab.libraries.common.foreign_options import (
    CLIPS_VALUE,
    GRADIENT_NORM,
    HALF_SQUARED,
    PER_MINIBATCH,
    STOPS_AT_TARGET,
    Option,
    same,
    switch,
)
from trimtab.libraries.common.library import Details, Library, LogFormat, NetworkNames, Sources
from trimtab.libraries.common.settings_text import as_flags

OPTIONS = {
    **same("num_envs", "num_steps", "num_minibatches", "update_epochs", "learning_rate", "gamma", "gae_lambda"),
    "max_grad_norm": GRADIENT_NORM,
    **same("ent_coef", "total_timesteps", "seed", "env_id", "clip_coef"),
    "anneal_lr": replace(
        switch("anneal_lr", "linear", "constant"), default=True, write=lambda config: config.anneal_lr == "linear"
    ),
    "norm_adv": PER_MINIBATCH.otherwise(True),
    "clip_vloss": CLIPS_VALUE.otherwise(True),
    "vf_coef": HALF_SQUARED.otherwise(0.5),
    "target_kl": STOPS_AT_TARGET,
    "batch_size": Option(absent="it follows: num_envs × num_steps"),
    "minibatch_size": Option(absent="it follows from num_minibatches"),
    "num_iterations": Option(absent="it follows from total_timesteps"),
}


def _details(sources: Sources) -> Details:
    rows = re.findall(r"^\|(\w+)\|(.*)\|$", sources.texts.get("hyperparameters", ""), re.MULTILINE)
    values = {name: reading.parse_yaml(text) for name, text in rows if name in OPTIONS and text != "None"}
    steps, returns = sources.of("charts/episodic_return")
    lengths = sources.of("charts/episodic_length")[1]
    return Details(values, env_id=values.get("env_id"), returns=returns, steps=steps, lengths=lengths)


LIBRARY = Library(
    name="cleanrl",
    title="CleanRL",
    options=OPTIONS,
    fixed={"norm_adv_ddof": 1},
    always=("time limits: CleanRL treats them as the end of an episode; trimtab bootstraps the value beyond them",),
    log=LogFormat(
        marks=("losses/clipfrac", "losses/old_approx_kl", "charts/SPS"),
        names={
            "losses/clipfrac": "train/clip_fraction",
            "losses/approx_kl": "train/approx_kl",
            "losses/entropy": "train/entropy_loss",
            "losses/explained_variance": "train/explained_variance",
            "losses/value_loss": "train/value_loss",
            "losses/policy_loss": "train/policy_gradient_loss",
            "charts/learning_rate": "train/learning_rate",
            "charts/SPS": "time/fps",
        },
        details=_details,
        negated=frozenset({"losses/entropy"}),
    ),
    networks=(
        NetworkNames("actor_mean", "critic", log_std=("actor_logstd",)),
        NetworkNames("actor", "critic"),
    ),
    forms={"flags": as_flags("python ppo.py")},
    phrases={
        "adam_eps": "eps={value:g} in optim.Adam",
        "hidden_sizes": "layers of {value} in Agent",
        "norm_reward": "gym.wrappers.NormalizeReward(env) in make_env",
        "norm_obs": "gym.wrappers.NormalizeObservation(env) in make_env",
    },
)
