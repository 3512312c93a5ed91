"""What the options of a training run are about: the groups `--help` shows them in, in this order."""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {
    "environment": ("env_id", "backend", "env_kwargs", "time_limit"),
    "run": ("algo", "seed", "total_timesteps"),
    "batch": ("num_envs", "num_steps", "devices", "stagger_resets"),
    "minibatches": ("num_minibatches", "minibatch_size", "update_epochs", "value_epochs"),
    "objective": (
        "surrogate",
        "clip_coef",
        "kl_coef",
        "imp_samp_max",
        "clip_vloss",
        "vf_coef",
        "ent_coef",
        "ent_anneal",
        "target_kl",
    ),
    "advantages": ("gamma", "gae_lambda", "norm_adv", "norm_adv_span", "baseline"),
    "optimizer": (
        "optimizer",
        "learning_rate",
        "anneal_lr",
        "warmup_steps",
        "adam_beta1",
        "adam_beta2",
        "adam_eps",
        "momentum",
        "weight_decay",
        "max_grad_norm",
    ),
    "network": ("network", "hidden_sizes", "impala_channels", "activation", "arch", "log_std_init"),
    "normalization": ("norm_obs", "norm_reward", "clip_obs", "clip_reward", "norm_reward_gamma"),
    "proximal policy and staleness": ("prox_com", "staleness", "staleness_loss"),
    "PPG": ("policy_iterations", "aux_epochs", "aux_minibatch_size", "aux_learning_rate", "beta_clone"),
    "evaluation and probes": ("eval_every", "eval_episodes", "eval_threshold", "probe_every"),
}
