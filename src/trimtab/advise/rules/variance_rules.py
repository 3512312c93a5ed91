"""What training records of variance and exploration: advantages, critic, importance weights, entropy, lockstep."""

from __future__ import annotations

import math

import numpy as np

from trimtab.advise.evidence import Evidence, Numbers
from trimtab.advise.remedies import ENTROPY, Remedy, fewer_epochs, larger_batch, reduce_step
from trimtab.advise.rules import FEWEST, Observation, percent, rule

OSCILLATION = 10.0  # factor of the advantages' standard deviation
USEFUL_CRITIC = 0.2  # of the variance of its targets
FEW_SAMPLES = 0.5  # of the samples, as an effective sample size
COLLAPSED = 0.05  # of the entropy of uniform actions
TOGETHER = 0.5  # of the episodes


def oscillation(values: Numbers, width: int = 10) -> float:
    """By what factor a positive series goes up and down around its trend.

    Args:
        values: the series, in order.
        width: values on either side whose logarithms are averaged into the trend.

    Returns:
        The ratio of the 95% to the 5% quantile of value over trend.
    """
    logs = np.log(np.maximum(values, 1e-30))
    trend = np.array([np.mean(logs[max(0, i - width) : i + width + 1]) for i in range(len(logs))])
    low, high = np.quantile(logs - trend, [0.05, 0.95])
    return float(np.exp(high - low))


@rule(
    "advantages",
    "variance",
    "train/adv_std",
    "paper",
    unknown=f"too few iterations recorded train/adv_std; {2 * FEWEST} are needed",
    applies=lambda evidence: evidence.config.norm_adv in ("batch", "minibatch"),
)
def _advantages(evidence: Evidence) -> Observation | None:
    """After the first fifth of training, their standard deviation oscillates by a factor of 10 or more.

    Try: normalize over several iterations.
    """
    values = evidence.settled("train/adv_std")
    if len(values) < 1.5 * FEWEST:  # of 16, the first fifth is left out
        return None
    width = min(10, max(2, len(values) // 8))  # near either end, a wide trend lags behind a short series
    factor, series = oscillation(values, width), evidence.series("train/adv_std")
    seen = f"their standard deviation varies by a factor of {factor:.3g} around its trend"
    if factor < OSCILLATION:
        return Observation("fine", seen, value=factor, series=series)
    several = Remedy(
        "set", "norm_adv", "ewma", "normalize over several iterations ({name})", also={"norm_adv_span": 10.0}
    )
    meaning = "one batch is too small to normalize advantages by"
    return Observation("watch", seen, meaning, (several, larger_batch(evidence.config)), factor, series=series)


@rule("critic", "variance", "train/explained_variance", applies=lambda evidence: evidence.config.needs_value)
def _critic(evidence: Evidence) -> Observation | None:
    """It explains at most 20% of the variance of its targets, or at most 0%, like a constant.

    Try: β₂ = 0.99, normalized rewards.
    """
    config, level = evidence.config, evidence.level("train/explained_variance")
    if level is None:
        return None
    seen = (
        f"the critic explains {percent(level.value)} ({percent(level.lo)} to {percent(level.hi)}) of the variance of "
    )
    seen += "its targets"
    if level.value > USEFUL_CRITIC:
        return Observation("fine", seen, "", (), *level)
    rewards = Remedy("set", "norm_reward", True, "normalize rewards ({name})")
    slow = "adam_beta2" in config.optimizer_kind.fields and config.adam_beta2 > 0.99
    faster = [Remedy("set", "adam_beta2", 0.99, "average squared gradients over fewer steps ({name})")] if slow else []
    more = [Remedy("raise", "value_epochs"), Remedy("raise", "vf_coef")]
    if level.value > 0:
        return Observation("watch", seen, "it follows its targets slowly", (*faster, rewards, *more), *level)
    meaning = "it is no better than a constant, so the baseline removes no variance"
    return Observation("watch", seen, meaning, (rewards, *faster, *more), *level)


@rule(
    "importance",
    "variance",
    "train/importance_ess",
    applies=lambda evidence: evidence.config.is_ewma or evidence.config.staleness > 0,
)
def _importance(evidence: Evidence) -> Observation | None:
    """Importance weights reduce the effective sample size below half (PPO-EWMA, PPG-EWMA, staleness).

    Try: smaller learning rate.
    """
    config, level = evidence.config, evidence.level("train/importance_ess")
    if level is None:
        return None
    seen = f"importance weights leave an effective sample size of {level.value:.1%} ({level.lo:.1%} to {level.hi:.1%})"
    if level.value >= FEW_SAMPLES:
        return Observation("fine", seen, "", (), *level)
    remedies = (
        reduce_step(config),
        fewer_epochs(config),
        Remedy("lower", "staleness", max(0, config.staleness - 1) if config.staleness else None),
    )
    return Observation("act", seen, "the policy has moved far from the behavior policy", remedies, *level)


@rule("entropy", "exploration", "train/entropy_loss", "notes", applies=lambda evidence: evidence.chooses)
def _entropy(evidence: Evidence) -> Observation | None:
    """Below 5% of that of uniform actions in the first half of training (discrete actions).

    Try: larger entropy bonus.
    """
    assert evidence.action is not None
    shares = -np.array(evidence.series("train/entropy_loss")) / math.log(evidence.action.size)
    if len(shares) < FEWEST:
        return None
    last, series = float(shares[-1]), tuple(map(float, shares))
    seen = f"the entropy is {percent(last)} of that of uniform actions"
    low = np.flatnonzero(shares < COLLAPSED)
    if not len(low) or low[0] >= len(shares) / 2:
        return Observation("fine", seen, value=last, series=series)
    seen += f"; below {COLLAPSED:.0%} since {low[0] / len(shares):.0%} of training"
    base = max(evidence.config.ent_coef, ENTROPY["discrete"] / 3)
    bonus = Remedy("raise", "ent_coef", float(f"{3 * base:.2g}"), "raise the entropy bonus ({name})")
    return Observation("watch", seen, "the policy stopped exploring early", (bonus,), last, series=series)


@rule(
    "lockstep",
    "exploration",
    "episodes",
    unknown="too few episodes finished to see whether they end together",
    applies=lambda evidence: evidence.config.num_envs > 1 and (not evidence.config.whole_episodes),
)
def _lockstep(evidence: Evidence) -> Observation | None:
    """Most episodes end together with those of half of the environments, and last longer than a rollout.

    Try: `stagger_resets`.
    """
    config = evidence.config
    if len(evidence.steps) < 4 * config.num_envs:
        return None
    _, counts = np.unique(evidence.steps, return_counts=True)
    together = float(counts[counts >= max(2, config.num_envs / 2)].sum() / counts.sum())
    seen = f"{together:.0%} of episodes end together with those of at least half of the environments"
    if together < TOGETHER or (evidence.length and evidence.length.steps <= config.num_steps):
        return Observation("fine", seen, value=together)
    meaning = "every batch sees one part of an episode only"
    if evidence.shared_noise:
        share, step = evidence.shared_noise
        meaning += f"; a probe measured that this is {percent(share)} of the gradient's variance at step {step:,}"
    elif not config.stagger_resets:
        meaning += "; `trimtab probe` measures what it costs (between rows)"
    spread = Remedy("set", "stagger_resets", True, "spread the first resets ({name})")
    return Observation("watch", seen, meaning, (spread,), together)
