"""What a run's records show while it learns: clipping, advantages, critic, entropy, gradients, returns.

Numbers recorded in every iteration are judged by their median over the middle half of training, where neither the first
steps nor an annealed step size speak, and shown with their quartiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from trimtab import stats
from trimtab.algorithms import ADAPTIVE_RATES
from trimtab.config import Config
from trimtab.playbook import ladders
from trimtab.playbook.course import check_course
from trimtab.playbook.evidence import Evidence
from trimtab.playbook.finding import Finding, feasible

FEWEST = 8  # iterations from which medians mean anything
CLIP_LITTLE = 0.003  # "much below 1%"
CLIP_MUCH = {"one": 0.10, "several": 0.20}  # by epochs
ADVANTAGE_SWING = 10.0
SPIKE = 10.0  # times the median gradient norm
DROWNED = 20.0  # times the limit that the gradient norm is clipped to
AT_BOUND = 0.25  # of the iterations, so that a step size counts as pinned
COLLAPSED = 0.05  # of the entropy of choosing evenly
EPISODES = 8  # a quarter or tenth of a run must have


def check_signs(seen: Evidence) -> Iterator[Finding]:
    """Every rule about what was recorded, in the order to work in: stability, variance, exploration."""
    return feasible(_rules(seen), seen.config)


def _rules(seen: Evidence) -> Iterator[Finding]:
    yield _finite(seen)
    yield _learning(seen)
    yield _lasting(seen)
    yield from check_course(seen)
    yield _gradient(seen)
    if seen.config.is_clipped:
        yield _clipping(seen)
    if seen.config.anneal_lr == "adaptive":
        yield _step_size(seen)
    if seen.config.norm_adv in ("batch", "minibatch"):
        yield _advantages(seen)
    if seen.config.needs_value:
        yield _critic(seen)
    if seen.config.is_ewma or seen.config.staleness:
        yield _importance(seen)
    if seen.action is not None and seen.action.kind == "discrete" and seen.action.size > 1:
        yield _entropy(seen)
    if seen.config.num_envs > 1 and not seen.config.whole_episodes:
        yield _lockstep(seen)


def quartiles(values: np.ndarray) -> tuple[float, float, float]:
    """The median, the lower quartile and the upper one."""
    lo, median, hi = np.quantile(values, [0.25, 0.5, 0.75])
    return float(median), float(lo), float(hi)


def _too_few(check: str, what: str) -> Finding:
    return Finding(check, "unknown", f"too few iterations recorded {what}; {FEWEST} are needed")


# Stability -------------------------------------------------------------------------------------------------


def _finite(seen: Evidence) -> Finding:
    if not seen.not_finite:
        return Finding("finite", "fine", f"{seen.iterations:,} iterations, every number finite", source="notes")
    gone = ", ".join(seen.not_finite)
    where = f"it stopped in iteration {seen.iterations:,} of {seen.config.iterations:,}: {gone} not finite"
    advice = "lower the step size, clip gradients, take a larger batch, look at the scale of observations and rewards"
    return Finding("finite", "act", where, advice, _lower(seen.config), "notes")


def _lower(config: Config) -> dict[str, float]:
    """Smaller steps: of an adaptive step size only where it begins is chosen, so the KL that it steers to."""
    if config.anneal_lr == "adaptive":
        return {"desired_kl": config.desired_kl / 2}
    return {"learning_rate": ladders.below(config.learning_rate, ladders.LEARNING_RATES)}


def _higher(config: Config) -> dict[str, float]:
    if config.anneal_lr == "adaptive":
        return {"desired_kl": config.desired_kl * 2}
    return {"learning_rate": ladders.above(config.learning_rate, ladders.LEARNING_RATES)}


def _learning(seen: Evidence) -> Finding:
    """Whether returns rose from the first quarter of the episodes to the last."""
    returns, quarter = seen.returns, len(seen.returns) // 4
    if quarter < EPISODES:
        return Finding("learning", "unknown", f"only {len(returns)} episodes finished; {4 * EPISODES} are needed")
    rise = stats.difference(returns[:quarter], returns[-quarter:])
    said = (
        f"the return changed by {rise.value:+.4g} ({rise.lo:+.3g} to {rise.hi:+.3g}) to {returns[-quarter:].mean():.4g}"
    )
    found = dict(value=rise.value, lo=rise.lo, hi=rise.hi, source="notes", series=tuple(map(float, returns)))
    if rise.lo > 0:
        return Finding("learning", "fine", said, **found)
    advice, change = (
        ("it unlearns: lower the step size, or anneal it", _lower(seen.config)) if rise.hi < 0 else _stuck(seen)
    )
    return Finding("learning", "act", said, advice, change, **found)


def _stuck(seen: Evidence) -> tuple[str, dict[str, Any]]:
    """Why nothing is learned, as far as the records show it, and what to change."""
    if _clips_much(seen):
        return "stuck, and most updates run into the clip: lower the step size first", _lower(seen.config)
    if _drowned(seen):
        norm = float(np.median(seen.middle("train/grad_norm")))
        return "stuck, and the clip leaves next to nothing of the policy's gradient: see gradient", _louder(seen, norm)
    if seen.config.learning_rate >= max(ladders.LEARNING_RATES):
        return "stuck, with steps as large as any that are tried: lower the step size", _lower(seen.config)
    also = "a notch more step size, 2 epochs, more entropy for a while, or a higher γ"
    return f"stuck, unless this is the best there is: {also}", _higher(seen.config)


def _lasting(seen: Evidence) -> Finding:
    """Whether the last tenth of the episodes is as good as the best tenth."""
    returns = seen.returns
    if len(returns) < 10 * EPISODES:
        return Finding("lasting", "unknown", f"only {len(returns)} episodes finished; {10 * EPISODES} are needed")
    tenths, ends = np.array_split(returns, 10), np.array_split(seen.steps, 10)
    means = [tenth.mean() for tenth in tenths]
    best = int(np.argmax(means))
    fall = stats.difference(tenths[best], tenths[-1])
    found = dict(value=fall.value, lo=fall.lo, hi=fall.hi, source="notes")
    said = f"last tenth of the episodes {means[-1]:.4g}, best tenth {means[best]:.4g} (to step {int(ends[best][-1]):,})"
    spread = max(means) - min(means)
    if best == len(means) - 1 or fall.hi >= 0 or -fall.value < 0.2 * spread:
        return Finding("lasting", "fine", said, **found)
    advice = "it was better before: lower the step size or anneal it; the better checkpoint is still there"
    change = {"anneal_lr": "linear"} if seen.config.anneal_lr == "constant" else _lower(seen.config)
    return Finding("lasting", "watch", said, advice, change, **found)


def _most_clipping(config: Config) -> float:
    return CLIP_MUCH["several" if config.update_epochs > 1 else "one"]


def _clips_much(seen: Evidence) -> bool:
    values = seen.middle("train/clip_fraction")
    return len(values) > 0 and float(np.median(values)) > _most_clipping(seen.config)


def _clipping(seen: Evidence) -> Finding:
    values = seen.middle("train/clip_fraction")
    if len(values) < FEWEST // 2:
        return _too_few("clipping", "the clip fraction")
    median, lo, hi = quartiles(values)
    most = _most_clipping(seen.config)
    said = f"clip fraction {median:.1%} ({lo:.1%} to {hi:.1%})"
    found = dict(value=median, lo=lo, hi=hi, source="paper", series=seen.series("train/clip_fraction"))
    if _clips_much(seen):
        epochs = "several epochs" if seen.config.update_epochs > 1 else "one epoch"
        advice = f"above {most:.0%} with {epochs}: the step size is too high"
        return Finding("clipping", "act", said, advice, _lower(seen.config), **found)
    if median < CLIP_LITTLE and _drowned(seen):
        return Finding("clipping", "watch", said, "the policy hardly moves: see gradient", **found)
    if median < CLIP_LITTLE:
        advice = (
            "much below 1%: the proximal policy holds nothing back; take larger steps, or larger batches, which then "
            "cost little, or PPO-EWMA with a high decay"
        )
        return Finding("clipping", "watch", said, advice, _higher(seen.config), **found)
    return Finding("clipping", "fine", said, **found)


def _step_size(seen: Evidence) -> Finding:
    """Whether a step size that follows the KL stands at one of its bounds, where it no longer does."""
    values = seen.middle("train/learning_rate")
    if len(values) < FEWEST // 2:
        return _too_few("step size", "the step size")
    median, lo, hi = quartiles(values)
    lowest, highest = ADAPTIVE_RATES
    low, high = float(np.mean(values <= 1.01 * lowest)), float(np.mean(values >= 0.99 * highest))
    said = f"the KL moved the step size to {median:.3g} ({lo:.3g} to {hi:.3g})"
    found = dict(value=median, lo=lo, hi=hi, source="own", series=seen.series("train/learning_rate"))
    if max(low, high) < AT_BOUND:
        return Finding("step size", "fine", said, **found)
    if low >= high:
        said += f"; at its lower bound {lowest:g} in {low:.0%} of iterations"
        advice = "even the smallest steps move the policy too far: fewer epochs, larger minibatches, a wider policy"
        return Finding("step size", "act", said, advice, {"update_epochs": 1}, **found)
    said += f"; at its upper bound {highest:g} in {high:.0%} of iterations"
    advice = "the policy hardly moves: the KL that is wanted is out of reach, so updates may be larger in other ways"
    return Finding("step size", "watch", said, advice, {"update_epochs": 2 * seen.config.update_epochs}, **found)


def _drowned(seen: Evidence) -> bool:
    """Whether clipping the norm of all gradients together leaves next to nothing of the policy's."""
    values, limit = seen.middle("train/grad_norm"), seen.config.max_grad_norm
    return bool(seen.config.needs_value and limit and len(values) and np.median(values) > DROWNED * limit)


