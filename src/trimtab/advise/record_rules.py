"""What a run's records show while it learns: clipping, advantages, critic, entropy, gradients, returns.

Numbers recorded in every iteration are judged by their median over the middle half of training, where neither the first
steps nor an annealed step size speak, and shown with their quartiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from trimtab.advise import ladders
from trimtab.advise.evidence import Evidence
from trimtab.advise.finding import Finding, feasible
from trimtab.advise.training_course import check_course
from trimtab.config import Config
from trimtab.math import stats
from trimtab.training.run import QUARTER, return_rise

FEWEST = 8  # iterations from which medians mean anything
CLIP_LITTLE = 0.003  # "much below 1%"
CLIP_MUCH = {"one": 0.10, "several": 0.20}  # by epochs
ADVANTAGE_SWING = 10.0
SPIKE = 10.0  # times the median gradient norm
DROWNED = 20.0  # times the limit that the gradient norm is clipped to
AT_BOUND = 0.25  # of the iterations, so that a step size counts as pinned
COLLAPSED = 0.05  # of the entropy of choosing evenly
EPISODES = 8  # a tenth of a run must have


def check_signs(records: Evidence) -> Iterator[Finding]:
    """Every rule about what was recorded, in the order to work in: stability, variance, exploration."""
    return feasible(_rules(records), records.config)


def _rules(records: Evidence) -> Iterator[Finding]:
    yield _finite(records)
    yield _learning(records)
    yield _lasting(records)
    yield from check_course(records)
    yield _gradient(records)
    if (limit := records.config.surrogate_kind) is not None and limit.clips:
        yield _clipping(records)
    if records.config.anneal_lr == "adaptive":
        yield _step_size(records)
    if records.config.norm_adv in ("batch", "minibatch"):
        yield _advantages(records)
    if records.config.needs_value:
        yield _critic(records)
    if records.config.is_ewma or records.config.staleness:
        yield _importance(records)
    if records.action is not None and records.action.kind == "discrete" and records.action.size > 1:
        yield _entropy(records)
    if records.config.num_envs > 1 and not records.config.whole_episodes:
        yield _lockstep(records)


def quartiles(values: np.ndarray) -> tuple[float, float, float]:
    """The median, the lower quartile and the upper one."""
    lo, median, hi = np.quantile(values, [0.25, 0.5, 0.75])
    return float(median), float(lo), float(hi)


def _too_few(check: str, what: str, needed: int = FEWEST) -> Finding:
    return Finding(check, "unknown", f"too few iterations recorded {what}; {needed} are needed")


# Stability -------------------------------------------------------------------------------------------------


def _finite(records: Evidence) -> Finding:
    if not records.not_finite:
        return Finding("finite", "fine", f"{records.iterations:,} iterations, every number finite", source="notes")
    gone = ", ".join(records.not_finite)
    where = f"it stopped in iteration {records.iterations:,} of {records.config.iterations:,}: {gone} not finite"
    advice = "lower the step size, clip gradients, take a larger batch, look at the scale of observations and rewards"
    return Finding("finite", "act", where, advice, _lower(records.config), "notes")


def _lower(config: Config) -> dict[str, float]:
    """Smaller steps: of an adaptive step size only where it begins is chosen, so the KL that it steers to."""
    if config.anneal_lr == "adaptive":
        return {"desired_kl": config.desired_kl / 2}
    return {"learning_rate": ladders.below(config.learning_rate, ladders.LEARNING_RATES)}


def _higher(config: Config) -> dict[str, float]:
    if config.anneal_lr == "adaptive":
        return {"desired_kl": config.desired_kl * 2}
    return {"learning_rate": ladders.above(config.learning_rate, ladders.LEARNING_RATES)}


def _learning(records: Evidence) -> Finding:
    """Whether returns rose from the first quarter of the episodes to the last."""
    returns, gain = records.returns, return_rise(records.returns)
    if gain is None:
        return Finding("learning", "unknown", f"only {len(returns)} episodes finished; {4 * QUARTER} are needed")
    last = returns[-(len(returns) // 4) :].mean()
    statement = f"the return changed by {gain.value:+.4g} ({gain.lo:+.3g} to {gain.hi:+.3g}) to {last:.4g}"
    numbers = dict(value=gain.value, lo=gain.lo, hi=gain.hi, source="notes", series=tuple(map(float, returns)))
    if gain.lo > 0:
        return Finding("learning", "fine", statement, **numbers)
    advice, change = (
        ("it unlearns: lower the step size, or anneal it", _lower(records.config)) if gain.hi < 0 else _stuck(records)
    )
    return Finding("learning", "act", statement, advice, change, **numbers)


def _stuck(records: Evidence) -> tuple[str, dict[str, Any]]:
    """Why nothing is learned, as far as the records show it, and what to change."""
    if _clips_much(records):
        return "stuck, and most updates run into the clip: lower the step size first", _lower(records.config)
    if _drowned(records):
        norm = float(np.median(records.middle("train/grad_norm")))
        return "stuck, and the clip leaves next to nothing of the policy's gradient: see gradient", _louder(
            records, norm
        )
    if records.config.learning_rate >= max(ladders.LEARNING_RATES):
        return "stuck, with steps as large as any that are tried: lower the step size", _lower(records.config)
    also = "a notch more step size, 2 epochs, more entropy for a while, or a higher γ"
    return f"stuck, unless this is the best there is: {also}", _higher(records.config)


def _lasting(records: Evidence) -> Finding:
    """Whether the last tenth of the episodes is as good as the best tenth."""
    returns = records.returns
    if len(returns) < 10 * EPISODES:
        return Finding("lasting", "unknown", f"only {len(returns)} episodes finished; {10 * EPISODES} are needed")
    tenths, ends = np.array_split(returns, 10), np.array_split(records.steps, 10)
    means = [tenth.mean() for tenth in tenths]
    best = int(np.argmax(means))
    fall = stats.difference(tenths[best], tenths[-1])
    numbers = dict(value=fall.value, lo=fall.lo, hi=fall.hi, source="notes")
    statement = (
        f"last tenth of the episodes {means[-1]:.4g}, best tenth {means[best]:.4g} (to step {int(ends[best][-1]):,})"
    )
    spread = max(means) - min(means)
    if best == len(means) - 1 or fall.hi >= 0 or -fall.value < 0.2 * spread:
        return Finding("lasting", "fine", statement, **numbers)
    advice = "it was better before: lower the step size or anneal it; the better checkpoint is still there"
    change = {"anneal_lr": "linear"} if records.config.anneal_lr == "constant" else _lower(records.config)
    return Finding("lasting", "watch", statement, advice, change, **numbers)


def _most_clipping(config: Config) -> float:
    return CLIP_MUCH["several" if config.update_epochs > 1 else "one"]


def _clips_much(records: Evidence) -> bool:
    values = records.middle("train/clip_fraction")
    return len(values) > 0 and float(np.median(values)) > _most_clipping(records.config)


def _clipping(records: Evidence) -> Finding:
    values = records.middle("train/clip_fraction")
    if len(values) < FEWEST // 2:
        return _too_few("clipping", "the clip fraction")
    median, lo, hi = quartiles(values)
    most = _most_clipping(records.config)
    statement = f"clip fraction {median:.1%} ({lo:.1%} to {hi:.1%})"
    numbers = dict(value=median, lo=lo, hi=hi, source="paper", series=records.series("train/clip_fraction"))
    if _clips_much(records):
        epochs = "several epochs" if records.config.update_epochs > 1 else "one epoch"
        advice = f"above {most:.0%} with {epochs}: the step size is too high"
        return Finding("clipping", "act", statement, advice, _lower(records.config), **numbers)
    if median < CLIP_LITTLE and _drowned(records):
        return Finding("clipping", "watch", statement, "the policy hardly moves: see gradient", **numbers)
    if median < CLIP_LITTLE:
        advice = (
            "much below 1%: the proximal policy holds nothing back; take larger steps, or larger batches, which then "
            "cost little, or PPO-EWMA with a high decay"
        )
        return Finding("clipping", "watch", statement, advice, _higher(records.config), **numbers)
    return Finding("clipping", "fine", statement, **numbers)


def _step_size(records: Evidence) -> Finding:
    """Whether a step size that follows the KL stands at one of its bounds, where it no longer does."""
    values = records.middle("train/learning_rate")
    if len(values) < FEWEST // 2:
        return _too_few("step size", "the step size")
    median, lo, hi = quartiles(values)
    lowest, highest = records.rates
    low, high = float(np.mean(values <= 1.01 * lowest)), float(np.mean(values >= 0.99 * highest))
    statement = f"the KL moved the step size to {median:.3g} ({lo:.3g} to {hi:.3g})"
    numbers = dict(value=median, lo=lo, hi=hi, source="own", series=records.series("train/learning_rate"))
    if max(low, high) < AT_BOUND:
        return Finding("step size", "fine", statement, **numbers)
    if low >= high:
        statement += f"; at its lower bound {lowest:g} in {low:.0%} of iterations"
        advice = "even the smallest steps move the policy too far: fewer epochs, larger minibatches, a wider policy"
        return Finding("step size", "act", statement, advice, {"update_epochs": 1}, **numbers)
    statement += f"; at its upper bound {highest:g} in {high:.0%} of iterations"
    advice = "the policy hardly moves: the KL that is wanted is out of reach, so updates may be larger in other ways"
    return Finding(
        "step size", "watch", statement, advice, {"update_epochs": 2 * records.config.update_epochs}, **numbers
    )


def _drowned(records: Evidence) -> bool:
    """Whether clipping the norm of all gradients together leaves next to nothing of the policy's."""
    values, limit = records.middle("train/grad_norm"), records.config.max_grad_norm
    return bool(records.config.needs_value and limit and len(values) and np.median(values) > DROWNED * limit)


