"""Finished studies as pages of docs/results: `python docs/publish.py DIR ...`, or a directory that holds some.

For each study: NAME.md with the answer, the claims and their verdicts, figures, what differs from the source, tables
and how it was made; NAME.json has the verdicts in full, NAME-TABLE.csv its tables. And claims.md, the table of all
claims, first of all pages, from all these JSON files. Answers of `trimtab split` and `trimtab tune` become pages of the
same kind, named as their directories.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from trimtab.core.quantities import quantity
from trimtab.core.wording import as_sentence, plain
from trimtab.core.writing import write_atomically, write_json
from trimtab.experiments.catalogue import DECLARED
from trimtab.experiments.ledger import counted, judged_rows
from trimtab.show import split_columns, verdicts
from trimtab.show.numbers import raised
from trimtab.show.study_page import time_taken
from trimtab.studies.source_result import SourceResult, Verdict
from trimtab.studies.split_result import SplitResult
from trimtab.studies.study_engine import time_of
from trimtab.studies.tune_result import TuneResult, changed
from trimtab.training.device import machine

RESULTS = Path(__file__).parent / "results"
LARGEST = 500_000  # bytes of a figure or a table
HEADER = "| page | question | size | claims |\n|---|---|---|---|\n"  # of the table of studies in README.md
SHOWN = {  # figures of answers
    "split": ("split_error", "learning_curves", "split_stages", "lag_covariance"),
    "tune": ("learning_curves", "sweeps"),
}
MOST_ROWS, MOST_COLUMNS = 30, 12  # of a table on a page, but for a summary; its CSV has all of it


def studies(places: list[Path]) -> list[Path]:
    """Directories of finished studies of the sources."""
    found = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / "result.json").is_file()]
    return [f for f in found if json.loads((f / "result.json").read_text()).get("study") in DECLARED]


def judged(folder: Path) -> tuple[SourceResult, dict[str, pl.DataFrame]]:
    """A study's answer by the rules as they are now, and its tables, with what was published before where it grows."""
    answer = SourceResult.from_dict(json.loads((folder / "result.json").read_text()))
    asked = json.loads((folder / "study.json").read_text())["asked"]
    study = DECLARED[answer.study].again(asked)
    tables = study.joined(study.tables.read(folder / "tables"), study.tables.of(_published_tables(answer.study)))
    verdicts = study.verdicts(tables)
    sentence = study.answer(tables, verdicts)
    size = "" if answer.size == "default" else f" --{answer.size}"
    only = f" --only {','.join(asked['only'])}" if asked.get("only") else ""
    command, notes = f"trimtab study run {answer.study}{size}{only}", tuple(study.notes())
    return replace(answer, sentence=sentence, verdicts=tuple(verdicts), notes=notes, command=command), tables.by_name()


def _published_tables(study: str) -> dict[str, pl.DataFrame]:
    """The tables of a study as they stand beside its page."""
    name = study.replace("/", "-")
    return {f.stem.removeprefix(f"{name}-"): pl.read_csv(f) for f in RESULTS.glob(f"{name}-*.csv")}


