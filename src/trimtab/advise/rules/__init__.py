"""The rules that `plan` and `doctor` apply: one declaration each, in the files of this folder.

A rule is a function from `Evidence` to an `Observation`, under the decorator `rule`, which declares the rest: what it
reads, when it acts, what it advises, where it comes from. The registry finds every rule in every file of this folder,
and its line of docs/playbook.md is checked against the declaration. To add a rule, add it to a file and test it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Literal, get_args

from trimtab.advise.evidence import Evidence
from trimtab.advise.remedies import Remedy
from trimtab.core.finding import Source, Verdict

Topic = Literal["run", "settings", "stability", "variance", "exploration", "measurements", "sizes", "plan"]
FEWEST = 8  # iterations that must have recorded a metric, so that the middle half has a median
TOPICS: tuple[Topic, ...] = get_args(Topic)  # the order of work; within a topic, that of the file


@dataclass(frozen=True)
class Observation:
    """What a rule makes of the evidence."""

    verdict: Verdict
    seen: str
    """The evidence in words: a number with its unit and what it refers to."""
    meaning: str = ""
    """What that means."""
    remedies: tuple[Remedy, ...] = ()
    """What to try, the best first."""
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    series: tuple[float, ...] = ()
    source: Source | None = None
    """Where this part of the rule comes from, if not from where the rest does."""


Judge = Callable[[Evidence], Observation | None]


@dataclass(frozen=True)
class Rule:
    """One rule: everything that commands, pages and documents ask of it."""

    name: str
    topic: Topic
    reads: str
    """What it needs: a metric ("train/..."), metrics, returns, episodes, evaluations, files, probes, settings, sizes or
    disk."""
    source: Source
    unknown: str
    """What is said where the evidence does not suffice; nothing is said if this is empty."""
    serious: bool
    """Whether it is to be acted on even while returns improve."""
    applies: Callable[[Evidence], bool]
    judge: Judge

    def observe(self, evidence: Evidence) -> Observation | None:
        """What the rule makes of the evidence; None where it has nothing to say."""
        if not self.applies(evidence):
            return None
        observation = self.judge(evidence)
        if observation is None and self.unknown:
            return Observation("unknown", self.unknown)
        return observation

    @property
    def documentation(self) -> tuple[str, str]:
        """When it acts or watches, and what it advises: the two paragraphs of its function's docstring."""
        when, _, tries = (self.judge.__doc__ or "").partition("Try:")
        return _clause(when), _clause(tries)


def rule(
    name: str,
    topic: Topic,
    reads: str,
    source: Source = "own",
    *,
    unknown: str = "",
    serious: bool = False,
    applies: Callable[[Evidence], bool] = lambda evidence: True,
) -> Callable[[Judge], Rule]:
    """Declare a function as a rule; the arguments are the fields of `Rule`.

    The function's docstring says when the rule acts or watches and, after "Try:", what it advises; the playbook shows
    both.
    """
    if reads.startswith("train/"):
        unknown = unknown or f"too few iterations recorded {reads}; {FEWEST} are needed"
    return lambda judge: Rule(name, topic, reads, source, unknown, serious, applies, judge)


def _clause(paragraph: str) -> str:
    """A sentence as a cell of a table."""
    text = " ".join(paragraph.split()).removesuffix(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def percent(share: float) -> str:
    """A share as 63%, with a digit below 10% and no minus before a zero."""
    digits = 1 if 0 < abs(share) < 0.1 else 0
    text = f"{share:.{digits}%}"
    return text.removeprefix("-") if float(text[:-1]) == 0 else text


def _found() -> tuple[Rule, ...]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    rules = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    return tuple(sorted(rules, key=lambda each: TOPICS.index(each.topic)))


RULES: tuple[Rule, ...] = _found()


def observe(evidence: Evidence, rules: Iterable[Rule] = RULES) -> list[tuple[Rule, Observation]]:
    """What each rule that applies makes of the evidence, in the order of work.

    Args:
        evidence: what is known of a configuration or a run.
        rules: the rules to apply.

    Returns:
        Rules and their observations.
    """
    return [(each, seen) for each in rules if (seen := each.observe(evidence))]
