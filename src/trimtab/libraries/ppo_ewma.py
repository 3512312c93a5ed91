"""openai/ppo-ewma, the code of Hilton et al. 2021 (arXiv 2110.00641). Minibatches hold whole rows."""

from __future__ import annotations

from typing import Any

from trimtab.config.algorithms import ALGORITHMS
from trimtab.libraries.translation_rules import Library, NoCounterpart, Translated, nothing, same, whole

PHASIC = ("policy_iterations", "aux_epochs", "aux_minibatch_size", "aux_learning_rate", "beta_clone")


def _proximal_decay(value: Any, to: Translated) -> None:
    """The EWMA's decay β, COM = β / (1 - β); none is no EWMA."""
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
        raise NoCounterpart("the penalty beside the clip, on ½ log² of the ratio, is not implemented; see surrogate kl")


def _auxiliary_minibatch(values: dict[str, Any], to: Translated) -> None:
    """Counted in rows of nstep."""
    rows, steps = values.pop("aux_mbsize", None), values.get("nstep")
    if rows is not None and steps is not None:
        to.fields["aux_minibatch_size"] = int(rows) * int(steps)
        to.notes.append("aux_minibatch_size: whole rows there, samples of any rows here")


def _algorithm(to: Translated) -> None:
    """An EWMA is told by its decay, phases by their epochs."""
    if not to.fields.keys() & {"prox_com", "aux_epochs"}:
        return
    ewma, phasic = "prox_com" in to.fields, to.fields.get("aux_epochs", 1) > 0
    kinds = {(t.ewma, t.phasic): name for name, t in ALGORITHMS.items() if t.surrogate}
    to.fields["algo"] = kinds[ewma, phasic]
    for name in () if phasic else PHASIC:
        to.fields.pop(name, None)
    if to.fields.get("value_epochs") == to.fields.get("update_epochs"):
        to.fields.pop("value_epochs", None)


LIBRARY = Library(
    rules={
        **{
            name: same(name)
            for name in ("arch", "num_envs", "gamma", "imp_samp_max", "beta_clone", "staleness", "seed")
        },
        "nstep": same("num_steps"),
        "interacts_total": whole("total_timesteps"),
        "n_epoch_pi": same("update_epochs"),
        "n_epoch_vf": same("value_epochs"),
        "lambda_": same("gae_lambda"),
        "lr": same("learning_rate"),
        "beta1": same("adam_beta1"),
        "beta2": same("adam_beta2"),
        "nminibatch": same("num_minibatches"),
        "clip_param": same("clip_coef"),
        "kl_penalty": _penalty,
        "kl_ewma_decay": _proximal_decay,
        "adv_ewma_decay": _advantage_decay,
        "n_pi": same("policy_iterations"),
        "n_aux_epochs": same("aux_epochs"),
        "aux_lr": same("aux_learning_rate"),
        "aux_beta1": nothing("both phases have the same β"),
        "aux_beta2": nothing("both phases have the same β"),
        "vf_true_weight": nothing("the value network's own loss has weight 1 in the auxiliary phase"),
        "staleness_loss": lambda value, to: same("staleness_loss")({"proximal": "recent"}.get(value, value), to),
        "env_name": nothing("give --env-id procgen/GAME-hard"),
        "distribution_mode": nothing("it is part of the environment's id here"),
    },
    silent={
        "num_envs": 64,
        "nstep": 256,
        "n_epoch_pi": 1,
        "n_epoch_vf": 1,
        "gamma": 0.999,
        "lambda_": 0.95,
        "lr": 5e-4,
        "nminibatch": 8,
        "clip_param": 0.2,
        "n_pi": 32,
        "n_aux_epochs": 6,
        "aux_lr": 5e-4,
        "aux_mbsize": 4,
        "interacts_total": 100_000_000,
    },
    fixed={
        "minibatch_by": "rows",
        "max_grad_norm": None,
        "adam_eps": 1e-8,
        "norm_reward": True,
        "network": "impala",
        "hidden_sizes": [256],
    },
    always=("num_envs: of each worker there; multiply by the workers",),
    sizes=("aux_mbsize",),
    prepare=_auxiliary_minibatch,
    finish=_algorithm,
)