def _louder(records: Evidence, norm: float) -> dict[str, Any]:
    """What gives the policy its share of the clipped gradient back."""
    return {"max_grad_norm": float(f"{norm:.1g}")} if records.config.norm_reward else {"norm_reward": True}


def _gradient(records: Evidence) -> Finding:
    values = records.middle("train/grad_norm")
    if len(values) < FEWEST // 2:
        return _too_few("gradient", "a gradient norm")
    median, lo, hi = quartiles(values)
    limit = records.config.max_grad_norm
    largest = float(values.max())
    statement = f"norm {median:.3g} ({lo:.3g} to {hi:.3g}), largest {largest:.3g}"
    statement += "" if limit is None else f"; clipped to {limit:g} in {np.mean(values > limit):.0%} of iterations"
    numbers = dict(value=median, lo=lo, hi=hi, source="notes", series=records.series("train/grad_norm"))
    if _drowned(records):
        advice = (
            "the critic's errors fill the norm, so the clip shrinks the policy's gradient to a sliver: normalize "
            "rewards, or clip less"
        )
        return Finding("gradient", "watch", statement, advice, _louder(records, median), **numbers | {"source": "own"})
    if largest <= SPIKE * max(median, 1e-12) or (limit is not None and limit <= median):
        return Finding("gradient", "fine", statement, **numbers)
    norm = ladders.CLIP_NORMS[0] if limit is None else ladders.below(limit, ladders.CLIP_NORMS)
    advice = "spikes: clip the gradient more, or lower the step size"
    return Finding("gradient", "watch", statement, advice, {"max_grad_norm": norm}, **numbers)


