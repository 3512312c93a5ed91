"""What a study of the sources answers: verdicts on their claims, by rules that the studies declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trimtab.core.estimate import Estimate
from trimtab.core.json_values import fields_from_json, fields_to_json
from trimtab.studies.study_result import StudyResult

Word = Literal["holds", "contradicted", "no effect of that size", "depends", "inconclusive"]
UNDECIDED: Word = "inconclusive"
EARLIER: dict[str, Word] = {  # words of earlier versions
    "does not hold": "contradicted",
    "not resolved at this size": "inconclusive",
    "inconclusive at this size": "inconclusive",
}


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, where it stands there, and the rule by which a measurement judges it."""

    id: str  # as P1, D2, H4, N6
    text: str
    where: str  # figure, table or section of the source
    rule: str  # what must be seen for it to hold, in words
    matters: float = 0.0  # the smallest effect that matters, in the unit of the effect; 0: the rule has its own margin

    @property
    def source(self) -> str:
        return {"P": "post", "D": "draft", "H": "paper", "N": "notes"}[self.id[0]]


@dataclass(frozen=True)
class EffectEstimate:
    """An effect in one environment, positive where the claim holds, with its interval.

    A pooled effect is over all environments: it decides, and single ones can only contradict it.
    """

    environment: str
    effect: Estimate
    seeds: int
    pooled: bool = False

    def within(self, margin: float) -> EffectEstimate:
        """margin − |effect|: positive where the effect is smaller than the margin."""
        return replace(self, effect=self.effect.within(margin))


@dataclass(frozen=True)
class Verdict:
    """What the measurements say of a claim."""

    claim: Claim
    word: Word
    measured: str  # what the effect is, with its unit
    evidence: tuple[EffectEstimate, ...]
    sentence: str  # what was found
    needed: str = ""  # for inconclusive verdicts: the size that would decide them, from the measured spread
    threshold: float = 0.0  # what the effects are held against
    differs: str = ""  # where it does not hold everywhere: what was different from the source's setting
    with_half: Word | None = None  # the word if half of the smallest effect mattered
    with_double: Word | None = None  # and if twice of it did

    @property
    def id(self) -> str:
        """That of the claim."""
        return self.claim.id

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, with the name and the source of the claim."""
        return {"id": self.claim.id, "source": self.claim.source, **fields_to_json(self)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Verdict:
        """From what `as_dict` made, also of earlier versions."""
        return fields_from_json(cls, {**entry, "word": EARLIER.get(entry["word"], entry["word"])})


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure of a study and what to look for in it.

    `frames` are labelled charts that a slider chooses from, `chart` one of them (Altair's, whose import takes long).
    """

    chart: Any
    caption: str
    frames: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class SourceResult(StudyResult):
    """The answer of a study of the sources, at one size."""

    study: str
    size: str
    seed: int = 1
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    """What differs from the source."""
    jobs: int = 0
    steps: int = 0
    """Environment steps of all jobs."""
    failed: tuple[str, ...] = ()
    """The jobs that failed, and why."""

    @property
    def lines(self) -> Iterator[tuple[object, ...]]:
        """Every claim and its verdict."""
        return ((verdict.id, verdict.claim.text, verdict.word) for verdict in self.verdicts)
