"""`trimtab doctor`: a run's records judged by every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes
from functools import partial
from pathlib import Path
from shlex import quote

from trimtab.advise import solved
from trimtab.advise.evidence import Evidence, evidence_of
from trimtab.advise.remedies import Adviser, Dictionary, own_words
from trimtab.advise.rules import Observation, Rule, observe
from trimtab.core.finding import VERDICTS, Finding
from trimtab.training.run import Run

PRESSING = ("act", "watch")


@dataclass(frozen=True)
class Diagnosis:
    """All findings, the most pressing first, and the next thing to try."""

    run: str
    findings: list[Finding]
    sentence: str
    command: str | None = None

    @property
    def acts(self) -> list[str]:
        """The checks that ask to act."""
        return [finding.check for finding in self.findings if finding.verdict == "act"]

    def __repr__(self) -> str:
        """The sentence and the findings behind it, one line each."""
        notable = [f for f in self.findings if f.verdict in ("solved", *PRESSING)]
        lines = [f"  {f.verdict:<7} {f.check}: {f.seen}" for f in notable]
        return "\n".join([f"<Diagnosis of {self.run}: {self.sentence}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from trimtab.show.findings import findings_html

        return findings_html(self.findings, self.sentence)


@dataclass(frozen=True)
class FolderDiagnosis:
    """The diagnoses of all runs under a folder."""

    folder: str
    runs: list[Diagnosis]
    problems: list[str]
    """Runs that cannot be read, and why."""
    sentence: str

    @classmethod
    def of(cls, folder: Path, runs: list[Diagnosis], problems: list[str]) -> FolderDiagnosis:
        """With a sentence that counts what is to be acted on."""
        acts = tally([run.acts for run in runs])
        sentence = f"{len(runs)} runs. " + (f"To act on: {acts}." if acts else "Nothing to act on.")
        return cls(str(folder), runs, problems, sentence)


def diagnose(run: Run) -> Diagnosis:
    """Judge a run's records.

    Args:
        run: a run, finished or not.

    Returns:
        The findings of every rule that applies, and the command for the first suggestion.
    """
    evidence = evidence_of(run)
    findings = with_commands(find(evidence, observe(evidence)), partial(_command, run))
    first = next((f for f in findings if f.verdict in PRESSING), None)
    command = first.command or _command(run, first) if first else ""
    return Diagnosis(str(run.path), findings, sentence_of(findings), command or None)


def with_commands(findings: Sequence[Finding], command: Callable[[Finding], str]) -> list[Finding]:
    """Give every finding to act on its next command; one that leaves the advice to an earlier finding has that one's.

    Args:
        findings: in order.
        command: of a finding; empty where it changes nothing.

    Returns:
        The same findings.
    """
    first = next((text for f in findings if f.verdict == "act" and (text := command(f))), "")
    return [with_changes(f, command=command(f) or first) if f.verdict == "act" else f for f in findings]


def find(
    evidence: Evidence, observations: Iterable[tuple[Rule, Observation]], dictionary: Dictionary = own_words
) -> list[Finding]:
    """Make findings of observations: the most pressing first, their advice free of contradictions.

    Args:
        evidence: what the observations were made of.
        observations: rules and what they observed, in the order of work.
        dictionary: the names that options have in the library that trained the run.

    Returns:
        One finding for each observation.
    """
    eased = [(rule, _eased(rule, seen, evidence)) for rule, seen in observations]
    if any(seen.verdict == "solved" for _, seen in eased):
        eased = [(rule, _of_solved(seen)) for rule, seen in eased]
    eased.sort(key=lambda pair: VERDICTS.index(pair[1].verdict))
    adviser = Adviser(evidence.config, dictionary)
    return [_finding(rule, seen, adviser) for rule, seen in eased]


def _eased(rule: Rule, seen: Observation, evidence: Evidence) -> Observation:
    """Nothing is wrong with a run whose returns rise significantly, or with a preset that returns what it should."""
    if seen.verdict != "act" or rule.serious:
        return seen
    in_order = evidence.improves or solved.as_known(evidence.config, evidence.returns)
    return with_changes(seen, verdict="watch") if in_order else seen


def _of_solved(seen: Observation) -> Observation:
    """A run that solved its environment needs no change, whatever is unusual or not measured about it."""
    if seen.verdict == "unknown":
        return with_changes(seen, verdict="note", meaning="", remedies=())
    if seen.verdict in PRESSING:
        return with_changes(seen, verdict="note", meaning="unusual; no action needed", remedies=())
    return seen


def _finding(rule: Rule, seen: Observation, adviser: Adviser) -> Finding:
    advice = adviser.advice(rule.name, seen.meaning, seen.remedies)
    source = seen.source or rule.source
    numbers = (seen.value, seen.lo, seen.hi, seen.series)
    command = ""  # whoever knows the run or log adds it
    about = (seen.seen, advice.text, advice.change, source, advice.moves, command)
    return Finding(rule.name, seen.verdict, *about, *numbers)


def tally(acts: Sequence[Sequence[str]]) -> str:
    """What several runs are to act on, and in how many of them; empty if there is nothing."""
    counts = Counter(check for checks in acts for check in checks)
    return ", ".join(f"{check} in {count} of {len(acts)}" for check, count in counts.most_common())


def sentence_of(findings: Sequence[Finding]) -> str:
    """One sentence for all findings, which are ordered."""
    if findings and findings[0].verdict == "solved":
        return f"Solved: {findings[0].seen}. Nothing to act on."
    acts, watches = ([f.check for f in findings if f.verdict == verdict] for verdict in PRESSING)
    if acts:
        return f"To act on: {', '.join(acts)}. Change one thing at a time."
    if watches:
        return f"Nothing is wrong; worth a try: {', '.join(watches)}."
    return "No problem found."


def _command(run: Run, finding: Finding) -> str:
    """The same run with the suggestion taken; an interrupted one is resumed, one with missing files trained again."""
    path = quote(str(run.path))
    if finding.check == "ended":
        return f"trimtab resume {path}"
    if not finding.change and finding.check != "records":
        return ""
    words = [f" --{name.replace('_', '-')} {str(value).lower()}" for name, value in finding.change.items()]
    return f"trimtab train --config {quote(f'{run.path}/config.yaml')}{''.join(words)}"
