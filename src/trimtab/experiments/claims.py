"""Claims of the sources, and verdicts on them by rules that their studies declare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy import special

from trimtab.studies.source_result import UNDECIDED, Claim, EffectEstimate, Verdict, Word

WEAKEST: tuple[Word, ...] = ("contradicted", "no effect of that size", "depends", UNDECIDED, "holds")
REACH = 100  # seeds; an effect that needs more is small against its spread, and may be nil
SOURCES = {
    "post": "Effect of Parallel Environments and Rollout Steps in PPO (ICLR blog posts 2026)",
    "draft": "the post's draft",
    "paper": "Hilton, Cobbe and Schulman, Batch size-invariance for policy optimization (arXiv 2110.00641)",
    "notes": "notes for tuning n_envs, n_steps and batch size",
}


def judge(
    claim: Claim, measured: str, evidence: Sequence[EffectEstimate], sentence: str, least: float = 0.0
) -> Verdict:
    """The verdict of the common rule on a claim of one part: the effect is above `least`."""
    return judge_all(claim, measured, [evidence], sentence, least)


def judge_all(
    claim: Claim, measured: str, parts: Sequence[Sequence[EffectEstimate]], sentence: str, least: float = 0.0
) -> Verdict:
    """The verdict on a claim of several parts, each judged by the common rule: all of them are needed.

    The claim gets the word of its weakest part, in the order of `WEAKEST`.
    """
    word, half, double = (_weakest(parts, least, factor * claim.matters) for factor in (1.0, 0.5, 2.0))
    words = [_word(part, least, claim.matters) for part in parts]
    sizes = [needed(part, least) for part, part_word in zip(parts, words) if part_word == UNDECIDED]
    size = max(sizes)[1] if sizes and word == UNDECIDED else ""  # that of the part that needs most
    evidence = tuple(e for part in parts for e in part)
    verdict = Verdict(claim, word, measured, evidence, sentence, size, least)
    return replace(verdict, with_half=half, with_double=double) if claim.matters else verdict


def _weakest(parts: Sequence[Sequence[EffectEstimate]], least: float, matters: float) -> Word:
    words = [_word(part, least, matters) for part in parts]
    return next((word for word in WEAKEST if word in words), UNDECIDED)


def _word(part: Sequence[EffectEstimate], least: float, matters: float) -> Word:
    """The common rule for one part, whose smallest effect that matters is `matters` above the threshold `least`.

    What at least half of the effects say (a pooled one alone) is the word. Their 95% intervals lie above the threshold:
    holds. Below it: contradicted. Between least − matters and least + matters, or only below least + matters: no effect
    of that size. One effect on the other side makes it depend if its interval, widened for their number, is beyond the
    threshold by as much as matters.
    """
    tiny = {e for e in part if _is_within(e, least - matters, least + matters)}
    deciding = _deciding(part)
    mostly = lambda holds: 2 * sum(map(holds, deciding)) >= len(deciding) > 0
    above, below = (mostly(lambda e, side=side: e not in tiny and beyond(e, least) == side) for side in (1, -1))
    surely = [beyond(e, least, len(part)) for e in part if e not in tiny]
    if (above or 1 in surely) and (below or -1 in surely):
        return "depends"
    if above:
        return "holds"
    if below:
        return "contradicted"
    absent = mostly(lambda e: e in tiny or (matters > 0 and _is_within(e, -math.inf, least + matters)))
    return "no effect of that size" if absent else UNDECIDED


def _is_within(e: EffectEstimate, low: float, high: float) -> bool:
    """Whether the whole interval of an effect lies between two numbers; never between a number and itself."""
    return e.effect.resolved and low < e.effect.lo and e.effect.hi < high


def _deciding(part: Sequence[EffectEstimate]) -> list[EffectEstimate]:
    return [e for e in part if e.pooled] or list(part)


def beyond(e: EffectEstimate, least: float, among: int = 1) -> int:
    """1 where an effect is above `least` with its interval, -1 where it is below, 0 where that is open.

    `among` so many effects, all of whose intervals should hold together.
    """
    if not e.effect.resolved:
        return 0
    wider = _wider(e, among)
    lo = e.effect.value - wider * (e.effect.value - e.effect.lo)
    hi = e.effect.value + wider * (e.effect.hi - e.effect.value)
    return 1 if lo > least else -1 if hi <= least else 0


def _wider(e: EffectEstimate, among: int) -> float:
    """What a 95% interval over seeds is multiplied by to hold together with as many others (Student's t)."""
    return float(special.stdtrit(_freedom(e), 1 - 0.025 / among) / special.stdtrit(_freedom(e), 0.975))


def _freedom(e: EffectEstimate) -> float:
    """Degrees of freedom of an effect's interval; where it is no Student's t, as of a mean over its seeds."""
    return e.effect.freedom or max(1, e.seeds - 1)


def explained(verdicts: Sequence[Verdict], different: str) -> list[Verdict]:
    """Verdicts that say, where a claim does not hold or depends, what was different from the source's setting."""
    failing = ("contradicted", "no effect of that size", "depends")
    return [replace(v, differs=different) if v.word in failing and not v.differs else v for v in verdicts]


def needed(part: Sequence[EffectEstimate], least: float = 0.0) -> tuple[float, str]:
    """How many seeds would decide one part by the common rule, with a probability of 80% or more, if effects stay as
    they were measured: a number, and in words."""
    deciding = _deciding(part)
    spread = [e for e in deciding if e.effect.resolved and e.seeds > 1 and e.effect.hi > e.effect.lo]
    if not spread:
        return math.inf, "no spread was measured, so no size can be named: at least two seeds that finish"
    alone = {e: _alone(e, least) for e in spread}
    seeds, nearest = math.inf, min(spread, key=alone.__getitem__)
    for e in sorted(spread, key=alone.__getitem__):
        resolved = [other for other in spread if alone[other] <= alone[e]]
        above = sum(other.effect.value > least for other in resolved)
        if 2 * max(above, len(resolved) - above) >= len(deciding):
            seeds, nearest = alone[e], e
            break
    here = min(e.seeds for e in spread)
    if seeds <= REACH:
        return seeds, f"about {max(round(seeds), here + 1)} seeds ({here} here)"
    shown = _half(nearest) * math.sqrt(nearest.seeds / REACH)
    what = f"differ from {least:.3g} by nothing" if least else "be nil"
    return seeds, f"out of reach: over {REACH} seeds; the effect may {what} ({REACH} would show one of {shown:.2g})"


def _alone(e: EffectEstimate, least: float) -> float:
    """Seeds at which this effect would differ from `least` with a probability of at least 80%.

    Intervals shrink with the root of the number. Where it is small, Student's t already asks for more than a normal
    distribution does for that probability, (1.96 + 0.84) standard errors; else the rest is added.
    """
    distance = abs(e.effect.value - least)
    if not distance:
        return math.inf
    enough = max(1.0, 2.8 / float(special.stdtrit(_freedom(e), 0.975)))
    return math.floor(e.seeds * (enough * _half(e) / distance) ** 2) + 1


def _half(e: EffectEstimate) -> float:
    return (e.effect.hi - e.effect.lo) / 2
