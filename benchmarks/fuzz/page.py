"""docs/results/robustness.md, from what the invocations counted and the defects that they found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.fuzz.defects import DEFECTS
from benchmarks.fuzz.ledger import HASH, RECORD

INTRODUCTION = """# Robustness

`make fuzz` (minutes) and `make soak` (hours) try to break trimtab. Every invocation adds its counts to this page, so
the counts cover several commits. A case follows from a seed and its number:
`python -m benchmarks.fuzz TOOL --seed K --first N --count 1 --no-record` repeats it.

An *open problem* is a case that gives a traceback, a lost or duplicated record, or an answer that undamaged data would
not give. `python -m benchmarks.fuzz TOOL --settle` repeats such cases and drops those that are fixed.

What the comparison cannot see: a digit changed in a line of text (`metrics.jsonl`, `config.yaml`, CSV) is an edit, and
trimtab reads it as it stands. Tables, buffers, checkpoints, outcomes of jobs and cached programs carry checksums: there
every change must be found.
"""
TITLES = {
    "files": "Damaged files of every type, read in one process",
    "commands": "Commands started on damaged files",
    "kills": "Training killed with SIGKILL, resumed, and compared with an undisturbed run",
    "killed-studies": "The process of a study with local workers killed and started again",
    "configurations": "Random configurations, trained for three iterations in one process",
    "configurations-by-command": "Random configurations by `trimtab train --config`",
    "disks": "Full, read-only and slow disks, and clocks that jump",
    "shared-store": "Two studies with ten workers on one store of 200 jobs",
    "many-jobs": "A study of 5,000 trivial jobs",
    "ray-nodes": "Nodes of a Ray cluster killed and started again",
    "memory": "Memory of a run of a million iterations of two samples",
    "view": "`trimtab view` over 5,000 runs",
}
GOALS = {
    "files": ("damaged files", 100_000),
    "commands": ("commands on damaged files", 1_000),
    "kills": ("kills", 1_000),
    "configurations": ("configurations", 10_000),
    "ray-nodes": ("node kills", 50),
    "memory": ("iterations of one run", 1_000_000),
}


def write(record: Path = RECORD) -> Path:
    """Write the page beside the record; returns its path."""
    tools = json.loads(record.read_text())["tools"]
    parts = [INTRODUCTION, _overview(tools), *(_section(name, tools[name]) for name in TITLES if name in tools)]
    missing = [TITLES[name] for name in TITLES if name not in tools]
    if missing:
        parts.append("## Not run yet\n\n" + "\n".join(f"- {title}" for title in missing) + "\n")
    rows = "\n".join(f"| {what} | {fix} | `{test}` |" for what, fix, test in DEFECTS)
    parts.append(f"## Defects found, and their tests\n\n| defect | fix | test |\n|---|---|---|\n{rows}\n")
    page = record.with_suffix(".md")
    page.write_text("\n".join(parts))
    return page


def _overview(tools: dict[str, Any]) -> str:
    rows = []
    for name, (count, goal) in GOALS.items():
        entry = tools.get(name, {"counts": {}, "problems": []})
        rows.append(
            f"| {TITLES[name]} | {entry['counts'].get(count, 0):,} {count} | {goal:,} | {len(entry['problems'])} |"
        )
    return "| | so far | goal | open problems |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _section(name: str, entry: dict[str, Any]) -> str:
    counts = ", ".join(f"{value:,} {what}" for what, value in sorted(entry["counts"].items()) if what[:3] != "of ")
    types = ", ".join(f"{what[3:]} {value:,}" for what, value in sorted(entry["counts"].items()) if what[:3] == "of ")
    lines = [f"## {TITLES[name]}", "", f"{counts}."]
    if types:
        lines += ["", f"By type of file: {types}."]
    for what, members in entry["members"].items():
        lines += ["", f"Different {what}: {len(members) // HASH:,}."]
    lines += [f"- {what}: {value}" for what, value in entry["measures"].items()]
    lines += ["", "| date | commit | seeds | time | machine |", "|---|---|---|---|---|"]
    for made in entry["invocations"]:
        machine, seeds = made["machine"], made["seeds"]
        cores = f"{machine['processor']}, {machine['cores']} cores"
        span = f"{seeds[0]}" if seeds[0] == seeds[1] else f"{seeds[0]} to {seeds[1]}"
        lines.append(f"| {made['date']} | {made['commit']} | {span} | {made['seconds']:,.0f} s | {cores} |")
    lines += [f"- open, at commit {p['commit']}, case {p['case']}: {_shown(p['what'])}" for p in entry["problems"]]
    return "\n".join(lines) + "\n"


def _shown(text: str) -> str:
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "/")[:200] + "`"
