"""What one rule says about one configuration or run: the result that `plan`, `doctor`, tables and pages share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Verdict = Literal["solved", "act", "watch", "unknown", "note", "fine"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # in the order they are shown
Source = Literal["notes", "paper", "post", "own"]


@dataclass(frozen=True)
class Finding:
    """A verdict with its evidence and its advice."""

    check: str
    """The name of the rule."""
    verdict: Verdict
    """act: something is wrong; watch: worth a try; unknown: not measured, or inconclusive; note: no action needed."""
    seen: str
    """The evidence: a number with its unit and what it refers to."""
    advice: str = ""
    """What the evidence means and what to do next."""
    change: dict[str, Any] = field(default_factory=dict)
    """Fields to set, the first thing to try; the names are those of the library that trained the run."""
    source: Source = "own"
    """Where the rule comes from."""
    moves: str = ""
    """The first advice by trimtab's own names: "lower learning_rate"; empty if there is none."""
    command: str = ""
    """The next command, of a finding to act on."""
    value: float | None = None
    """The number that was judged, if there is one."""
    lo: float | None = None
    """Its interval: quartiles over iterations, 95% for a mean, three standard errors for a difference of returns."""
    hi: float | None = None
    series: tuple[float, ...] = field(default=(), repr=False)
    """Its course over training, for drawing; not part of the JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "series"}


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by verdict, the most pressing first; within a verdict in the order of the rules."""
    return sorted(findings, key=lambda finding: VERDICTS.index(finding.verdict))
