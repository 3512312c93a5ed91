"""Verdicts of many studies together: every claim of the sources, and what was found of it where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.core.terminal import new_console, styled
from trimtab.experiments.catalogue import DECLARED
from trimtab.show import verdicts

ORDER = "PDHN"
GROUPS = {"The post and its draft": "post", "The paper": "paper", "The notes": "notes", "This library": ""}


def gathered(places: list[Path]) -> list[dict[str, Any]]:
    """A row for every claim of every study: its verdict from the newest finished study of that kind, if any."""
    files = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / "result.json").is_file()]
    files = sorted(files, key=lambda f: (f / "result.json").stat().st_mtime)
    answers = []
    for folder in files:
        try:
            answers.append(reading.read_json_object(folder / "result.json") | {"place": str(folder)})
        except UnreadableFile as error:
            reading.report(f"{error}; its verdicts are left out")
    return judged_rows(answers)


def judged_rows(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every claim of every study: its verdict from the last of the answers that has one."""
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    for answer in answers:
        for verdict in answer.get("verdicts", ()):
            latest[verdict["id"], answer["study"]] = verdict | {"size": answer["size"], "place": answer.get("place")}
    rows = [
        {"id": c.id, "claim": c.text, "where": c.where, "rule": c.rule, "source": c.source, "study": study.kind}
        | {"verdict": latest.get((c.id, study.kind))}
        for study in DECLARED.values()
        for c in study.claims
    ]
    return sorted(rows, key=lambda r: (ORDER.index(r["id"][0]), int(r["id"][1:]), r["study"]))


def print_studies(rows: list[dict[str, Any]]) -> None:
    """Every study under its source: what it asks, and the claims it judges."""
    from rich.table import Table

    console, width = new_console(), max(len(row["name"]) for row in rows)
    for title, ids in GROUPS.items():
        mine = [row for row in rows if (row["name"].split("/")[0] if "/" in row["name"] else "") == ids]
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, width=width)
        grid.add_column(width=45 if console.width < 100 else 62)
        grid.add_column(no_wrap=True, style="cyan")
        for row in mine:
            grid.add_row(styled((row["name"], "bold")), row["summary"], _ranges(row["claims"]))
        console.print(f"\n{title}", style="dim")
        console.print(grid)


def _ranges(ids: list[str]) -> str:
    """P1 P2 P3 P6 as P1–P3 P6."""
    runs: list[list[str]] = []
    for each in ids:
        follows = runs and each[0] == runs[-1][-1][0] and int(each[1:]) == int(runs[-1][-1][1:]) + 1
        runs[-1].append(each) if follows else runs.append([each])
    return " ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)


def counted(rows: list[dict[str, Any]]) -> str:
    """How many claims are judged, and how."""
    judged = [row["verdict"] for row in rows if row["verdict"]]
    return f"{len(judged)} of {len(rows)} claims judged" + (f": {verdicts.tally(judged)}" if judged else "")


def print_ledger(rows: list[dict[str, Any]]) -> None:
    """A claim in two or three lines, for eighty columns: what it says, what was measured, what would resolve it."""
    grid = _grid()
    for row in rows:
        verdict = row["verdict"]
        word = verdicts.word(verdict)
        details = " · ".join([*_found(verdict), f"{row['study']} {verdict['size']}" if verdict else row["study"]])
        grid.add_row(row["id"], styled((word, verdicts.STYLES[word])), styled(f"{row['claim']}\n", (details, "dim")))
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


def _found(verdict: dict[str, Any] | None) -> list[str]:
    """The effect and how many there are, and what would resolve it."""
    if not verdict:
        return []
    effect, *_, beyond = verdicts.effect(verdict).split("\n")
    return [text for text in (f"{effect}, {beyond}", verdict["needed"]) if text]


def print_answer(answer: dict[str, Any]) -> None:
    """The answer of a study in a terminal."""
    console = new_console()
    console.print(styled("\n", (answer["study"], "bold"), f" ({answer['size']}): {answer['sentence']}\n"))
    grid = _grid()
    for verdict in answer["verdicts"]:
        word = verdicts.word(verdict)
        more = [" · ".join(_found(verdict)), verdict.get("differs", "")]
        lines = styled(verdict["claim"]["text"], *((f"\n{line}", "dim") for line in more if line))
        grid.add_row(verdict["id"], styled((word, verdicts.STYLES[word])), lines)
    console.print(grid)
    for failure in answer["failed"]:
        console.print(f"failed: {failure}", style="red")
    console.print(f"\npage: {answer['page']}", soft_wrap=True)


def claims_page(rows: list[dict[str, Any]], beside: Path) -> str:
    """The table of all claims as a page that lies in `beside`: by source, what is judged first."""
    from trimtab.show.blocks import Block, Bullets, Claims, Contents, Decision, Folded, Heading, Next, Paragraph
    from trimtab.show.html_page import page

    judged = [row["verdict"] for row in rows if row["verdict"]]
    large, rest = verdicts.headline(judged) if judged else ("Nothing judged yet", "")
    sentence = (
        f"{len(judged)} of {len(rows)} claims have been judged, each by a rule declared beforehand. A claim opens to "
    )
    blocks: list[Block] = [Decision(large, f"{sentence}its rule and every effect.", rest), Contents()]
    for source in dict.fromkeys(row["source"] for row in rows):
        mine = [row for row in rows if row["source"] == source and row["verdict"]]
        if mine:
            claims = [verdicts.claim_block(row["verdict"], link=_link(row, beside)) for row in mine]
            blocks += [Heading(f"The {source}"), Claims(claims)]
    blocks += [Paragraph(verdicts.RULE, "soft")] if judged else []
    waiting = [f"{r['id']}. {r['claim']} ({r['where']}; {r['study']})" for r in rows if not r["verdict"]]
    blocks += [Folded("Not run", [Bullets(waiting)], f"{len(waiting)} claims")] if waiting else []
    first = next((row["study"] for row in rows if not row["verdict"]), None)
    blocks.append(
        Next(f"trimtab study run {first} --quick", "The first that has not been run, in minutes.")
        if first
        else Next("trimtab study list", "Every study, and what it asks.")
    )
    return page("Claims of the sources, and what was measured", blocks)


def _link(row: dict[str, Any], beside: Path) -> tuple[str, str] | None:
    """To the page of the study, from where the table lies."""
    target = Path(row["verdict"]["place"] or "") / "page.html"
    if not target.is_file():
        return None
    address = os.path.relpath(target.resolve(), beside.resolve())
    return f"{row['study']}, {row['verdict']['size']} size: the study's page", quote(Path(address).as_posix())