def page_of(folder: Path) -> tuple[str, str]:
    """The page of a study as Markdown, and its name."""
    answer, tables = judged(folder)
    write_json(folder / "result.json", answer.as_dict())
    name = answer.study.replace("/", "-")
    figures = [figure.stem for figure in _figures(folder, name)]
    if DECLARED[answer.study].grows:  # those of all rows that stand on the page
        rows = dict.fromkeys(tables["summary"]["env_id"])
        figures = [env_id for env_id in rows if (RESULTS / f"{name}-{env_id}.svg").is_file()]
    lines = head(answer)
    lines += ["", *(f"![{figure}]({name}-{figure}.svg)\n" for figure in figures)]
    if answer.notes:
        lines += ["## What differs from the source", "", *(f"- {note}" for note in answer.notes), ""]
    lines += claim_by_claim(answer) + _tables(tables, name)
    where, made = machine(), datetime.fromtimestamp((folder / "study.json").stat().st_mtime)
    elsewhere = json.loads((folder / "study.json").read_text())["store"]
    shared = ", which does not count what other studies had done before" if elsewhere else ""
    grown = " What it does not name stands as it was published before." if DECLARED[answer.study].grows else ""
    lines += [
        "## How this was made",
        "",
        f"`{answer.command}`: {answer.jobs} jobs, {answer.steps:,} environment steps, on "
        f"{where['processor']}, {where['cores']} cores, {made:%d %B %Y}; {time_taken(time_of(folder))}{shared}. "
        f"Numbers: [{name}.json]({name}.json).{grown}",
        "",
        *(f"- failed: {failure}" for failure in answer.failed),
    ]
    write_atomically(RESULTS / f"{name}.json", (json.dumps(answer.as_dict(), indent=1) + "\n").encode())
    return name, "\n".join(lines)


def head(answer: SourceResult) -> list[str]:
    """The answer and the verdicts, of a study's page."""
    study, judged = DECLARED[answer.study], answer.verdicts
    large = f"**{verdicts.tally(judged)} ({answer.size} size).** " if judged else ""
    lines = [f"# {study.summary}", "", f"*{answer.study}; {study.source}*", "", f"{large}{answer.sentence}", ""]
    if judged:
        lines += ["| | claim | verdict | effect [95%] | would resolve it |", "|---|---|---|---|---|"]
        lines += [f"| {v.id} | {_text(v.claim.text)} | {_short(v)} |" for v in judged] + [""]
    return lines


def _short(verdict: Verdict | None) -> str:
    """Verdict, effect and what would resolve it: three cells."""
    word = verdicts.word(verdict)
    marked = (
        f"{verdicts.SIGNS[word]} {word}"
        if word in ("inconclusive", verdicts.NOT_RUN)
        else f"{verdicts.SIGNS[word]} **{word}**"
    )
    needed = verdict.needed if verdict else ""
    return " | ".join([marked, _text(verdicts.effect(verdict).replace("\n", "<br>")), _text(needed)])


def claim_by_claim(answer: SourceResult) -> list[str]:
    """Rule, finding and every effect of every claim."""
    lines = ["## Claim by claim", "", verdicts.RULE, ""] if answer.verdicts else []
    for verdict in answer.verdicts:
        claim = verdict.claim
        lines += [f"**{claim.id}. {as_sentence(claim.text)}** ({claim.where}) {verdict.sentence}"]
        if verdict.differs:
            lines += ["", f"What was different from the source: {verdict.differs}"]
        rule = " ".join([f"Rule: {as_sentence(claim.rule)}", *verdicts.size_sentences(verdict)])
        lines += ["", f"*{rule}*", ""]
        lines += [f"| {_text(verdict.measured)} | effect [95%] | seeds |", "|---|---|---|"]
        lines += [f"| {_text(item.environment)} | {item.effect} | {item.seeds} |" for item in verdict.evidence]
        lines += [""]
    return lines


def _text(text: str) -> str:
    """In a cell of a table."""
    return text.replace("|", "∣")


def _figures(folder: Path, name: str) -> list[Path]:
    """Figures of up to half a megabyte, in the order they were made; the study's own page has all."""
    found = sorted((folder / "figures").glob("*.svg"), key=lambda f: f.stat().st_mtime)
    found = [figure for figure in found if figure.stat().st_size < LARGEST]
    for figure in found:
        shutil.copy(figure, RESULTS / f"{name}-{figure.stem}.svg")
    return found


