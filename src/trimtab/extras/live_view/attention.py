"""What to look at first: what the doctor found in the newest runs, and runs that stopped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from shlex import quote

from trimtab.advise.diagnosis import Diagnosis
from trimtab.extras.live_view.listing import Listing, RunEntry, Watch

DIAGNOSED = 24  # of the newest runs
BUDGET = 0.5  # seconds of diagnosing per request; the remaining runs follow with the next requests
NAMED = 50  # runs of one concern that are listed


@dataclass(frozen=True)
class _Concern:
    """A reason to look at one or several runs of a group.

    Args:
        problem: a few words.
        seen: what was measured, in the first of the runs.
        advice: what to do about it.
        command: what to run first; None where the advice is all.
        group: the study or folder of the runs.
        runs: ids, newest first, at most NAMED of them.
        count: how many runs it concerns.
    """

    problem: str
    seen: str
    advice: str
    command: str | None
    group: str
    runs: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True)
class _Attention:
    """What to look at first, in a sentence, and why, most pressing first; `pending` runs wait for the doctor."""

    sentence: str
    concerns: tuple[_Concern, ...]
    diagnosed: int
    pending: int


def attention(watch: Watch) -> _Attention:
    """What needs a person, among all runs under a directory.

    Args:
        watch: the directory.

    Returns:
        The newest runs' most pressing findings, as far as BUDGET allows, then the runs that were interrupted.
    """
    listing = watch.listing()
    newest = sorted(listing.runs, key=lambda run: -run.modified)
    found, pending = _diagnosed(watch, newest[:DIAGNOSED])
    broken = [run for run in newest if run.status == "not finite" and run.id not in {run.id for run, _ in found}]
    stopped = [run for run in newest if run.status == "interrupted"]
    concerns = [
        *_joined(_finding(run, diagnosis, watch) for run, diagnosis in found),
        *_joined(_not_finite(run, watch) for run in broken),
        *_joined(_interrupted(run, watch) for run in stopped),
    ]
    return _Attention(_sentence(listing, concerns, pending), tuple(concerns), len(found), pending)


def _diagnosed(watch: Watch, runs: list[RunEntry]) -> tuple[list[tuple[RunEntry, Diagnosis]], int]:
    """Runs with their diagnosis, and how many had to wait."""
    found: list[tuple[RunEntry, Diagnosis]] = []
    end = time.monotonic() + BUDGET
    for k, run in enumerate(runs):
        if time.monotonic() > end:
            return found, len(runs) - k
        place = watch.place(run.id)
        diagnosis = watch.details.of(place).diagnosis if place else None
        if diagnosis is not None:
            found.append((run, diagnosis))
    return found, 0


def _finding(run: RunEntry, diagnosis: Diagnosis, watch: Watch) -> _Concern | None:
    """The first finding to act on."""
    first = next((finding for finding in diagnosis.findings if finding.verdict == "act"), None)
    if first is None:
        return None
    command = diagnosis.command or f"trimtab doctor {_path(run, watch)}"
    return _Concern(first.check, first.seen, first.advice, command, run.group, (run.id,))


def _not_finite(run: RunEntry, watch: Watch) -> _Concern:
    seen = f"stopped at step {run.step:,} because a number was not finite"
    return _Concern("not finite", seen, "", f"trimtab doctor {_path(run, watch)}", run.group, (run.id,))


def _interrupted(run: RunEntry, watch: Watch) -> _Concern:
    seen = f"at step {run.step:,} of {run.total:,}"
    in_study = any(study.id == run.group for study in watch.listing().studies)
    path = quote(str(watch.root / run.group)) if in_study else _path(run, watch)
    return _Concern("interrupted", seen, "resume it", f"trimtab resume {path}", run.group, (run.id,))


def _path(run: RunEntry, watch: Watch) -> str:
    return quote(str(watch.root / run.id))


def _joined(concerns: Iterable[_Concern | None]) -> Iterator[_Concern]:
    """One concern for all runs of a group that have the same problem."""
    first: dict[tuple[str, str], _Concern] = {}
    runs: dict[tuple[str, str], list[str]] = {}
    for concern in concerns:
        if concern is not None:
            key = (concern.group, concern.problem)
            first.setdefault(key, concern)
            runs.setdefault(key, []).extend(concern.runs)
    for key, concern in first.items():
        yield replace(concern, runs=tuple(runs[key][:NAMED]), count=len(runs[key]))


def _sentence(listing: Listing, concerns: list[_Concern], pending: int) -> str:
    if not listing.runs:
        return "There are no runs yet; they appear here as they start."
    if concerns:
        first = concerns[0]
        label = next(run.label or run.id for run in listing.runs if run.id == first.runs[0])
        count = f"{len(concerns)} things need" if len(concerns) > 1 else "One thing needs"
        return f"{count} attention. Start with {first.problem} in {label}."
    if pending:
        return "The doctor is reading the newest runs."
    counts = Counter(run.status for run in listing.runs)
    return f"No run needs attention: {', '.join(f'{count} {status}' for status, count in counts.most_common())}."