def _louder(seen: Evidence, norm: float) -> dict[str, Any]:
    """What gives the policy its share of the clipped gradient back."""
    return {"max_grad_norm": float(f"{norm:.1g}")} if seen.config.norm_reward else {"norm_reward": True}


def _gradient(seen: Evidence) -> Finding:
    values = seen.middle("train/grad_norm")
    if len(values) < FEWEST // 2:
        return _too_few("gradient", "a gradient norm")
    median, lo, hi = quartiles(values)
    limit = seen.config.max_grad_norm
    largest = float(values.max())
    said = f"norm {median:.3g} ({lo:.3g} to {hi:.3g}), largest {largest:.3g}"
    said += "" if limit is None else f"; clipped to {limit:g} in {np.mean(values > limit):.0%} of iterations"
    found = dict(value=median, lo=lo, hi=hi, source="notes", series=seen.series("train/grad_norm"))
    if _drowned(seen):
        advice = (
            "the critic's errors fill the norm, so the clip shrinks the policy's gradient to a sliver: normalize "
            "rewards, or clip less"
        )
        return Finding("gradient", "watch", said, advice, _louder(seen, median), **found | {"source": "own"})
    if largest <= SPIKE * max(median, 1e-12) or (limit is not None and limit <= median):
        return Finding("gradient", "fine", said, **found)
    norm = ladders.CLIP_NORMS[0] if limit is None else ladders.below(limit, ladders.CLIP_NORMS)
    advice = "spikes: clip the gradient more, or lower the step size"
    return Finding("gradient", "watch", said, advice, {"max_grad_norm": norm}, **found)


