"""The triage cheat sheet: a symptom, where to look, what to try, in the order to try it. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symptom:
    """`checks` are the doctor's rules that look for it; `source` is as in `Finding`."""

    name: str
    look: tuple[str, ...]
    tries: tuple[str, ...]
    checks: tuple[str, ...] = ()
    source: str = "notes"


CHEATSHEET: tuple[Symptom, ...] = (
    Symptom(
        "Numbers blow up",
        ("which tensor is not finite", "train/grad_norm just before", "the scale of observations and rewards"),
        (
            "a lower learning_rate",
            "max_grad_norm: set it, or lower it",
            "a larger batch",
            "norm_obs and norm_reward",
        ),
        ("finite", "gradient"),
    ),
    Symptom(
        "Returns swing from update to update",
        ("the learning curve", "train/adv_std", "the noise scale (trimtab probe)"),
        ("a larger batch", "norm_adv, norm_reward", "a stronger critic: vf_coef, more value epochs"),
        ("swings", "advantages", "noise scale"),
    ),
    Symptom(
        "Nothing is learned",
        ("train/clip_fraction", "train/grad_norm against max_grad_norm", "train/entropy_loss"),
        (
            "the next learning_rate up",
            "update_epochs 2",
            "a higher ent_coef for a while",
            "a higher gamma",
            "half the batch, if updates are few",
        ),
        ("learning", "clipping", "gradient"),
    ),
    Symptom(
        "A batch is learned by heart",
        ("train/value_loss falls", "eval/mean_reward stays (train with --eval-every)"),
        ("update_epochs 1", "a larger batch", "a higher ent_coef", "weight decay 1e-4, on short horizons"),
        ("overfitting", "evaluation"),
    ),
    Symptom(
        "Single spikes of the gradient",
        ("train/grad_norm, its largest against its median",),
        ("a lower max_grad_norm", "a lower learning_rate", "a warmup, if they come at the start"),
        ("gradient",),
    ),
    Symptom(
        "The policy stops exploring early",
        ("train/entropy_loss",),
        ("a higher ent_coef", "anneal it later"),
        ("entropy",),
    ),
    Symptom(
        "It was better before",
        ("the best tenth of the episodes against the last", "the checkpoints in between"),
        ("anneal_lr linear", "a lower learning_rate", "the better checkpoint"),
        ("lasting",),
    ),
    Symptom(
        "The critic lags behind",
        ("train/explained_variance", "train/value_loss"),
        ("adam_beta2 0.99", "norm_reward", "a larger vf_coef, or more value epochs"),
        ("critic",),
    ),
    Symptom(
        "Short-sighted, or credit is fuzzy",
        ("1/(1-gamma) against the length of an episode",),
        ("short-sighted: a higher gamma", "fuzzy or slow: a lower gamma"),
        ("discount",),
    ),
    Symptom(
        "Clipping holds nothing back, or nearly everything",
        ("train/clip_fraction: much below 1%; above 10% with one epoch, 20% with several",),
        ("much below: larger batches, or PPO-EWMA with a high decay", "above: a lower learning_rate"),
        ("clipping",),
        "paper",
    ),
    Symptom(
        "Advantages change size from batch to batch",
        ("train/adv_std: up and down by a factor of ten or more",),
        ("norm_adv ewma: normalize over several iterations",),
        ("advantages",),
        "paper",
    ),
    Symptom(
        "The machine waits",
        ("time/fps as num_envs grows", "how busy the processor is"),
        ("more num_envs, until the processor is 80 to 90% busy, before anything else",),
    ),
)