# Variance --------------------------------------------------------------------------------------------------


def swing(values: np.ndarray, width: int = 10) -> float:
    """By what factor a positive series goes up and down around its running mean: from 5% to 95% of the ratios."""
    logs = np.log(np.maximum(values, 1e-30))
    trend = np.array([np.mean(logs[max(0, i - width) : i + width + 1]) for i in range(len(logs))])
    low, high = np.quantile(logs - trend, [0.05, 0.95])
    return float(np.exp(high - low))


def _advantages(records: Evidence) -> Finding:
    values = records.middle("train/adv_std")
    if len(values) < FEWEST:
        return _too_few("advantages", "their standard deviation", 2 * FEWEST)  # of which the middle half is looked at
    factor = swing(values)
    statement = f"their standard deviation goes up and down by a factor of {factor:.3g}"
    numbers = dict(value=factor, source="paper", series=records.series("train/adv_std"))
    if factor < ADVANTAGE_SWING:
        return Finding("advantages", "fine", statement, **numbers)
    advice = "10 or more: one batch is too little to normalize by; normalize over several iterations"
    return Finding("advantages", "watch", statement, advice, {"norm_adv": "ewma", "norm_adv_span": 10.0}, **numbers)


def _critic(records: Evidence) -> Finding:
    values = records.middle("train/explained_variance")
    if len(values) < FEWEST // 2:
        return _too_few("critic", "an explained variance")
    median, lo, hi = quartiles(values)
    statement = f"the critic explains {median:.0%} ({lo:.0%} to {hi:.0%}) of the variance of its targets"
    numbers = dict(value=median, lo=lo, hi=hi, source="own", series=records.series("train/explained_variance"))
    if median > 0.2:
        return Finding("critic", "fine", statement, **numbers)
    slow = "adam_beta2" in records.config.optimizer_kind.fields and records.config.adam_beta2 > 0.99
    change = {"adam_beta2": 0.99} if slow else {}
    if median > 0:
        advice = "little: β₂ = 0.99, more value epochs, or normalized rewards may help it keep up"
        return Finding("critic", "watch", statement, advice, change, **numbers)
    advice = (
        "a constant would do as well: the baseline removes no variance; normalize rewards, raise its share or epochs"
    )
    return Finding(
        "critic",
        "act",
        statement,
        advice,
        {"norm_reward": True} if not records.config.norm_reward else change,
        **numbers,
    )


