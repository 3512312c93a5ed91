"""Which of several splits are eliminated and by what, which remain, and which of those is recommended.

A split is eliminated by one of four rules, in this order:

0. *did not finish*: all its runs failed, and not all of some other split's did. A split some of whose runs failed is
   judged by the others, which flatters it, so it is recommended only if nothing else remains; the same holds for a
   split whose runs ended no episode.
1. *learned less*: another split's area under the learning curve is larger, by Welch's t-test at a level shared by all
   ordered pairs of splits and all interim looks at the data (so that hardly one of many tests errs).
2. *larger error*: at every stage where it is conclusive, the mean squared error of its gradient is at least twice the
   lowest one's, beyond both intervals. Errors are those of one run's policies, and another run's differ: hence twice.
3. *slower*: its steps take at least twice as long as those of the fastest remaining split, on every seed.

The remaining splits are not ranked. The tie-break is stated and does not look at measurements, so it is the same on
other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from trimtab.gradient.anatomy import shared_variance
from trimtab.gradient.noise import predict_variance
from trimtab.math import stats
from trimtab.studies.split_result import Eliminated, Elimination, SplitEvidence, SplitRow, Stage, StageRow, names_of

ERRS = 0.02  # probability that learning eliminates any split wrongly, over all pairs and looks
FACTOR = 2.0  # how much larger an error, or longer a step, must be to eliminate a split

Evidence = Sequence[SplitEvidence]


def eliminate_splits(rows: Evidence, own: int, looks: int = 1) -> Elimination:
    """Apply the rules to the evidence.

    Args:
        rows: the evidence on every split.
        own: N of the configuration; the remaining split nearest to it is recommended.
        looks: times at which learning may eliminate a split.

    Returns:
        The eliminated, the remaining and the recommended splits, with the reasons.
    """
    out: dict[str, Eliminated] = {}
    for by, rule in _RULES:
        left = [r for r in rows if r.name not in out]
        out |= {name: Eliminated(name, by, reason) for name, reason in rule(left, rows, looks).items()}
    left = [r for r in rows if r.name not in out]
    judged = [r for r in left if r.areas] or left
    whole = [r for r in judged if not r.failed] or judged
    best = min(whole, key=lambda r: (abs(math.log2(r.num_envs / own)), r.num_envs))
    eliminated, tie_break = tuple(out.values()), _tie_break(best, left, own)
    return Elimination(
        recommended=best.name,
        recommended_set=tuple(names_of(left)),
        ruled_out=eliminated,
        decided=len(left) == 1,
        tie_break=tie_break,
        sentence=_sentence(best, left, eliminated, tie_break),
        reasons=tuple(entry.reason for entry in eliminated),
        doubts=tuple(_doubts(rows, left)),
    )


def contenders(rows: Evidence, looks: int) -> list[SplitEvidence]:
    """The splits that learning and error have not eliminated: more seeds may still separate them."""
    out = _unfinished(rows, rows, looks) | _learned_less(rows, rows, looks)
    left = [r for r in rows if r.name not in out]
    larger = _larger_error(left, rows, looks)
    return [r for r in left if r.name not in larger]


def _unfinished(left: Evidence, rows: Evidence, looks: int) -> dict[str, str]:
    if not any(r.seeds for r in rows):
        return {}
    broken = [r for r in left if r.failed and not r.seeds]
    return {r.name: f"no run of {r.name} finished ({r.failed} failed)" for r in broken}


def _learned_less(left: Evidence, rows: Evidence, looks: int) -> dict[str, str]:
    trained = [r for r in rows if len(r.areas) >= 2]
    if not any(r.improved for r in trained):
        return {}
    level = ERRS / max(1, len(trained) * (len(trained) - 1)) / looks
    out = {}
    for row in (r for r in left if r in trained):
        gaps = [(_least_gap(other.areas, row.areas, level), other) for other in trained if other is not row]
        gap, better = max(gaps, key=lambda g: g[0], default=(-math.inf, row))
        if gap > 0:
            means = [float(np.mean(r.areas)) for r in (row, better)]
            out[row.name] = (
                f"{row.name} learned less: area under the learning curve {means[0]:.4g}, "
                f"against {means[1]:.4g} of {better.name} ({len(row.areas)} and {len(better.areas)} seeds)"
            )
    return out


def _least_gap(x: Sequence[float], y: Sequence[float], level: float) -> float:
    """Lower end of Welch's one-sided interval of mean(x) − mean(y) at a level."""
    return stats.contrast([x, y], [1.0, -1.0], confidence=1 - 2 * level).lo


