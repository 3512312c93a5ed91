"""What one rule says about one configuration or run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from trimtab.config import Config, ConfigError, from_dict

Verdict = Literal["solved", "act", "watch", "unknown", "note", "fine"]
# In the order they are shown. A note is worth knowing and nothing to do about: unusual numbers of a run that is solved.
VERDICTS = ("solved", "act", "watch", "unknown", "note", "fine")


@dataclass(frozen=True)
class Finding:
    """A verdict, what it rests on, and what to do.

    `value` with its interval [lo, hi] is what was looked at: quartiles over iterations for something recorded in each,
    for a mean 95% or, of episodes of one run, three standard errors; None where there is no number. `change` are the
    fields to try, one way out; `advice` may know more. `series` is what was looked at over training, for drawing.
    """

    check: str
    verdict: Verdict
    seen: str
    advice: str = ""
    change: dict[str, Any] = field(default_factory=dict)
    source: str = "own"
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    series: tuple[float, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the series is in the run's own records."""
        values = asdict(self)
        del values["series"]
        return values


def ordered(findings: list[Finding]) -> list[Finding]:
    """What to act on first; within a verdict the order of the checks, which is the order to work in."""
    return sorted(findings, key=lambda f: VERDICTS.index(f.verdict))


def feasible(findings: Iterable[Finding], config: Config) -> Iterator[Finding]:
    """The same findings; a change that this configuration refuses, or has made already, is not suggested."""
    for finding in findings:
        try:
            changes_nothing = from_dict(finding.change, config) == config
        except ConfigError:
            changes_nothing = True
        yield replace(finding, change={}) if changes_nothing else finding
