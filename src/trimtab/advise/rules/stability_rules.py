"""Whether training is stable: finite numbers, returns that rise and last, gradients and updates of a useful size.

Metrics recorded in every iteration are judged by their median over the middle half of training, away from the start and
from an annealed learning rate, and shown with their quartiles. Gains of the return are shown ± three standard errors.
"""

from __future__ import annotations

import math
from shlex import quote

import numpy as np

from trimtab.advise.evidence import Evidence, Level, Numbers
from trimtab.advise.remedies import (
    CLIP_NORMS,
    LEARNING_RATES,
    Remedy,
    below,
    fewer_epochs,
    increase_step,
    larger_batch,
    reduce_step,
)
from trimtab.advise.return_course import FEWEST_MEANS, WINDOW
from trimtab.advise.rules import Observation, percent, rule
from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.math import stats
from trimtab.training.run import QUARTER

SMALLEST_GAIN = 0.5  # of the standard deviation of single returns: below this, returns do not rise
TENTH = 8  # episodes that a tenth of a run must have
LASTING_FALL = 0.2  # of the range of returns over training
CLIP_LITTLE = 0.003  # "much below 1%"
CLIP_MUCH = {"one": 0.10, "several": 0.20}  # by epochs
SPIKE = 10.0  # times the median gradient norm
DOMINATED = 20.0  # times the limit that the gradient norm is clipped to
OVERSHOT = 0.005  # of the surrogate loss, in standard deviations of the advantages
AT_BOUND = 0.25  # of the iterations, so that a learning rate counts as pinned
BINS = 40  # parts of training whose mean returns are compared with their neighbors
FEWEST_BINS, BIN = 8, 8  # parts, and episodes of a part
WILD = 0.2  # of the whole range of returns; the notes say "wild", the number is this project's
FEWEST_EVALUATIONS = 6
FALLEN = 0.5  # of its first third's size, when a loss has fallen that far


@rule("finite", "run", "metrics", "notes", serious=True)
def _finite(evidence: Evidence) -> Observation:
    """The run stopped at a NaN or infinite number.

    Try: smaller learning rate.
    """
    config, count = evidence.config, evidence.iterations
    if not evidence.not_finite:
        return Observation("fine", f"every number of {count:,} iterations is finite")
    broken = ", ".join(evidence.not_finite)
    seen = f"training stopped in iteration {count:,} of {config.iterations:,}: {broken} not finite"
    remedies = (
        reduce_step(config),
        _clip_gradients(config),
        larger_batch(config),
        Remedy("set", "norm_obs", True, "normalize observations ({name})"),
        Remedy("set", "norm_reward", True, "normalize rewards ({name})"),
    )
    return Observation("act", seen, "updates were too large, or observations or rewards have a bad scale", remedies)


def _clip_gradients(config: Config) -> Remedy:
    limit = config.max_grad_norm
    norm = CLIP_NORMS[0] if limit is None else below(limit, CLIP_NORMS)
    return Remedy("lower", "max_grad_norm", norm, "clip gradients more ({name})")


# Returns ----------------------------------------------------------------------------------------------------


@rule("learning", "stability", "returns", "notes")
def _learning(evidence: Evidence) -> Observation:
    """Returns fell below the start, lost at least half of what they had gained, or demonstrably did not rise.

    Try: larger learning rate if stuck; smaller if falling, or if most updates are clipped; if gradient clipping
    removes almost all of the gradient, see *gradient*; more episodes if inconclusive.
    """
    course = evidence.course
    if course is None:
        return Observation("unknown", _too_few(evidence))
    gain, all_returns = course.gain, evidence.mean_returns if course.of_means else evidence.returns
    seen = f"the {'mean ' * course.of_means}return changed by {gain.value:+.4g} ({gain.lo:+.3g} to {gain.hi:+.3g}) "
    seen += f"since the start, to {course.start + gain.value:.4g}"
    numbers = (gain.value, gain.lo, gain.hi, tuple(map(float, all_returns)))
    if course.improves:
        return Observation("fine", seen, "", (), *numbers)
    if course.collapsed and gain.hi >= 0:
        seen += f"; it was {course.best:.4g} before"
        return Observation("act", seen, "the policy lost what it had learned", _gentler(evidence), *numbers)
    if gain.hi < 0:
        return Observation("act", seen, "the policy gets worse", _gentler(evidence), *numbers)
    if gain.hi <= SMALLEST_GAIN * course.spread:
        meaning, remedies = _why_stuck(evidence)
        return Observation("act", seen, meaning, remedies, *numbers)
    meaning = f"inconclusive: the interval contains 0; {_what_decides(evidence, gain, SMALLEST_GAIN * course.spread)}"
    return Observation("unknown", seen, meaning, (), *numbers)


