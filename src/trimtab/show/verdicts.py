"""Verdicts on claims in few words, the same on pages, in terminals and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trimtab.core.wording import as_sentence
from trimtab.show.blocks import Block, Claim, Paragraph, Table
from trimtab.studies.source_result import EffectEstimate, Verdict

NOT_RUN = "not run"
# For each verdict: how it is written in a terminal, and a sign for text without colours.
STYLES = {
    "holds": "green",
    "contradicted": "red",
    "no effect of that size": "magenta",
    "depends": "yellow",
    "inconclusive": "dim",
    NOT_RUN: "dim",
}
SIGNS = {
    "holds": "✓",
    "contradicted": "✗",
    "no effect of that size": "∅",
    "depends": "±",
    "inconclusive": "?",
    NOT_RUN: "–",
}
_PLURAL = {"holds": "hold", "depends": "depend"}

RULE = (
    "How rules are applied: a part of a claim holds if at least half of its effects are beyond the threshold with "
    "their 95% intervals (an effect over all environments decides alone). An effect on the other side contradicts it "
    "if it is beyond the threshold with an interval widened for the number of effects (Bonferroni). A claim of several "
    "parts needs all of them. Some claims declare the smallest effect that matters: intervals that exclude an effect "
    "of that size mean that there is no effect of that size."
)


def word(verdict: Verdict | None) -> str:
    """One of STYLES."""
    return verdict.word if verdict else NOT_RUN


def tally(verdicts: Sequence[Verdict | None]) -> str:
    """2 hold, 1 contradicted, 3 inconclusive."""
    words = [word(verdict) for verdict in verdicts]
    counts = {name: words.count(name) for name in STYLES if name in words}
    return ", ".join(f"{n} {_PLURAL.get(name, name) if n > 1 else name}" for name, n in counts.items())


def headline(judged: Sequence[Verdict]) -> tuple[str, str]:
    """How many hold, large, and the rest beside it."""
    if len(judged) == 1:
        return word(judged[0]).capitalize(), ""
    others = [verdict for verdict in judged if word(verdict) != "holds"]
    return f"{len(judged) - len(others)} of {len(judged)} claims hold", tally(others)


def effect(verdict: Verdict | None) -> str:
    """The middle one of the effects with its interval; below it what it is, and how many are beyond theirs."""
    if not verdict or not verdict.evidence:
        return ""
    middle, several = _middle(verdict), ";" in verdict.measured  # quantities: then its own name says which
    what = middle.environment if several else verdict.measured
    lines = [str(middle.effect), what, _beyond(verdict, middle.environment)]
    return "\n".join(line for line in lines if line)


def _middle(verdict: Verdict) -> EffectEstimate:
    """By distance from the threshold in half-widths of the interval, which has no unit: effects may have several."""

    def distance(item: EffectEstimate) -> float:
        half, beyond = (item.effect.hi - item.effect.lo) / 2, item.effect.value - verdict.threshold
        return beyond / half if half > 0 else math.copysign(math.inf, beyond)

    deciding = [item for item in verdict.evidence if item.pooled] or verdict.evidence
    resolved = [item for item in deciding if item.effect.resolved] or deciding
    return sorted(resolved, key=distance)[(len(resolved) - 1) // 2]


def _beyond(verdict: Verdict, name: str) -> str:
    threshold, effects = verdict.threshold, [item.effect for item in verdict.evidence]
    if len(effects) == 1:
        return name + (f"; the claim needs more than {threshold:.3g}" if threshold else "")
    resolved = [e for e in effects if e.resolved]
    counts = {
        "below": sum(e.hi <= threshold and e.lo < threshold for e in resolved),
        "equal": sum(e.lo == e.hi == threshold for e in resolved),
    }
    above = f"{sum(e.lo > threshold for e in resolved)} of {len(effects)} above {threshold:.3g}"
    return ", ".join([above, *(f"{count} {side}" for side, count in counts.items() if count)])


def claim_block(verdict: Verdict, link: tuple[str, str] | None = None) -> Claim:
    """A claim in a table of claims; its rule, the finding and every effect are folded under it."""
    claim = verdict.claim
    return Claim(
        claim.id, claim.text, claim.where, word(verdict), effect(verdict), verdict.needed, verdict.differs,
        _details(verdict), link,
    )  # fmt: skip


def _details(verdict: Verdict) -> list[Block]:
    """The finding, the rule, and every effect with its interval."""
    rows = [[item.environment, str(item.effect), str(item.seeds)] for item in verdict.evidence]
    caption = f"{as_sentence(verdict.measured)} Above {verdict.threshold:.3g} supports the claim."
    effects = Table(["", "effect [95%]", "seeds"], rows, words=(0,), caption=caption)
    rule = " ".join([f"Rule: {as_sentence(verdict.claim.rule)}", *size_sentences(verdict)])
    return [Paragraph(verdict.sentence), Paragraph(rule, "soft"), effects]


def size_sentences(verdict: Verdict) -> list[str]:
    """The smallest effect that matters, if the claim declares one, and the verdict with half and twice of it."""
    if not verdict.claim.matters:
        return []
    about = [f"The smallest effect that matters is {verdict.claim.matters:.3g}."]
    if verdict.with_half and verdict.with_double:
        about.append(f"With half of it: {verdict.with_half}; with twice: {verdict.with_double}.")
    return about
