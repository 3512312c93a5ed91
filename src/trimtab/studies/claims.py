"""Claims of the sources, and verdicts on them by rules written down before anything was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from trimtab.estimate import Estimate

Word = Literal["holds", "does not hold", "depends", "not resolved at this size"]
UNDECIDED: Word = "not resolved at this size"
REACH = 100  # seeds; an effect that needs more is small against its spread, and may be nil
SOURCES = {
    "post": "Effect of Parallel Environments and Rollout Steps in PPO (ICLR blog posts 2026)",
    "draft": "the post's draft",
    "paper": "Hilton, Cobbe and Schulman, Batch size-invariance for policy optimization (arXiv 2110.00641)",
    "notes": "notes for tuning n_envs, n_steps and batch size",
}


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, where it stands there, and the rule by which a measurement judges it."""

    id: str  # as P1, D2, H4, N6
    text: str
    where: str  # figure, table or section of the source
    rule: str  # what must be seen for it to hold, in words, decided beforehand

    @property
    def source(self) -> str:
        return {"P": "post", "D": "draft", "H": "paper", "N": "notes"}[self.id[0]]


@dataclass(frozen=True)
class Evidence:
    """What one environment says of a claim: an effect, positive where the claim holds, with its interval."""

    environment: str
    effect: Estimate
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """What the measurements say of a claim."""

    claim: Claim
    word: Word
    measured: str  # what the effect is, with its unit
    evidence: tuple[Evidence, ...]
    sentence: str  # what was found
    needed: str = ""  # for what is not resolved: the size that would resolve it, from the measured spread
    threshold: float = 0.0  # what the effects are held against
    differs: str = ""  # where it does not hold everywhere: what was different from the source's setting

    def as_dict(self) -> dict[str, Any]:
        evidence = [asdict(e) | {"effect": e.effect.as_dict()} for e in self.evidence]
        return {"id": self.claim.id, "source": self.claim.source} | asdict(self) | {"evidence": evidence}


def judge(claim: Claim, measured: str, evidence: Sequence[Evidence], sentence: str, least: float = 0.0) -> Verdict:
    """The verdict of the common rule: the effect is above `least` beyond its interval, environment by environment.

    Resolved on both sides: depends. Resolved on one side only: holds or does not hold, if that is at least half of the
    effects; of many effects one or two are beyond their intervals by chance. Else not resolved.
    """
    above = [e for e in evidence if e.effect.resolved and e.effect.lo > least]
    below = [e for e in evidence if e.effect.resolved and e.effect.hi <= least]
    word = _word(len(above), len(below), len(evidence))
    size = needed(evidence, least) if word == UNDECIDED else ""
    return Verdict(claim, word, measured, tuple(evidence), sentence, size, least)


def _word(above: int, below: int, count: int) -> Word:
    if above and below:
        return "depends"
    if 2 * above >= count > 0:
        return "holds"
    return "does not hold" if 2 * below >= count > 0 else UNDECIDED


def judge_all(claim: Claim, measured: str, parts: Sequence[Sequence[Evidence]], sentence: str) -> Verdict:
    """The verdict on a claim of several parts, each judged by the common rule (effect above 0): all of them are needed.

    Every part holds: holds. One does not: does not hold. Else one depends: depends. Else not resolved.
    """
    found = [judge(claim, measured, part, sentence) for part in parts]
    words = [verdict.word for verdict in found]
    word = next((w for w in ("does not hold", "depends", UNDECIDED) if w in words), "holds")
    sizes = [verdict.needed for verdict in found if verdict.word == word and verdict.needed]
    evidence = tuple(e for part in parts for e in part)
    return Verdict(claim, word, measured, evidence, sentence, "; ".join(dict.fromkeys(sizes)))


def explained(verdicts: Sequence[Verdict], different: str) -> list[Verdict]:
    """Verdicts that say, where a claim does not hold or depends, what was different from the source's setting."""
    silent = lambda v: v.word in ("does not hold", "depends") and not v.differs
    return [replace(v, differs=different) if silent(v) else v for v in verdicts]


def needed(evidence: Sequence[Evidence], least: float = 0.0) -> str:
    """How many seeds would decide by the common rule, if effects stay as they were measured.

    Intervals shrink with the root of the number. From a few seeds, whose t is large, that asks for two to three times
    as many as would do half of the time: about what a probability of 80% asks for.
    """
    spread = [e for e in evidence if e.effect.resolved and e.seeds > 1 and e.effect.hi > e.effect.lo]
    if not spread:
        return "no spread was measured, so no size can be named: at least two seeds that finish"
    seeds, nearest = _deciding(spread, evidence, least)
    here = min(e.seeds for e in spread)
    if seeds <= REACH:
        return f"about {max(seeds, here + 1)} seeds ({here} here)"
    shown = _half(nearest) * math.sqrt(nearest.seeds / REACH)
    what = f"differ from {least:g} by nothing" if least else "be nil"
    return f"out of reach: over {REACH} seeds; the effect may {what} ({REACH} would show one of {shown:.2g})"


def _deciding(spread: Sequence[Evidence], evidence: Sequence[Evidence], least: float) -> tuple[float, Evidence]:
    """The fewest seeds at which enough effects would be beyond their intervals, and the effect that decides."""
    alone = {e: _alone(e, least) for e in spread}
    for e in sorted(spread, key=alone.__getitem__):
        resolved = [other for other in spread if alone[other] <= alone[e]]
        above = sum(other.effect.value > least for other in resolved)
        if _word(above, len(resolved) - above, len(evidence)) != UNDECIDED:
            return alone[e], e
    return math.inf, min(spread, key=alone.__getitem__)


def _alone(e: Evidence, least: float) -> float:
    """Seeds at which this effect would be told from `least`."""
    distance = abs(e.effect.value - least)
    return math.floor(e.seeds * (_half(e) / distance) ** 2) + 1 if distance else math.inf


def _half(e: Evidence) -> float:
    return (e.effect.hi - e.effect.lo) / 2
