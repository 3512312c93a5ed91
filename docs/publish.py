"""Finished studies as pages of docs/results: `python docs/publish.py DIR ...`, or a directory that holds some.

For each study: NAME.md with the answer, the claims and their verdicts, what differs from the source, tables, figures
and how it was made; NAME.json with the same in full. And claims.md, the table of all claims, first of all pages.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.estimate import Estimate
from trimtab.runs.device import machine
from trimtab.runs.records import write_atomically, write_json
from trimtab.studies.catalogue import DECLARED
from trimtab.studies.ledger import gathered, measured

RESULTS = Path(__file__).parent / "results"
LARGEST = 500_000  # bytes of a figure
MOST_ROWS = 30  # of a table on a page; the whole table stands beside it


def studies(places: list[Path]) -> list[Path]:
    """Directories of finished studies of the sources."""
    found = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / "result.json").is_file()]
    return [f for f in found if json.loads((f / "result.json").read_text()).get("study") in DECLARED]


def judged(folder: Path) -> dict[str, Any]:
    """A study's answer, its tables judged by the rules as they are now."""
    answer = json.loads((folder / "result.json").read_text())
    study = DECLARED[answer["study"]](size=answer["size"], seed=answer["seed"])
    tables = {file.stem: pl.read_parquet(file) for file in sorted((folder / "tables").glob("*.parquet"))}
    verdicts = study.judge(tables)
    sentence = study.answer(tables, verdicts)
    size = "" if answer["size"] == "default" else f" --{answer['size']}"
    command = f"trimtab study run {answer['study']}{size}"
    told = {"sentence": sentence, "verdicts": [v.as_dict() for v in verdicts], "notes": study.notes()}
    return answer | told | {"command": command}


def page_of(folder: Path) -> tuple[str, str]:
    """The page of a study as Markdown, and its name."""
    answer = judged(folder)
    write_json(folder / "result.json", answer)
    study, name = DECLARED[answer["study"]], answer["study"].replace("/", "-")
    lines = [f"# {study.summary}", "", f"*{study.source}*", "", f"**{answer['sentence']}**", ""]
    for verdict in answer["verdicts"]:
        claim = verdict["claim"]
        lines += [f"- **{verdict['word']}**: {claim['id']}, {claim['text']} ({claim['where']})."]
        lines += [
            f"  {verdict['sentence']} {measured(verdict)}. {verdict['needed']}".rstrip(),
            f"  *Rule: {claim['rule']}*",
        ]
    lines += ["", *(f"![{figure.stem}]({name}-{figure.stem}.svg)\n" for figure in _figures(folder, name))]
    if answer["notes"]:
        lines += ["## What differs from the source", "", *(f"- {note}" for note in answer["notes"]), ""]
    lines += _tables(folder, name)
    where = machine()
    lines += [
        "## How this was made",
        "",
        f"`{answer['command']}`: {answer['jobs']} jobs, {answer['steps']:,} environment steps, on "
        f"{where['processor']}, {where['cores']} cores. Numbers: [{name}.json]({name}.json).",
        "",
        *(f"- failed: {failure}" for failure in answer["failed"]),
    ]
    write_atomically(RESULTS / f"{name}.json", (json.dumps(answer, indent=1) + "\n").encode())
    return name, "\n".join(lines)


def _figures(folder: Path, name: str) -> list[Path]:
    """Figures of up to half a megabyte, in the order they were made; the study's own page has all."""
    found = sorted((folder / "figures").glob("*.svg"), key=lambda f: f.stat().st_mtime)
    found = [figure for figure in found if figure.stat().st_size < LARGEST]
    for figure in found:
        shutil.copy(figure, RESULTS / f"{name}-{figure.stem}.svg")
    return found


def _tables(folder: Path, name: str) -> list[str]:
    """The small tables of a study."""
    lines = []
    for file in sorted((folder / "tables").glob("*.parquet")):
        frame = pl.read_parquet(file)
        if frame.height <= MOST_ROWS and frame.width <= 12:
            lines += [f"## Table: {file.stem}", "", "| " + " | ".join(frame.columns) + " |", "|---" * frame.width + "|"]
            lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in frame.iter_rows()]
            lines.append("")
    return lines


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "∣")


def claims(places: list[Path]) -> str:
    """Every claim and what was measured of it."""
    lines = [
        "# Claims of the sources, and what was measured",
        "",
        "Each claim is judged by the rule that its study declares beforehand; a study's page has the rule, the "
        "evidence and the figures. Run one: `trimtab study run NAME`; this table: `trimtab study claims DIR`.",
        "",
        "| | claim | verdict | measured | study |",
        "|---|---|---|---|---|",
    ]
    for row in gathered(places):
        verdict = row["verdict"]
        name = row["study"].replace("/", "-")
        link = f"[{row['study']}]({name}.md)" if (RESULTS / f"{name}.md").exists() else row["study"]
        word = f"**{verdict['word']}** ({verdict['size']})" if verdict else "not run"
        said = f"{verdict['sentence']} {verdict['needed']}".strip() if verdict else f"rule: {row['rule']}"
        lines.append(f"| {row['id']} | {row['claim']} ({row['where']}) | {word} | {_effects(verdict)}{said} | {link} |")
    return "\n".join(lines) + "\n"


def _effects(verdict: dict[str, Any] | None) -> str:
    if not verdict:
        return ""
    resolved = [e for e in verdict["evidence"] if e["effect"]["resolved"]]
    return "".join(f"{e['environment']} {Estimate.from_dict(e['effect'])}; " for e in resolved[:4])


def main() -> None:
    places = [Path(word) for word in sys.argv[1:]] or [Path("runs")]
    for folder in studies(places):
        name, text = page_of(folder)
        write_atomically(RESULTS / f"{name}.md", text.encode())
        print(f"docs/results/{name}.md")
    write_atomically(RESULTS / "claims.md", claims(places).encode())
    listed(places)


def listed(places: list[Path]) -> None:
    """The table of studies in README.md."""
    rows = []
    for folder in studies(places):
        kind = json.loads((folder / "result.json").read_text())["study"]
        rows.append(f"| [{kind}]({kind.replace('/', '-')}.md) | {DECLARED[kind].summary} |")
    text = (RESULTS / "README.md").read_text()
    before, _, rest = text.partition("| page | question |\n|---|---|\n")
    after = rest[rest.index("## Speed and checks") :]
    order = [f"[{kind}]" for kind in DECLARED]
    rows.sort(key=lambda row: next(k for k, name in enumerate(order) if name in row))
    table = "\n".join(["| page | question |", "|---|---|", *rows])
    write_atomically(RESULTS / "README.md", f"{before}{table}\n\n{after}".encode())


if __name__ == "__main__":
    main()