# Variance --------------------------------------------------------------------------------------------------


def swing(values: np.ndarray, width: int = 10) -> float:
    """By what factor a positive series goes up and down around its running mean: from 5% to 95% of the ratios."""
    logs = np.log(np.maximum(values, 1e-30))
    trend = np.array([np.mean(logs[max(0, i - width) : i + width + 1]) for i in range(len(logs))])
    low, high = np.quantile(logs - trend, [0.05, 0.95])
    return float(np.exp(high - low))


def _advantages(seen: Evidence) -> Finding:
    values = seen.middle("train/adv_std")
    if len(values) < FEWEST:
        return _too_few("advantages", "their standard deviation")
    factor = swing(values)
    said = f"their standard deviation goes up and down by a factor of {factor:.3g}"
    found = dict(value=factor, source="paper", series=seen.series("train/adv_std"))
    if factor < ADVANTAGE_SWING:
        return Finding("advantages", "fine", said, **found)
    advice = "10 or more: one batch is too little to normalize by; normalize over several iterations"
    return Finding("advantages", "watch", said, advice, {"norm_adv": "ewma", "norm_adv_span": 10.0}, **found)


def _critic(seen: Evidence) -> Finding:
    values = seen.middle("train/explained_variance")
    if len(values) < FEWEST // 2:
        return _too_few("critic", "an explained variance")
    median, lo, hi = quartiles(values)
    said = f"the critic explains {median:.0%} ({lo:.0%} to {hi:.0%}) of the variance of its targets"
    found = dict(value=median, lo=lo, hi=hi, source="own", series=seen.series("train/explained_variance"))
    if median > 0.2:
        return Finding("critic", "fine", said, **found)
    change = {"adam_beta2": 0.99} if seen.config.optimizer == "adam" and seen.config.adam_beta2 > 0.99 else {}
    if median > 0:
        advice = "little: β₂ = 0.99, more value epochs, or normalized rewards may help it keep up"
        return Finding("critic", "watch", said, advice, change, **found)
    advice = (
        "a constant would do as well: the baseline removes no variance; normalize rewards, raise its share or epochs"
    )
    return Finding(
        "critic", "act", said, advice, {"norm_reward": True} if not seen.config.norm_reward else change, **found
    )


