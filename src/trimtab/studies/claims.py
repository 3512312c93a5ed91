"""Claims of the sources, and verdicts on them by rules written down before anything was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from trimtab.estimate import Estimate

Word = Literal["holds", "does not hold", "depends", "not resolved at this size"]
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
    sentence: str  # what was found; and, where it does not hold, what was different from the source's setting
    needed: str = ""  # for what is not resolved: the size that would resolve it, from the measured spread

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.claim.id, "source": self.claim.source} | asdict(self)


def judge(claim: Claim, measured: str, evidence: Sequence[Evidence], sentence: str, least: float = 0.0) -> Verdict:
    """The verdict of the common rule: the effect is above `least` beyond its interval, environment by environment.

    Resolved on both sides: depends. Resolved on one side only: holds or does not hold, if that is at least half of the
    effects; of many effects one or two are beyond their intervals by chance. Else not resolved.
    """
    above = [e for e in evidence if e.effect.resolved and e.effect.lo > least]
    below = [e for e in evidence if e.effect.resolved and e.effect.hi <= least]
    word: Word = "not resolved at this size"
    if above and below:
        word = "depends"
    elif 2 * len(above) >= len(evidence) > 0:
        word = "holds"
    elif 2 * len(below) >= len(evidence) > 0:
        word = "does not hold"
    needed = _needed([e for e in evidence if e not in above + below], least) if word.startswith("not") else ""
    return Verdict(claim, word, measured, tuple(evidence), sentence, needed)


def judge_all(claim: Claim, measured: str, parts: Sequence[Sequence[Evidence]], sentence: str) -> Verdict:
    """The verdict on a claim of several parts, each judged by the common rule (effect above 0): all of them are needed.

    Every part holds: holds. One does not: does not hold. Else one depends: depends. Else not resolved.
    """
    found = [judge(claim, measured, part, sentence) for part in parts]
    words = [verdict.word for verdict in found]
    word = next((w for w in ("does not hold", "depends", "not resolved at this size") if w in words), "holds")
    needed = [verdict.needed for verdict in found if verdict.word == word and verdict.needed]
    evidence = tuple(e for part in parts for e in part)
    return Verdict(claim, word, measured, evidence, sentence, "; ".join(dict.fromkeys(needed)))


def explained(verdicts: Sequence[Verdict], different: str) -> list[Verdict]:
    """Verdicts that say, where a claim does not hold or depends, what was different from the source's setting."""
    return [
        replace(v, sentence=f"{v.sentence} {different}".strip()) if v.word in ("does not hold", "depends") else v
        for v in verdicts
    ]


def _needed(evidence: Sequence[Evidence], least: float) -> str:
    """How many seeds would tell the measured effects from `least`: intervals shrink with the root of the number."""
    wanted = []
    for e in evidence:
        half, distance = (e.effect.hi - e.effect.lo) / 2, abs(e.effect.value - least)
        if e.seeds > 1 and half > 0 and distance > 0:
            wanted.append((round(e.seeds * (half / distance) ** 2) + 1, e.environment))
    if not wanted:
        return "the effect is not told from nothing at any size that can be foreseen from this spread"
    seeds, environment = min(wanted)
    return f"about {seeds:,} seeds on {environment} would resolve an effect of the size that was measured"