def _too_few(evidence: Evidence) -> str:
    """How many episodes are needed to say whether returns rise."""
    if count := len(evidence.returns):
        return f"only {count} episodes finished; {4 * QUARTER} are needed"
    if len(evidence.mean_returns):
        return f"running means over {WINDOW} episodes are compared only where {FEWEST_MEANS * WINDOW} have finished"
    return "no returns are recorded"


def _gentler(evidence: Evidence) -> tuple[Remedy, ...]:
    return reduce_step(evidence.config), _anneal(evidence.config)


def _what_decides(evidence: Evidence, gain: Estimate, smallest: float) -> str:
    """How much longer the run must be for an interval of this gain that decides it, if nothing else changes."""
    half = (gain.hi - gain.lo) / 2
    to_rise = (half / gain.value) ** 2 if gain.value > 0 else math.inf
    to_stand = (half / (smallest - gain.value)) ** 2 if gain.value < smallest else math.inf
    if not math.isfinite(times := max(1.1, min(to_rise, to_stand))):
        return "the returns are too large to say how many more episodes would decide it"
    factor = math.ceil(10 * times) / 10
    words = f"about {factor:g} times as many episodes would decide it"
    if evidence.files is None:
        return words
    batch = evidence.config.batch
    total = math.ceil(factor * evidence.iterations) * batch
    return f"{words}: `trimtab resume {quote(str(evidence.files.path))} --total-timesteps {total}`"


def _why_stuck(evidence: Evidence) -> tuple[str, tuple[Remedy, ...]]:
    """Why nothing is learned, as far as the records show it, and what to try."""
    config = evidence.config
    if clips_much(evidence):
        return "stuck, and most updates are clipped, so they are too large", (reduce_step(config),)
    if _overshoots(evidence):
        return "stuck, and updates make the policy loss worse, so they are too large", (reduce_step(config),)
    if _value_dominates_norm(evidence):
        meaning = "stuck, and gradient clipping removes almost all of the policy's gradient (see gradient)"
        return meaning, _restore_policy_gradient(evidence)
    if config.anneal_lr == "adaptive" and _share_at_bound(evidence, lower=True) >= AT_BOUND:
        return "stuck, and the learning rate is at its lower bound (see step size)", _smaller_steps(config)
    if config.learning_rate >= max(LEARNING_RATES):
        return "stuck, with a very large learning rate", (reduce_step(config),)
    second = [Remedy("raise", "update_epochs", 2, "use 2 epochs ({name})")] if config.update_epochs == 1 else []
    remedies = (increase_step(config), *second, Remedy("raise", "ent_coef"), Remedy("raise", "gamma"))
    return "stuck, unless this is the best return possible", remedies


def _anneal(config: Config) -> Remedy:
    linear = "linear" if config.anneal_lr == "constant" else None
    return Remedy("set", "anneal_lr", linear or config.anneal_lr, "anneal the learning rate ({name})")