def _importance(seen: Evidence) -> Finding:
    values = seen.middle("train/importance_ess")
    if len(values) < FEWEST // 2:
        return _too_few("importance", "importance weights")
    median, lo, hi = quartiles(values)
    said = f"importance weights leave {median:.1%} ({lo:.1%} to {hi:.1%}) of the samples' worth"
    found = dict(value=median, lo=lo, hi=hi, source="own", series=seen.series("train/importance_ess"))
    if median >= 0.5:
        return Finding("importance", "fine", said, **found)
    advice = "the behavior policy is far away: less staleness, fewer epochs or a lower step size"
    return Finding("importance", "act", said, advice, _lower(seen.config), **found)


# Exploration -----------------------------------------------------------------------------------------------


def _entropy(seen: Evidence) -> Finding:
    loss = seen.metrics.get("train/entropy_loss", np.zeros(0))
    share = -loss[np.isfinite(loss)] / math.log(seen.action.size)
    if len(share) < FEWEST:
        return _too_few("entropy", "the entropy")
    low = np.flatnonzero(share < COLLAPSED)
    said = f"{share[-1]:.0%} of the entropy of choosing evenly is left"
    found = dict(value=float(share[-1]), source="notes", series=tuple(map(float, share)))
    if not len(low) or low[0] >= len(share) / 2:
        return Finding("entropy", "fine", said, **found)
    said += f"; below {COLLAPSED:.0%} since {low[0] / len(share):.0%} of training"
    base = max(seen.config.ent_coef, ladders.ENTROPY["discrete"] / 3)
    advice = "the policy stopped exploring early: raise the entropy bonus, or let it fall later"
    return Finding("entropy", "watch", said, advice, {"ent_coef": float(f"{3 * base:.2g}")}, **found)


def _lockstep(seen: Evidence) -> Finding:
    """Share of episodes that end together with those of at least half of the environments."""
    if len(seen.steps) < 4 * seen.config.num_envs:
        return Finding("lockstep", "unknown", "too few episodes finished to see whether they end together")
    _, counts = np.unique(seen.steps, return_counts=True)
    together = counts[counts >= max(2, seen.config.num_envs / 2)].sum() / counts.sum()
    said = f"{together:.0%} of episodes end together with those of at least half of the environments"
    if together < 0.5:
        return Finding("lockstep", "fine", said, value=float(together))
    advice = "environments in step see the same part of an episode in every batch"
    advice += "" if seen.config.stagger_resets else "; spread their first resets"
    return Finding("lockstep", "watch", said, advice, {"stagger_resets": True}, value=float(together))
