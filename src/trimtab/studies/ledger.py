"""Verdicts of many studies together: every claim of the sources, and what was found of it where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.estimate import Estimate
from trimtab.studies.catalogue import DECLARED

STYLES = {"holds": "green", "does not hold": "red", "depends": "yellow", "not resolved at this size": "dim"}
ORDER = "PDHN"


def gathered(places: list[Path]) -> list[dict[str, Any]]:
    """A row for every claim of every study: its verdict from the newest finished study of that kind, if any."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    files = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / "result.json").is_file()]
    for folder in sorted(files, key=lambda f: (f / "result.json").stat().st_mtime):
        answer = json.loads((folder / "result.json").read_text())
        for verdict in answer.get("verdicts", ()):
            found[verdict["id"], answer["study"]] = verdict | {"size": answer["size"], "place": str(folder)}
    rows = [
        {"id": c.id, "claim": c.text, "where": c.where, "rule": c.rule, "source": c.source, "study": study.kind}
        | {"verdict": found.get((c.id, study.kind))}
        for study in DECLARED.values()
        for c in study.claims
    ]
    return sorted(rows, key=lambda r: (ORDER.index(r["id"][0]), int(r["id"][1:]), r["study"]))


def measured(verdict: dict[str, Any]) -> str:
    """What was measured, environment by environment, with intervals."""
    effects = [f"{e['environment']} {Estimate.from_dict(e['effect'])}" for e in verdict["evidence"]]
    return f"{verdict['measured']}: {'; '.join(effects)}" if effects else verdict["measured"]


def print_ledger(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "claim", "verdict", "study", box=None, pad_edge=False)
    for row in rows:
        verdict = row["verdict"]
        word = verdict["word"] if verdict else "not run"
        table.add_row(row["id"], row["claim"], f"[{STYLES.get(word, 'dim')}]{word}[/]", row["study"])
    Console(highlight=False).print(table)


def print_answer(answer: dict[str, Any]) -> None:
    """The answer of a study in a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"\n[bold]{answer['study']}[/bold] ({answer['size']}): {answer['sentence']}\n")
    for verdict in answer["verdicts"]:
        word = verdict["word"]
        console.print(f"[{STYLES[word]}]{word}[/]  {verdict['id']}. {verdict['claim']['text']}")
        console.print(f"    {verdict['sentence']} {verdict['needed']}".rstrip(), style="dim")
    for failure in answer["failed"]:
        console.print(f"failed: {failure}", style="red", markup=False)
    console.print(f"\npage: {answer['page']}", soft_wrap=True)


def claims_page(rows: list[dict[str, Any]]) -> str:
    """The table of all claims as a page."""
    from trimtab.report.blocks import Answer, Claims, Contents, Heading
    from trimtab.report.page import page

    judged = [row for row in rows if row["verdict"]]
    count = lambda word: sum(row["verdict"]["word"] == word for row in judged)
    told = ", ".join(f"{count(word)} {word}" for word in STYLES if count(word))
    blocks: list[Any] = [Answer(f"{len(judged)} of {len(rows)} judged: {told or 'none yet'}.", "Claims and verdicts")]
    blocks.append(Contents())
    for source in dict.fromkeys(row["source"] for row in rows):
        mine = [row for row in rows if row["source"] == source]
        table = [
            (
                f"{r['id']}. {r['claim']} ({r['where']}; {r['study']})",
                r["verdict"]["word"] if r["verdict"] else "not run",
                f"{r['verdict']['sentence']} {measured(r['verdict'])} {r['verdict']['needed']}"
                if r["verdict"]
                else r["rule"],
            )
            for r in mine
        ]
        blocks += [Heading(f"The {source}"), Claims(table)]
    return page("Claims of the sources, and what was measured", blocks)