def _larger_error(left: Evidence, rows: Evidence, looks: int) -> dict[str, str]:
    out = {}
    for row in left:
        verdicts, worst = [], 0.0
        for stage, estimates in enumerate(row.stages):
            mine, others = estimates.mse, [r.stages[stage].mse for r in left if r.stages[stage].mse.resolved]
            if not mine.resolved or not others:
                continue
            lowest = min(others, key=lambda e: e.value)
            verdicts.append(mine.lo > FACTOR * lowest.hi)
            worst = max(worst, mine.value / lowest.value)
        if verdicts and all(verdicts):
            out[row.name] = (
                f"the gradient of {row.name} has at least {FACTOR:g} times the mean squared error of the best split at "
                f"every stage where both are conclusive (up to {worst:.2g} times)"
            )
    return out


def _slower(left: Evidence, rows: Evidence, looks: int) -> dict[str, str]:
    timed = [r for r in left if r.speeds]
    if len(timed) < 2:
        return {}
    fastest = max(timed, key=lambda r: np.mean(r.speeds))
    fast = f"{fastest.name} at {np.mean(fastest.speeds):,.0f}"
    return {
        r.name: f"{r.name} runs at {np.mean(r.speeds):,.0f} steps/s, {fast}"
        for r in timed
        if FACTOR * max(r.speeds) < min(fastest.speeds)
    }


_RULES: tuple[tuple[str, Callable[[Evidence, Evidence, int], dict[str, str]]], ...] = (
    ("did not finish", _unfinished),
    ("learned less", _learned_less),
    ("larger error", _larger_error),
    ("slower", _slower),
)


# Words ---------------------------------------------------------------------------------------------------------

_PHRASES = {  # of one split, and of several
    "larger error": ("has a larger error", "have a larger error"),
    "slower": ("is slower", "are slower"),
}


def _tie_break(best: SplitEvidence, left: Evidence, own: int) -> str:
    if len(left) == 1:
        return ""
    if best.num_envs == own:
        return f"it keeps your current {own} environments"
    return f"it is closest to your current {own} environments"


def _sentence(best: SplitEvidence, left: Evidence, out: Sequence[Eliminated], tie_break: str) -> str:
    gone: dict[str, list[str]] = {}
    for entry in out:
        gone.setdefault(entry.by, []).append(entry.split)
    words = {by: _PHRASES.get(by, (by, by))[len(who) > 1] for by, who in gone.items()}
    eliminated = "; ".join(f"{', '.join(who)} {words[by]}" for by, who in gone.items())
    size = f"{best.num_envs} environments × {best.num_steps} steps"
    if len(left) == 1:
        return f"Use {size}: {eliminated}." if out else f"Use {size}: it is the only one measured."
    tied = f"{_and(names_of(left))} are statistically tied"
    return f"{tied}{f'; {eliminated}' if out else ''}. We recommend {size} because {tie_break}."


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _doubts(rows: Evidence, left: Evidence) -> list[str]:
    doubts = []
    if some := [r.name for r in left if r.failed]:
        doubts.append(f"some runs of {_and(some)} failed; only the runs that finished are compared")
    if endless := [r.name for r in left if r.seeds and len(r.areas) < r.seeds]:
        doubts.append(f"some runs of {_and(endless)} ended no episode: what they learned is unknown")
    trained = [r for r in rows if r.areas]
    if trained and not any(r.improved for r in trained):
        doubts.append("no split's returns rose within these steps, so learning does not separate the splits yet")
    elif trained and any(len(r.areas) < 2 for r in trained):
        doubts.append("a single seed cannot show a difference in learning")
    elif not any(r.seeds for r in rows):
        doubts.append("no split was trained: only gradients are compared")
    if vague := [r.name for r in left if not any(s.mse.resolved for s in r.stages)]:
        doubts.append(f"the mean squared error of {_and(vague)} is inconclusive: it may be larger than the others'")
    if vague := [r.name for r in rows if not any(s.variance.resolved for s in r.stages)]:
        doubts.append(f"the variance of {_and(vague)} is inconclusive: a few rows dominate it")
    return doubts


