"""Verdicts on claims in few words, the same on pages, in terminals and in Markdown. A verdict is a plain dictionary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trimtab.core.estimate import Estimate
from trimtab.show.blocks import Block, Claim, Paragraph, Table

Verdict = dict[str, Any]
NOT_RUN = "not run"
# For each verdict: how it is written in a terminal, and a sign for text without colours.
STYLES = {"holds": "green", "does not hold": "red", "depends": "yellow", "not resolved": "dim", NOT_RUN: "dim"}
SIGNS = {"holds": "✓", "does not hold": "✗", "depends": "±", "not resolved": "?", NOT_RUN: "–"}
PLURAL = {"holds": "hold", "does not hold": "do not hold", "depends": "depend"}

RULE = (
    "How rules are applied: of the effects of one part at least half must be beyond the threshold with their 95% "
    "intervals (one over all environments decides alone); an effect on the other side contradicts them if it is beyond "
    "the threshold with an interval widened for their number (Bonferroni). A claim of several parts needs them all."
)


def word(verdict: Verdict | None) -> str:
    """One of STYLES; that it is not resolved at this size goes without saying beside the size."""
    return verdict["word"].removesuffix(" at this size") if verdict else NOT_RUN


def tally(verdicts: Sequence[Verdict | None]) -> str:
    """2 hold, 1 does not hold, 3 not resolved."""
    words = [word(verdict) for verdict in verdicts]
    counts = {name: words.count(name) for name in STYLES if name in words}
    return ", ".join(f"{n} {PLURAL.get(name, name) if n > 1 else name}" for name, n in counts.items())


def headline(judged: Sequence[Verdict]) -> tuple[str, str]:
    """How many hold, large, and the rest beside it."""
    if len(judged) == 1:
        return word(judged[0]).capitalize(), ""
    held = sum(word(verdict) == "holds" for verdict in judged)
    return f"{held} of {len(judged)} hold", tally([verdict for verdict in judged if word(verdict) != "holds"])


def effect(verdict: Verdict | None) -> str:
    """The middle one of the effects with its interval; below it what it is, and how many are beyond theirs."""
    if not verdict or not verdict["evidence"]:
        return ""
    middle, several = _middle(verdict), ";" in verdict["measured"]  # quantities: then its own name says which
    what = middle["environment"] if several else verdict["measured"]
    lines = [str(Estimate.from_dict(middle["effect"])), what, _beyond(verdict, middle["environment"])]
    return "\n".join(line for line in lines if line)


def _middle(verdict: Verdict) -> dict[str, Any]:
    """By distance from the threshold in half-widths of the interval, which has no unit: effects may have several."""
    threshold = verdict.get("threshold", 0.0)

    def distance(item: dict[str, Any]) -> float:
        e = Estimate.from_dict(item["effect"])
        half = (e.hi - e.lo) / 2
        return (e.value - threshold) / half if half > 0 else math.copysign(math.inf, e.value - threshold)

    deciding = [item for item in verdict["evidence"] if item.get("pooled")] or verdict["evidence"]
    resolved = [item for item in deciding if item["effect"]["resolved"]] or deciding
    return sorted(resolved, key=distance)[(len(resolved) - 1) // 2]


def _beyond(verdict: Verdict, name: str) -> str:
    threshold = verdict.get("threshold", 0.0)
    effects = [Estimate.from_dict(item["effect"]) for item in verdict["evidence"]]
    if len(effects) == 1:
        return name + (f"; above {threshold:.3g} asked for" if threshold else "")
    resolved = [e for e in effects if e.resolved]
    counts = {
        "below": sum(e.hi <= threshold and e.lo < threshold for e in resolved),
        "equal": sum(e.lo == e.hi == threshold for e in resolved),
    }
    above = f"{sum(e.lo > threshold for e in resolved)} of {len(effects)} above {threshold:.3g}"
    return ", ".join([above, *(f"{count} {side}" for side, count in counts.items() if count)])


def claim_block(verdict: Verdict, link: tuple[str, str] | None = None) -> Claim:
    """A claim in a table of claims; its rule, what was found and every effect are folded under it."""
    claim, differs = verdict["claim"], verdict.get("differs", "")
    return Claim(
        claim["id"], claim["text"], claim["where"], word(verdict), effect(verdict), verdict["needed"], differs,
        _details(verdict), link,
    )  # fmt: skip


def _details(verdict: Verdict) -> list[Block]:
    rule = Paragraph(f"Rule: {sentence(verdict['claim']['rule'])}", "soft")
    return [Paragraph(verdict["sentence"]), rule, _evidence(verdict)]


def _evidence(verdict: Verdict) -> Table:
    """Every effect with its interval."""
    rows = [
        [item["environment"], str(Estimate.from_dict(item["effect"])), str(item["seeds"])]
        for item in verdict["evidence"]
    ]
    threshold = verdict.get("threshold", 0.0)
    caption = f"{sentence(verdict['measured'])} Above {threshold:.3g} speaks for the claim."
    return Table(["", "effect [95%]", "seeds"], rows, words=(0,), caption=caption)


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