def _tables(tables: dict[str, pl.DataFrame], name: str) -> list[str]:
    """The small tables of a study in words, and all but huge ones as CSV beside the page."""
    lines = []
    for stem, frame in sorted(tables.items(), key=lambda item: (item[0] != "summary", item[0])):
        csv = frame.write_csv().encode()
        if len(csv) < LARGEST:
            write_atomically(RESULTS / f"{name}-{stem}.csv", csv)
            lines += [f"## Table: {stem}", "", f"[{name}-{stem}.csv]({name}-{stem}.csv)", ""]
        if frame.height <= MOST_ROWS and (frame.width <= MOST_COLUMNS or stem == "summary"):
            lines += ["| " + " | ".join(frame.columns) + " |", "|---" * frame.width + "|"]
            lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in frame.iter_rows()]
            lines.append("")
    return lines


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "∣")


def claims(answers: list[SourceResult]) -> str:
    """Every claim and what was measured of it: to look over, then what does not hold and why."""
    rows = judged_rows(answers)
    lines = ["# Claims of the sources, and what was measured", "", f"**{counted(rows)}.**", ""]
    lines += [
        "Each claim is judged by the rule that its study declares: the study's page has the rule, every "
        "effect and the figures. The effect shown is the middle one of those measured (of those over all environments, "
        "where there are such), with its 95% interval. Run a study: `trimtab study run NAME`; this table: "
        "`trimtab study claims DIR`.",
        "",
        verdicts.RULE,
        "",
        "The smallest effects that matter were declared after these runs, from the sources' own numbers and by "
        "judgment; each study's page shows the verdict with half and with twice of it.",
        "",
        "These rules are stricter than those of earlier versions, whose results had been seen: half of the effects "
        "sufficed also where a claim names several sizes or values (P8, P12 to P15, H3, H5 to H7, H9, H10, H13, N7, "
        "N8), P3 asked for any lower variance, P5 for a spread with the noise of the estimates in it, D1 was held "
        "against 1/√L, N4 took the best of several counts. Intervals were widened with too few "
        "degrees of freedom (H4).",
        "",
        "| | claim | verdict | effect [95%] | would resolve it | study |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        link, claim = _link(row.study) + (f"<br>{row.judged.size}" if row.judged else ""), row.claim
        lines.append(f"| {claim.id} | {_text(claim.text)}<br>*{_text(claim.where)}* | {_short(row.verdict)} | {link} |")
    failing = [row.verdict for row in rows if row.verdict and row.verdict.differs]
    lines += ["", "## What was different where a claim does not hold", ""] if failing else []
    lines += [f"- **{v.id} {v.word}.** {v.sentence} {v.differs}" for v in failing]
    return "\n".join(lines) + "\n"


def _link(study: str) -> str:
    name = study.replace("/", "-")
    return f"[{study}]({name}.md)" if (RESULTS / f"{name}.md").exists() else study


def published() -> list[SourceResult]:
    """The answers of all studies whose pages are here."""
    files = [RESULTS / f"{kind.replace('/', '-')}.json" for kind in DECLARED]
    found = [json.loads(file.read_text()) for file in files if file.is_file()]
    return [SourceResult.from_dict(answer) for answer in found if answer.get("study") in DECLARED]


# Answers of `trimtab split` and `trimtab tune` ---------------------------------------------------------------


def answers(places: list[Path]) -> list[Path]:
    """Directories of finished splits and tunings."""
    found = [f for place in places for f in (place, *sorted(place.glob("*"))) if (f / "result.json").is_file()]
    return [f for f in found if json.loads((f / "study.json").read_text())["kind"] in ("split", "tune")]


def answer_page(folder: Path) -> tuple[str, str]:
    """The page of one of them, and its name."""
    name, kind = folder.resolve().name, json.loads((folder / "study.json").read_text())["kind"]
    answer = json.loads((folder / "result.json").read_text())
    command = re.sub(r" --(quiet( true)?|(run-dir|store)[ =]\S+)", "", answer["command"])
    where, answer = machine(), answer | {"command": command}
    told = _split(answer) if kind == "split" else _tuning(answer)
    shown = [figure for figure in _figures(folder, name) if figure.stem in SHOWN[kind]]
    lines = [
        f"# `{command}`",
        "",
        f"On {where['processor']}, {where['cores']} cores. Numbers: [{name}.json]({name}.json).",
        "",
        f"**{answer['sentence']}**",
        "",
        *told,
        "",
        *(f"![{figure.stem.replace('_', ' ')}]({name}-{figure.stem}.svg)\n" for figure in shown),
    ]
    for unused in RESULTS.glob(f"{name}-*.svg"):
        if unused.stem.removeprefix(f"{name}-") not in SHOWN[kind]:
            unused.unlink()
    write_atomically(RESULTS / f"{name}.json", (json.dumps(answer, indent=1) + "\n").encode())
    return name, "\n".join(lines)


def _split(answer: dict[str, Any]) -> list[str]:
    """Every split with what was measured of it, then stage by stage."""
    result = SplitResult.from_dict(answer)
    power = split_columns.power(result.rows)
    flat = lambda cell: cell.strip().replace("\n", "<br>")
    lines = [
        "| N × T | verdict | " + " | ".join(_text(quantity(name).label) for name in split_columns.ALL) + " | seeds |"
    ]
    lines.append("|---" * (len(split_columns.ALL) + 3) + "|")
    for row in result.rows:
        cells = [_text(flat(split_columns.cell(row, name, power))) for name in split_columns.ALL]
        lines.append(f"| {row.label} | {row.verdict} | {' | '.join(cells)} | {row.seeds} |")
    lines += ["", f"Variance, its two terms and bias² in {raised(power)} gradient², at step {result.at:,}.", ""]
    lines += [f"- {stage.stage.capitalize()}, step {stage.step:,}: {stage.sentence}." for stage in result.stages]
    lines += [f"- {text}" for text in (result.stage_sentence, result.marginal) if text]
    return lines + [f"- Doubt: {doubt}." for doubt in result.doubts]


def _tuning(answer: dict[str, Any]) -> list[str]:
    """The comparison on new seeds, and what every sweep kept."""
    result = TuneResult.from_dict(answer)
    titles = ["configuration", "area under the learning curve", "last 100 episodes", "the doctor would act on"]
    lines = [
        f"On new seeds, {result.final_timesteps:,} steps a run:",
        "",
        f"| {' | '.join(titles)} |",
        "|---|---|---|---|",
    ]
    for row in result.final:
        ends = ((row.area, row.lo, row.hi), (row.end.value, row.end.lo, row.end.hi))
        area, end = (f"{value:.4g} ({lo:.4g} to {hi:.4g})" for value, lo, hi in ends)
        lines.append(f"| {changed(row.changes)} | {area} | {end} | {row.act or 'nothing'} |")
    lines += [
        "",
        f"Sweeps, {result.total_timesteps:,} steps a run:",
        "",
        "| phase | field | from | kept |",
        "|---|---|---|---|",
    ]
    return lines + [f"| {s.phase} | {s.field} | {plain(s.before)} | {plain(s.kept)} |" for s in result.sweeps]


def main() -> None:
    places = [Path(word) for word in sys.argv[1:]] or [Path("runs")]
    for folder, made in [*((f, page_of) for f in studies(places)), *((f, answer_page) for f in answers(places))]:
        name, text = made(folder)
        write_atomically(RESULTS / f"{name}.md", text.encode())
        print(f"docs/results/{name}.md")
    write_atomically(RESULTS / "claims.md", claims(published()).encode())
    listed()


def listed() -> None:
    """The table of studies in README.md."""
    rows = [
        f"| [{a.study}]({a.study.replace('/', '-')}.md) | {DECLARED[a.study].summary} | {a.size} | "
        f"{verdicts.tally(a.verdicts)} |"
        for a in published()
    ]
    text = (RESULTS / "README.md").read_text()
    before, _, rest = text.partition(HEADER)
    after = rest[rest.index("## Speed and checks") :]
    table = "\n".join(rows)
    write_atomically(RESULTS / "README.md", f"{before}{HEADER}{table}\n\n{after}".encode())


if __name__ == "__main__":
    main()