def _importance(records: Evidence) -> Finding:
    values = records.middle("train/importance_ess")
    if len(values) < FEWEST // 2:
        return _too_few("importance", "importance weights")
    median, lo, hi = quartiles(values)
    statement = f"importance weights leave {median:.1%} ({lo:.1%} to {hi:.1%}) of the samples' worth"
    numbers = dict(value=median, lo=lo, hi=hi, source="own", series=records.series("train/importance_ess"))
    if median >= 0.5:
        return Finding("importance", "fine", statement, **numbers)
    advice = "the behavior policy is far away: less staleness, fewer epochs or a lower step size"
    return Finding("importance", "act", statement, advice, _lower(records.config), **numbers)


# Exploration -----------------------------------------------------------------------------------------------


def _entropy(records: Evidence) -> Finding:
    loss = records.metrics.get("train/entropy_loss", np.zeros(0))
    share = -loss[np.isfinite(loss)] / math.log(records.action.size)
    if len(share) < FEWEST:
        return _too_few("entropy", "the entropy")
    low = np.flatnonzero(share < COLLAPSED)
    statement = f"{share[-1]:.0%} of the entropy of choosing evenly is left"
    numbers = dict(value=float(share[-1]), source="notes", series=tuple(map(float, share)))
    if not len(low) or low[0] >= len(share) / 2:
        return Finding("entropy", "fine", statement, **numbers)
    statement += f"; below {COLLAPSED:.0%} since {low[0] / len(share):.0%} of training"
    base = max(records.config.ent_coef, ladders.ENTROPY["discrete"] / 3)
    advice = "the policy stopped exploring early: raise the entropy bonus, or let it fall later"
    return Finding("entropy", "watch", statement, advice, {"ent_coef": float(f"{3 * base:.2g}")}, **numbers)


def _lockstep(records: Evidence) -> Finding:
    """Share of episodes that end together with those of at least half of the environments."""
    if len(records.steps) < 4 * records.config.num_envs:
        return Finding("lockstep", "unknown", "too few episodes finished to see whether they end together")
    _, counts = np.unique(records.steps, return_counts=True)
    together = counts[counts >= max(2, records.config.num_envs / 2)].sum() / counts.sum()
    statement = f"{together:.0%} of episodes end together with those of at least half of the environments"
    if together < 0.5:
        return Finding("lockstep", "fine", statement, value=float(together))
    advice = "environments in step see the same part of an episode in every batch"
    advice += "" if records.config.stagger_resets else "; spread their first resets"
    return Finding("lockstep", "watch", statement, advice, {"stagger_resets": True}, value=float(together))