@rule("lasting", "stability", "episodes", "notes")
def _lasting(evidence: Evidence) -> Observation:
    """The last tenth of the episodes is worse than the best tenth by a fifth of the range.

    Try: anneal or lower the learning rate.
    """
    returns = evidence.returns
    if len(returns) < 10 * TENTH:
        return Observation("unknown", f"only {len(returns)} episodes finished; {10 * TENTH} are needed")
    tenths, ends = np.array_split(returns, 10), np.array_split(evidence.steps, 10)
    means = [float(tenth.mean()) for tenth in tenths]
    best = int(np.argmax(means))
    fall = stats.difference(tenths[best], tenths[-1])
    seen = f"mean return {means[-1]:.4g} in the last tenth of the episodes, {means[best]:.4g} in the best tenth"
    seen += f" (to step {int(ends[best][-1]):,})"
    spread = max(means) - min(means)
    if best == len(means) - 1 or fall.hi >= 0 or -fall.value < LASTING_FALL * spread:
        return Observation("fine", seen, value=fall.value, lo=fall.lo, hi=fall.hi)
    meaning = "the policy was better before, and its checkpoint of then is kept"
    remedies = _gentler(evidence) if clips_much(evidence) else _gentler(evidence)[::-1]
    return Observation("watch", seen, meaning, remedies, fall.value, fall.lo, fall.hi)


def _swings(returns: Numbers, bins: int) -> tuple[float, float]:
    """How far mean returns move from one part of training to the next.

    Of the squared moves (m_{k+1} − m_k)², what the spread of single episodes explains, s²/n of both parts, is
    subtracted.

    Args:
        returns: of episodes, in order.
        bins: parts of training to compare.

    Returns:
        The root of the rest as a share of the range of the means, and the rest over its standard error.
    """
    parts = np.array_split(np.asarray(returns, float), bins)
    means = np.array([part.mean() for part in parts])
    noise = np.array([part.var(ddof=1) / len(part) for part in parts])
    excess = np.diff(means) ** 2 - (noise[1:] + noise[:-1])
    error = excess.std(ddof=1) / np.sqrt(len(excess))
    jump = np.sqrt(max(excess.mean(), 0.0) / 2)
    return float(jump / max(np.ptp(means), 1e-12)), float(excess.mean() / max(error, 1e-12))