def say_stage(rows: Sequence[StageRow]) -> str:
    """One stage in words: covariance and effective samples of the longest rows, and which split has the least error."""
    longest = max(rows, key=lambda r: r.num_steps)
    share, ess = longest.covariance_share, longest.ess
    nonzero = share.resolved and (share.lo > 0 or share.hi < 0)
    zero = "covariance is not significantly different from 0"
    covariance = f"covariance is {share.value:.0%} of the variance" if nonzero else zero
    samples = f", {ess.value:,.0f} samples are effective" if ess.resolved else ""
    best = _least_error(rows)
    error = f"the smallest error is that of {' or '.join(best)}" if best else "every split's error is inconclusive"
    error = "the errors of the splits do not differ significantly" if len(best) == len(rows) > 1 else error
    return f"at {longest.name} {covariance}{samples}; {error}"


def stage_sentence(stages: Sequence[Stage]) -> str:
    """Whether another split would be better early than late."""
    conclusive = [(stage.stage, names) for stage in stages if (names := _least_error(stage.rows))]
    if len(conclusive) < 2:
        return "Whether another split would be better early or late in training is inconclusive."
    shared = [name for name in conclusive[0][1] if all(name in names for _, names in conclusive)]
    if len(shared) == len(stages[0].rows) > 1:
        return "The gradient errors of the splits do not differ significantly, early or late in training."
    if shared:
        some = f"where it is conclusive ({_and([stage for stage, _ in conclusive])})"
        where = "throughout training" if len(conclusive) == len(stages) else some
        return f"Early and late agree: {' or '.join(shared)} has the smallest gradient error {where}."
    by_stage = ", ".join(f"{' or '.join(names)} {stage}" for stage, names in conclusive)
    return f"The split with the smallest gradient error changes during training: {by_stage}."


def _least_error(rows: Sequence[StageRow]) -> list[str]:
    """The splits whose mean squared error is the lowest, or not significantly above the lowest."""
    resolved = [r for r in rows if r.mse.resolved]
    lowest = min((r.mse for r in resolved), key=lambda e: e.value, default=None)
    return [] if lowest is None else [r.name for r in resolved if r.mse.lo <= lowest.hi]


def marginal(row: SplitRow) -> str:
    """What one more environment buys against one more step, per sample, by the variance alone."""
    n, t = row.num_envs, row.num_steps
    if not row.variance.resolved or not row.variance.value:
        return "The variance is inconclusive here, so what one more environment or step would change is unknown."
    if t < 2:
        return (
            "One more environment lowers the variance by 1/(N+1); rows of one step do not show what another step does."
        )
    floor = shared_variance(row.variance_floor)
    # All three from the same terms: what a noisy estimate between rows adds to the total must not count as a gain.
    at = lambda steps: predict_variance(np.asarray(row.lag_covariance, float), n, steps).value + (1 - 1 / n) * floor
    variance, longer = at(t), at(t + 1)
    fewer = (variance - floor) / (n + 1)  # what environments share is no less with one more of them
    per_env, per_step = fewer / t, (variance - longer) / n
    text = (
        f"At {n}x{t}, one more environment ({t} more samples) lowers the variance by {fewer / variance:.1%}; "
        f"one more step ({n} more samples) by {(variance - longer) / variance:.1%} "
        f"if covariances beyond lag {t - 1} are 0{' and environments share as much as now' if floor else ''}. "
    )
    if floor > 0:
        text += f"With ever more environments {floor / variance:.0%} of it remains. "
    if per_step <= 0:
        return text + "Per sample, only more environments lower the variance."
    ratio = per_env / per_step
    if math.isclose(ratio, 1, rel_tol=0.05):
        return text + "Per sample, the two lower the variance equally; only the step also lowers the bias."
    more, less = ("an environment", "a step") if ratio > 1 else ("a step", "an environment")
    return text + f"Per sample, {more} lowers it {max(ratio, 1 / ratio):.2f} times as much as {less}."
