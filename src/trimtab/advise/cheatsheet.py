"""The triage cheat sheet: a symptom, where to look, what to try, in the order to try it. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.finding import Source


@dataclass(frozen=True)
class Symptom:
    """One row of the cheat sheet."""

    name: str
    look: tuple[str, ...]
    tries: tuple[str, ...]
    checks: tuple[str, ...] = ()
    """The doctor's rules that look for it."""
    source: Source = "notes"


def _row(name: str, look: str, tries: str, checks: str = "", source: Source = "notes") -> Symptom:
    """A symptom whose entries have bars between them."""
    entries = [tuple(filter(None, text.split(" | "))) for text in (look, tries, checks)]
    return Symptom(name, entries[0], entries[1], entries[2], source)


_STD = "train/adv_std"
CHEATSHEET: tuple[Symptom, ...] = (
    _row(
        "Numbers blow up",
        "which tensor is not finite | train/grad_norm just before | the scale of observations and rewards",
        "a lower learning_rate | max_grad_norm: set it, or lower it | a larger batch | norm_obs and norm_reward",
        "finite | gradient",
    ),
    _row(
        "Returns swing from update to update",
        f"the learning curve | {_STD} | the noise scale (trimtab probe)",
        "a larger batch | norm_adv, norm_reward | a stronger critic: vf_coef, more value epochs",
        "swings | advantages | noise scale",
    ),
    _row(
        "Nothing is learned",
        "train/clip_fraction | train/grad_norm against max_grad_norm | train/entropy_loss",
        "the next learning_rate up | update_epochs 2 | a higher ent_coef for a while | a higher gamma"
        " | half the batch, if updates are few",
        "learning | clipping | gradient",
    ),
    _row(
        "The networks overfit single batches",
        "train/value_loss falls | eval/mean_reward stays level",
        "update_epochs 1 | a larger batch | a higher ent_coef | weight decay 1e-4, on short horizons",
        "overfitting | evaluation",
    ),
    _row(
        "Single spikes of the gradient",
        "train/grad_norm: its maximum compared with its median",
        "a lower max_grad_norm | a lower learning_rate | a warmup, if the spikes come at the start",
        "gradient",
    ),
    _row("The policy stops exploring early", "train/entropy_loss", "a higher ent_coef | anneal it later", "entropy"),
    _row(
        "The policy was better before",
        "the best tenth of the episodes against the last | the checkpoints in between",
        "anneal_lr linear | a lower learning_rate | the better checkpoint",
        "lasting",
    ),
    _row(
        "The critic lags behind",
        "train/explained_variance | train/value_loss",
        "adam_beta2 0.99 | norm_reward | a larger vf_coef, or more value epochs",
        "critic",
    ),
    _row(
        "The policy ignores late rewards, or learns slowly from noisy returns",
        "1/(1-gamma) compared with the length of an episode",
        "it ignores late rewards: a higher gamma | noisy or slow: a lower gamma",
        "discount",
    ),
    _row(
        "The clip fraction is very low or very high",
        "train/clip_fraction: much below 1%; above 10% with one epoch, 20% with several",
        "much below: larger batches, or PPO-EWMA with a high decay | above: a lower learning_rate",
        "clipping",
        "paper",
    ),
    _row(
        "Advantages change size from batch to batch",
        f"{_STD}: whether it varies by a factor of ten or more",
        "norm_adv ewma: normalize over several iterations",
        "advantages",
        "paper",
    ),
    _row(
        "The processor is not busy",
        "time/fps as num_envs grows | how busy the processor is",
        "more num_envs, until the processor is 80 to 90% busy, before anything else",
    ),
)