@rule("swings", "stability", "episodes", "notes", unknown="too few episodes finished to see whether returns swing")
def _swinging(evidence: Evidence) -> Observation | None:
    """From one part of the episodes to the next, the return jumps by a large share of its range, more than single
    episodes explain.

    Try: a larger batch; normalize advantages or returns.
    """
    bins = min(BINS, len(evidence.returns) // BIN, max(evidence.iterations, FEWEST_BINS))
    if bins < FEWEST_BINS:
        return None
    size, certainty = _swings(evidence.returns, bins)
    seen = f"from one {bins}th of the episodes to the next, the mean return moves by {percent(size)} of its range"
    if size < WILD or certainty < 2:
        return Observation("fine", seen, value=size)
    remedies = (
        larger_batch(evidence.config),
        Remedy("set", "norm_adv", "batch", "normalize advantages ({name})"),
        Remedy("set", "norm_reward", True, "normalize rewards ({name})"),
        Remedy("raise", "vf_coef", words="give the critic more weight (raise {name})"),
    )
    return Observation("watch", seen, "more than single episodes explain", remedies, size)


@rule("overfitting", "stability", "evaluations", "notes")
def _overfitting(evidence: Evidence) -> Observation | None:
    """The value loss has fallen far while evaluations have not improved.

    Try: fewer epochs, a larger batch.
    """
    if len(evidence.evaluations) < FEWEST_EVALUATIONS:
        return None
    loss = np.array(evidence.series("train/value_loss"))
    half, third = len(evidence.evaluations) // 2, len(loss) // 3
    if third < FEWEST_BINS:
        return Observation("unknown", "too few iterations recorded a value loss")
    gain = stats.difference(evidence.evaluations[:half], evidence.evaluations[half:])
    first, last = float(np.median(loss[:third])), float(np.median(loss[-third:]))
    seen = f"value loss {first:.3g} in the first third, {last:.3g} in the last; "
    seen += f"evaluations changed by {gain.value:+.3g} ({gain.lo:+.3g} to {gain.hi:+.3g})"
    flat = gain.lo <= 0 and gain.value < 0.25 * np.ptp(evidence.evaluations)
    if not flat or last > FALLEN * first:
        return Observation("fine", seen, value=gain.value, lo=gain.lo, hi=gain.hi)
    remedies = (fewer_epochs(evidence.config), larger_batch(evidence.config), Remedy("raise", "ent_coef"))
    return Observation("watch", seen, "the networks overfit single batches", remedies, gain.value, gain.lo, gain.hi)


# Gradients and updates --------------------------------------------------------------------------------------


def _value_dominates_norm(evidence: Evidence) -> bool:
    """Whether clipping the norm of all gradients together removes almost all of the policy's gradient."""
    values, limit = evidence.middle("train/grad_norm"), evidence.config.max_grad_norm
    return bool(evidence.config.needs_value and limit and len(values) and np.median(values) > DOMINATED * limit)


def _restore_policy_gradient(evidence: Evidence) -> tuple[Remedy, ...]:
    """What gives the policy its share of the clipped gradient back."""
    norm = float(f"{np.median(evidence.middle('train/grad_norm')):.1g}")
    clip_less = Remedy("raise", "max_grad_norm", norm, "clip gradients less (raise {name})")
    return Remedy("set", "norm_reward", True, "normalize rewards ({name})"), clip_less


@rule("gradient", "stability", "train/grad_norm", "notes")
def _gradient(evidence: Evidence) -> Observation | None:
    """Its norm is more than 20 times `max_grad_norm`, or spikes to 10 times its median.

    Try: normalize rewards or raise `max_grad_norm`; for spikes, lower `max_grad_norm`.
    """
    level, limit = evidence.level("train/grad_norm"), evidence.config.max_grad_norm
    if level is None:
        return None
    values = evidence.middle("train/grad_norm")
    largest = float(values.max())
    seen = f"gradient norm {level.value:.3g} ({level.lo:.3g} to {level.hi:.3g}), largest {largest:.3g}"
    if limit is not None:
        seen += f"; clipped to {limit:g} in {percent(float(np.mean(values > limit)))} of iterations"
    if _value_dominates_norm(evidence):
        meaning = "the critic's error dominates the norm, so clipping it leaves almost nothing of the policy's gradient"
        return Observation("watch", seen, meaning, _restore_policy_gradient(evidence), *level, source="own")
    if largest <= SPIKE * max(level.value, 1e-12) or (limit is not None and limit <= level.value):
        return Observation("fine", seen, "", (), *level)
    remedies = (_clip_gradients(evidence.config), reduce_step(evidence.config))
    return Observation("watch", seen, "single updates have far larger gradients", remedies, *level)


def _most_clipping(config: Config) -> float:
    return CLIP_MUCH["several" if config.update_epochs > 1 else "one"]


def clips_much(evidence: Evidence) -> bool:
    values = evidence.middle("train/clip_fraction")
    return len(values) > 0 and float(np.median(values)) > _most_clipping(evidence.config)


@rule(
    "clipping",
    "stability",
    "train/clip_fraction",
    "paper",
    applies=lambda evidence: evidence.config.surrogate_kind is not None and evidence.config.surrogate_kind.clips,
)
def _clipping(evidence: Evidence) -> Observation | None:
    """Clip fraction above 10% (one epoch) or 20% (several), or much below 1%.

    Try: smaller learning rate; larger learning rate, larger batch or PPO-EWMA.
    """
    config, level = evidence.config, evidence.level("train/clip_fraction")
    if level is None:
        return None
    seen = f"clip fraction {level.value:.1%} ({level.lo:.1%} to {level.hi:.1%})"
    if clips_much(evidence):
        epochs = "several epochs" if config.update_epochs > 1 else "one epoch"
        meaning = f"above {_most_clipping(config):.0%} with {epochs}, updates are too large"
        return Observation("act", seen, meaning, (reduce_step(config), fewer_epochs(config)), *level)
    if level.value >= CLIP_LITTLE:
        return Observation("fine", seen, "", (), *level)
    if _value_dominates_norm(evidence):
        return Observation("watch", seen, "the policy hardly moves: see gradient", (), *level)
    remedies = [increase_step(config), larger_batch(config)]
    if config.traits.with_ewma:
        remedies.append(Remedy("set", "algo", config.traits.with_ewma, "use an EWMA as proximal policy ({name})"))
    meaning = "much below 1%, updates are too small for clipping to matter"
    return Observation("watch", seen, meaning, tuple(remedies), *level)


def _overshoots(evidence: Evidence) -> bool:
    """Whether the surrogate loss is above 0, where every epoch begins: the steps of an update undo each other."""
    values = evidence.middle("train/policy_gradient_loss")
    normalized = evidence.config.has_surrogate and evidence.config.norm_adv != "none"
    return normalized and len(values) > 0 and float(np.median(values)) > OVERSHOT


@rule(
    "policy loss",
    "stability",
    "train/policy_gradient_loss",
    applies=lambda evidence: evidence.config.has_surrogate and evidence.config.norm_adv != "none",
)
def _policy_loss(evidence: Evidence) -> Observation | None:
    """Its median is above 0.005, so updates end with a worse objective than they began with (normalized advantages).

    Try: smaller learning rate, fewer epochs.
    """
    config, level = evidence.config, evidence.level("train/policy_gradient_loss")
    if level is None:
        return None
    seen = f"the policy loss is {level.value:+.2g} ({level.lo:+.2g} to {level.hi:+.2g}); an update begins near 0"
    if not _overshoots(evidence):
        return Observation("fine", seen, "", (), *level)
    meaning = "updates end with a worse objective than they began with, so they are too large"
    return Observation("act", seen, meaning, (reduce_step(config), fewer_epochs(config)), *level)


@rule("step size", "stability", "train/learning_rate", applies=lambda evidence: evidence.config.anneal_lr == "adaptive")
def _step_size(evidence: Evidence) -> Observation | None:
    """The adaptive learning rate is at a bound (1e-5 or 1e-2) in a quarter of the iterations.

    Try: fewer epochs; more epochs.
    """
    level = evidence.level("train/learning_rate")
    if level is None:
        return None
    lowest, highest = evidence.rates
    low, high = _share_at_bound(evidence, lower=True), _share_at_bound(evidence, lower=False)
    seen = f"adaptive learning rate {level.value:.3g} ({level.lo:.3g} to {level.hi:.3g})"
    if max(low, high) < AT_BOUND:
        return Observation("fine", seen, "", (), *level)
    return _at_bound(evidence, seen, level, (lowest, low) if low >= high else (highest, high), low >= high)


def _share_at_bound(evidence: Evidence, lower: bool) -> float:
    """The share of iterations in which an adaptive learning rate is at a bound; 0 where none is recorded."""
    values, (lowest, highest) = evidence.middle("train/learning_rate"), evidence.rates
    at = values <= 1.01 * lowest if lower else values >= 0.99 * highest
    return float(np.mean(at)) if len(values) else 0.0


def _smaller_steps(config: Config) -> tuple[Remedy, ...]:
    """What leaves less of a change per iteration where the learning rate cannot fall any further."""
    return (
        fewer_epochs(config),
        Remedy("lower", "num_minibatches", words="use larger minibatches ({name})"),
        Remedy("raise", "log_std_init", words="start with a wider policy (raise {name})"),
    )


def _at_bound(evidence: Evidence, seen: str, level: Level, bound: tuple[float, float], is_lower: bool) -> Observation:
    """A learning rate that can no longer follow the KL."""
    config, (rate, share) = evidence.config, bound
    seen += f"; at its {'lower' if is_lower else 'upper'} bound {rate:g} in {percent(share)} of iterations"
    if is_lower:
        meaning = "even the smallest steps change the policy too much"
        return Observation("act", seen, meaning, _smaller_steps(config), *level)
    more = Remedy("raise", "update_epochs", 2 * config.update_epochs, "use more epochs (raise {name})")
    return Observation("watch", seen, "even the largest steps stay below the desired KL", (more,), *level)
