"""Fields of `Config` as the keyword arguments of functions that take them, so that editors and type checkers know them.

Kept by hand beside `Config`; a test holds every name and type against it.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from trimtab.config.algorithms import Name
from trimtab.envs.backends import BackendName
from trimtab.math.optimizers import OptimizerName
from trimtab.math.surrogates import SurrogateName
from trimtab.nets.families import NetworkName


class Fields(TypedDict, total=False):
    """Any of the fields of `Config`, which says what each means."""

    env_id: str
    backend: BackendName
    env_kwargs: dict[str, Any]
    time_limit: int | None
    algo: Name
    seed: int
    total_timesteps: int
    num_envs: int
    num_steps: int
    devices: int
    stagger_resets: bool
    num_minibatches: int | None
    minibatch_size: int | None
    minibatch_by: Literal["samples", "rows"]
    update_epochs: int
    value_epochs: int | None
    surrogate: SurrogateName
    clip_coef: float
    clip_anneal: Literal["constant", "linear"]
    kl_coef: float
    imp_samp_max: float
    clip_vloss: float | None
    clip_vloss_form: Literal["larger", "clipped"]
    vf_coef: float
    ent_coef: float
    ent_anneal: float
    target_kl: float | None
    gamma: float
    gae_lambda: float
    norm_adv: Literal["none", "batch", "minibatch", "ewma"]
    norm_adv_ddof: int
    norm_adv_span: float
    baseline: bool
    optimizer: OptimizerName
    learning_rate: float
    value_learning_rate: float | None
    anneal_lr: Literal["constant", "linear", "cosine", "adaptive"]
    desired_kl: float
    warmup_steps: int
    adam_beta1: float
    adam_beta2: float
    adam_eps: float
    momentum: float
    weight_decay: float
    max_grad_norm: float | None
    network: NetworkName
    hidden_sizes: tuple[int, ...] | None
    impala_channels: tuple[int, ...]
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"]
    ortho_init: bool
    arch: Literal["dual", "shared", "detach"]
    log_std_init: float
    actor_obs: tuple[str, ...]
    critic_obs: tuple[str, ...]
    norm_obs: bool
    norm_reward: bool
    norm_value: Literal["none", "popart"]
    clip_obs: float
    clip_reward: float
    norm_reward_gamma: float
    prox_com: float | None
    staleness: int
    staleness_loss: Literal["decoupled", "behavior", "recent"]
    policy_iterations: int
    aux_epochs: int
    aux_minibatch_size: int | None
    aux_learning_rate: float
    beta_clone: float
    eval_every: int | None
    eval_episodes: int
    eval_threshold: float | None
    probe_every: int
