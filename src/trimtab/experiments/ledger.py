"""Verdicts of many studies together: every claim of the sources, and what was found of it where."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.core.terminal import new_console, styled
from trimtab.experiments.catalogue import DECLARED
from trimtab.show import verdicts
from trimtab.studies.source_result import Claim, SourceResult, Verdict
from trimtab.studies.study_engine import RESULT

ORDER = "PDHN"
GROUPS = {"The post and its draft": "post", "The paper": "paper", "The notes": "notes", "This library": ""}


@dataclass(frozen=True)
class _Judged:
    """A verdict, the size of the study that gave it, and the directory of that study."""

    verdict: Verdict
    size: str
    place: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: that of the verdict, with size and place."""
        return self.verdict.as_dict() | {"size": self.size, "place": self.place}


@dataclass(frozen=True)
class _ClaimRow:
    """A claim, a study that judges it, and its verdict from the newest finished study of that kind, if any."""

    claim: Claim
    study: str
    judged: _Judged | None = None

    @property
    def verdict(self) -> Verdict | None:
        return self.judged.verdict if self.judged else None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        c = self.claim
        about = {"id": c.id, "claim": c.text, "where": c.where, "rule": c.rule, "source": c.source}
        return about | {"study": self.study, "verdict": self.judged.as_dict() if self.judged else None}


def gathered(places: Iterable[Path]) -> list[_ClaimRow]:
    """A row for every claim of every study: its verdict from the newest finished study of that kind, if any."""
    folders = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / RESULT).is_file()]
    answers = []
    for folder in sorted(folders, key=lambda f: (f / RESULT).stat().st_mtime):
        try:
            entry = reading.read_json_object(folder / RESULT)
            if "verdicts" in entry:
                with reading.interpreting(folder / RESULT):
                    answers.append(replace(SourceResult.from_dict(entry), run=str(folder)))
        except UnreadableFile as error:
            reading.report(f"{error}; its verdicts are left out")
    return judged_rows(answers)


def judged_rows(answers: Iterable[SourceResult]) -> list[_ClaimRow]:
    """A row for every claim of every study: its verdict from the last of the answers that has one."""
    latest = {(v.id, answer.study): _Judged(v, answer.size, answer.run) for answer in answers for v in answer.verdicts}
    rows = [
        _ClaimRow(claim, study.kind, latest.get((claim.id, study.kind)))
        for study in DECLARED.values()
        for claim in study.claims
    ]
    return sorted(rows, key=lambda row: (ORDER.index(row.claim.id[0]), int(row.claim.id[1:]), row.study))


def print_studies() -> None:
    """Every study under its source: what it asks, and the claims it judges."""
    from rich.table import Table

    console, width = new_console(), max(map(len, DECLARED))
    for title, source in GROUPS.items():
        mine = [study for study in DECLARED.values() if study.kind.rpartition("/")[0] == source]
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, width=width)
        grid.add_column(width=45 if console.width < 100 else 62)
        grid.add_column(no_wrap=True, style="cyan")
        for study in mine:
            grid.add_row(styled((study.kind, "bold")), study.summary, _ranges([claim.id for claim in study.claims]))
        console.print(f"\n{title}", style="dim")
        console.print(grid)


def _ranges(ids: list[str]) -> str:
    """P1 P2 P3 P6 as P1–P3 P6."""
    runs: list[list[str]] = []
    for each in ids:
        follows = runs and each[0] == runs[-1][-1][0] and int(each[1:]) == int(runs[-1][-1][1:]) + 1
        runs[-1].append(each) if follows else runs.append([each])
    return " ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)


def counted(rows: Sequence[_ClaimRow]) -> str:
    """How many claims are judged, and how."""
    judged = [row.verdict for row in rows if row.verdict]
    return f"{len(judged)} of {len(rows)} claims judged" + (f": {verdicts.tally(judged)}" if judged else "")


