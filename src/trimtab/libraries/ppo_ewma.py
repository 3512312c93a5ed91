"""openai/ppo-ewma, the code of Hilton et al. 2021 (arXiv 2110.00641). Minibatches hold whole rows."""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.config.algorithms import ALGORITHMS
from trimtab.libraries.common.foreign_options import GROUPED, NoCounterpart, Option, Translated, Values, same
from trimtab.libraries.common.library import Library
from trimtab.libraries.common.settings_text import as_call

PHASIC = ("policy_iterations", "aux_epochs", "aux_minibatch_size", "aux_learning_rate", "beta_clone")


def _proximal_decay(value: Any, to: Translated) -> None:
    """The decay β of the EWMA, COM = β / (1 - β); without one there is no EWMA."""
    if value is not None:
        to.fields["prox_com"] = float(value) / (1 - float(value))


def _advantage_decay(value: Any, to: Translated) -> None:
    """The decay of the advantages' moments; span = (1 + β) / (1 - β)."""
    to.fields["norm_adv"] = "ewma" if value else "batch"
    if value:
        to.fields["norm_adv_span"] = (1 + float(value)) / (1 - float(value))


def _penalty(value: Any, to: Translated) -> None:
    """A penalty beside the clip, on half the squared log-ratio."""
    if value:
        raise NoCounterpart(
            "its penalty is ½ (log ratio)² of the samples, beside the clip; surrogate kl here is the analytic KL alone"
        )


def _auxiliary_minibatch(values: Values, to: Translated) -> None:
    """Counted in rows of nstep."""
    rows, steps = values.pop("aux_mbsize", None), values.get("nstep")
    if rows is not None and steps is not None:
        to.fields["aux_minibatch_size"] = int(rows) * int(steps)
        to.notes.append("aux_minibatch_size: whole rows there, samples of any rows here")


def _phases_of(values: Values, config: Config) -> None:
    """Without an auxiliary phase its epochs are 0; its minibatches count rows."""
    values["n_aux_epochs"] = config.aux_epochs if config.is_ppg else 0
    values["n_epoch_vf"] = config.epochs_of_value
    if config.is_ppg:
        values["aux_mbsize"] = max(1, config.aux_minibatch // config.num_steps)


def _algorithm(to: Translated) -> None:
    """An EWMA is recognized by its decay, phases by their epochs."""
    if not to.fields.keys() & {"prox_com", "aux_epochs"}:
        return
    ewma, phasic = "prox_com" in to.fields, to.fields.get("aux_epochs", 1) > 0
    kinds = {(t.ewma, t.phasic): name for name, t in ALGORITHMS.items() if t.surrogate}
    to.fields["algo"] = kinds[ewma, phasic]
    for name in () if phasic else PHASIC:
        to.fields.pop(name, None)
    if to.fields.get("value_epochs") == to.fields.get("update_epochs"):
        to.fields.pop("value_epochs", None)


OPTIONS = {
    **same("arch", "imp_samp_max", "beta_clone", "staleness", "seed"),
    "num_envs": Option("num_envs", default=64),
    "nstep": Option("num_steps", default=256),
    "interacts_total": Option("total_timesteps", default=100_000_000),
    "n_epoch_pi": Option("update_epochs", default=1),
    "n_epoch_vf": Option("value_epochs", default=1),
    "gamma": Option("gamma", default=0.999),
    "lambda_": Option("gae_lambda", default=0.95),
    "lr": Option("learning_rate", default=5e-4),
    "beta1": Option("adam_beta1"),
    "beta2": Option("adam_beta2"),
    "nminibatch": Option("num_minibatches", default=8),
    "clip_param": Option("clip_coef", default=0.2),
    "kl_penalty": Option(read=_penalty),
    "kl_ewma_decay": Option(read=_proximal_decay, write=lambda c: c.proximal_decay if c.is_ewma else None),
    "adv_ewma_decay": Option(
        read=_advantage_decay, write=lambda c: 1 - 2 / (c.norm_adv_span + 1) if c.norm_adv == "ewma" else 0.0
    ),
    "n_pi": Option("policy_iterations", default=32),
    "n_aux_epochs": Option("aux_epochs", default=6),
    "aux_lr": Option("aux_learning_rate", default=5e-4),
    "aux_mbsize": GROUPED.otherwise(4),
    "aux_beta1": Option(absent="both phases have the same β"),
    "aux_beta2": Option(absent="both phases have the same β"),
    "vf_true_weight": Option(absent="the value network's own loss has weight 1 in the auxiliary phase"),
    "staleness_loss": Option(
        "staleness_loss", values={"decoupled": "decoupled", "behavior": "behavior", "proximal": "recent"}
    ),
    "env_name": Option(absent="give --env-id procgen/GAME-hard"),
    "distribution_mode": Option(absent="it is part of the environment's id here"),
}

LIBRARY = Library(
    name="ppo-ewma",
    title="ppo-ewma",
    options=OPTIONS,
    fixed={
        "minibatch_by": "rows",
        "max_grad_norm": None,
        "adam_eps": 1e-8,
        "norm_reward": True,
        "network": "impala",
        "hidden_sizes": [256],
    },
    always=(
        "num_envs: counts each worker; multiply by the number of workers",
        "rewards: ppo-ewma updates the normalizer before it scales a batch; trimtab updates it after, so the first "
        "batch is not scaled",
        "time limits: ppo-ewma treats them as the end of an episode; trimtab bootstraps the value beyond them",
        "staleness: ppo-ewma bootstraps the last value when a batch is used, trimtab when it is collected",
        "value_epochs: if they differ from update_epochs, ppo-ewma runs the extra epochs first, with an Adam of their "
        "own; trimtab runs the joint epochs first",
    ),
    prepare=_auxiliary_minibatch,
    complete=_phases_of,
    forms={"python": as_call("train_fn")},
    per_rank=frozenset({"num_envs"}),
    finish=_algorithm,
)