def print_ledger(rows: Sequence[_ClaimRow]) -> None:
    """A claim in two or three lines, for eighty columns: what it says, what was measured, what would resolve it."""
    grid = _grid()
    for row in rows:
        word, size = verdicts.word(row.verdict), f" {row.judged.size}" if row.judged else ""
        details = " · ".join([*_found(row.verdict), f"{row.study}{size}"])
        text = styled(f"{row.claim.text}\n", (details, "dim"))
        grid.add_row(row.claim.id, styled((word, verdicts.STYLES[word])), text)
    console = new_console()
    console.print(grid)
    end = " A study: trimtab study run NAME; its page has rule and evidence."
    console.print(styled("\n", (f"{counted(rows)}.", "bold"), end))


def _grid() -> Any:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    return grid


def _found(verdict: Verdict | None) -> list[str]:
    """The effect and how many there are, and what would resolve it."""
    if not verdict:
        return []
    effect, *_, beyond = verdicts.effect(verdict).split("\n")
    return [text for text in (f"{effect}, {beyond}", verdict.needed) if text]


def print_answer(answer: SourceResult) -> None:
    """The answer of a study in a terminal."""
    console = new_console()
    console.print(styled("\n", (answer.study, "bold"), f" ({answer.size}): {answer.sentence}\n"))
    grid = _grid()
    for verdict in answer.verdicts:
        word = verdicts.word(verdict)
        more = [" · ".join(_found(verdict)), verdict.differs]
        lines = styled(verdict.claim.text, *((f"\n{line}", "dim") for line in more if line))
        grid.add_row(verdict.id, styled((word, verdicts.STYLES[word])), lines)
    console.print(grid)
    for failure in answer.failed:
        console.print(f"failed: {failure}", style="red")
    console.print(f"\npage: {answer.page}", soft_wrap=True)


def claims_page(rows: Sequence[_ClaimRow], beside: Path) -> str:
    """The table of all claims as a page that lies in `beside`: by source, what is judged first."""
    from trimtab.show.blocks import Block, Bullets, Claims, Decision, Folded, Heading, Next, Page, Paragraph
    from trimtab.show.html_page import render

    judged = [row.verdict for row in rows if row.verdict]
    large, rest = verdicts.headline(judged) if judged else ("Nothing judged yet", "")
    sentence = (
        f"{len(judged)} of {len(rows)} claims have been judged, each by a rule declared beforehand. A claim opens to "
    )
    first = next((row.study for row in rows if not row.judged), None)
    command = Next(f"trimtab study run {first} --quick", "Run the first study that has not been run, in minutes.")
    following = command if first else Next("trimtab study list", "Every study, and what it asks.")
    evidence: list[Block] = []
    for source in dict.fromkeys(row.claim.source for row in rows):
        mine = [row for row in rows if row.claim.source == source and row.judged]
        if mine:
            claims = [verdicts.claim_block(row.judged.verdict, _link(row, beside)) for row in mine if row.judged]
            evidence += [Heading(f"The {source}"), Claims(claims)]
    evidence += [Paragraph(verdicts.RULE, "soft")] if judged else []
    waiting = [f"{r.claim.id}. {r.claim.text} ({r.claim.where}; {r.study})" for r in rows if not r.judged]
    details = [Folded("Not run", [Bullets(waiting)], f"{len(waiting)} claims")] if waiting else []
    decision = Decision(large, f"{sentence}its rule and every effect.", rest, following)
    return render(Page("Claims of the sources, and what was measured", decision, evidence, details=details))


def _link(row: _ClaimRow, beside: Path) -> tuple[str, str] | None:
    """To the page of the study, from where the table lies."""
    target = Path(row.judged.place or "") / "page.html" if row.judged else None
    if row.judged is None or target is None or not target.is_file():
        return None
    address = os.path.relpath(target.resolve(), beside.resolve())
    return f"{row.study}, {row.judged.size} size: the study's page", quote(Path(address).as_posix())
