"""Several runs side by side: the page of `trimtab compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from trimtab.advise.comparison import Comparison
from trimtab.advise.run_summary import RunView
from trimtab.core.wording import as_sentence
from trimtab.show import curves
from trimtab.show.blocks import Block, Decision, Folded, Heading, Next, Page, Paragraph, Table, drawn, present
from trimtab.show.findings import to_do
from trimtab.show.html_page import render
from trimtab.show.numbers import number

TOLD = ("act", "watch")
RANK = ("act", "watch", "unknown", "note", "fine", "solved")


def _figures(runs: Sequence[RunView]) -> dict[str, curves.Chart]:
    """Every figure of a comparison by name."""
    return present(learning_curves=curves.overlaid(runs), updates=curves.updates(runs), metrics=curves.others(runs))


def compare_page(runs: Sequence[RunView]) -> str:
    """The page of `trimtab compare`."""
    charts, differing = _figures(runs), _differences(runs)
    evidence: list[Block] = [Heading("Every run"), _runs(runs), *drawn(charts, "learning_curves")]
    evidence += [Heading("What differs"), _differing(runs, differing)] if differing else []
    evidence += [*drawn(charts, "updates"), *_findings(runs)]
    details = [Folded("Other metrics", drawn(charts, "metrics"))] if "metrics" in charts else []
    environments = " and ".join(dict.fromkeys(run.config.env_id for run in runs))
    decision = replace(_answer(runs, differing), next=_next(runs, differing))
    return render(Page(f"{len(runs)} runs on {environments}", decision, evidence, _doubts(runs, differing), details))


def _differences(runs: Sequence[RunView]) -> dict[str, list[Any]]:
    """Fields that are not the same in all runs, and their values by run."""
    return Comparison(list(runs)).differing


def _best(runs: Sequence[RunView]) -> RunView | None:
    ends = [(run.mean_return, -k) for k, run in enumerate(runs) if run.mean_return is not None]
    return runs[-max(ends)[1]] if ends else None


def _answer(runs: Sequence[RunView], differing: dict[str, list[Any]]) -> Decision:
    best = _best(runs)
    fields = [name for name in differing if name != "seed"]
    named = ", ".join(fields) if len(fields) <= 4 else f"{len(fields)} fields"
    differ = f"They differ in {named}." if fields else "They differ in nothing but the seed."
    differ = differ if differing else "They have the same configuration."
    if best is None:
        return Decision("No run has finished an episode yet", differ)
    ends = {id(run): number(run.mean_return) for run in runs if run.mean_return is not None}
    highest = ends.pop(id(best))
    others = list(ends.values())
    if others and set(others) == {highest}:
        return Decision(f"All end at {highest}", differ)
    rest = f"The others end at {' and '.join(others)}" if others else ""
    return Decision(f"{best.name} ends highest, at {highest}", f"{as_sentence(rest)} {differ}".strip())


def _doubts(runs: Sequence[RunView], differing: dict[str, list[Any]]) -> list[str]:
    """One run for each configuration decides nothing; other lengths are compared at their own ends."""
    doubts = []
    if any(name != "seed" for name in differing):
        doubts.append("There is one run per configuration; seeds alone may differ as much, so no configuration wins.")
    lengths = {run.steps for run in runs}
    if len(lengths) > 1:
        doubts.append("The runs differ in length: each return is that of the run's own last episodes.")
    if len({run.config.env_id for run in runs}) > 1:
        doubts.append("The environments differ, so their returns cannot be compared.")
    return doubts


def _runs(runs: Sequence[RunView]) -> Table:
    best = _best(runs)
    rows = []
    for run in runs:
        mean, area, fps = run.mean_return, run.area, run.fps
        pressing = ", ".join(f.check for f in run.diagnosis.findings if f.verdict == "act") or "nothing"
        ends = ["none" if mean is None else number(mean), f"{run.steps:,}", "" if area is None else number(area)]
        rows.append([run.name, *ends, number(fps) if fps else "", pressing])
    columns = ["run", "return, last 100 episodes", "steps", "area under the curve", "steps/s", "to act on"]
    highest = [i for i, run in enumerate(runs) if best and run.mean_return == best.mean_return]
    return Table(columns, rows, tuple(highest) if len(highest) == 1 else (), words=(0, 5))


def _differing(runs: Sequence[RunView], differing: dict[str, list[Any]]) -> Table:
    rows = [[name, *(str(value) for value in values)] for name, values in differing.items()]
    return Table(["field", *(run.name for run in runs)], rows)


def _next(runs: Sequence[RunView], differing: dict[str, list[Any]]) -> Next | None:
    """More seeds where configurations are compared, for one run of each decides nothing; else the best, looked at."""
    best = _best(runs)
    if best is None:
        return None
    path, config = (quote(f"{best.path}{end}") for end in ("", "/config.yaml"))
    if any(name != "seed" for name in differing):
        why = f"Train more seeds of {best.name}, which ends highest, and of the others, to see which is better."
        return Next(f"trimtab train --config {config} --seeds 5", why)
    if best.is_solved:
        return Next(f"trimtab eval {path}", "Evaluate it with exploration off.")
    return Next(f"trimtab doctor {path}", "See what to try next.")


def _findings(runs: Sequence[RunView]) -> list[Block]:
    """Rules that some run has to act on or to watch, with what to do; the others folded."""
    every = [finding for run in runs for finding in run.diagnosis.findings]
    checks = list(dict.fromkeys(finding.check for finding in every))
    open_ = [check for check in checks if any(f.check == check and f.verdict in TOLD for f in every)]
    rest = [check for check in checks if check not in open_]
    blocks: list[Block] = []
    if open_:
        blocks += [Heading("Findings side by side"), _side_by_side(runs, open_)]
        blocks += [Folded("What the findings advise", [_advice(runs)])]
    return blocks + ([Folded("No action needed", [_side_by_side(runs, rest)], f"{len(rest)} rules")] if rest else [])


def _side_by_side(runs: Sequence[RunView], checks: list[str]) -> Table:
    """A row for each rule, the most pressing first; a badge and what was seen for each run."""
    by_run = [{f.check: f for f in run.diagnosis.findings} for run in runs]
    worst = {check: min(RANK.index(found[check].verdict) for found in by_run if check in found) for check in checks}
    rows = [
        [check, *(f"{f.verdict}\n{f.seen}" if (f := found.get(check)) else "" for found in by_run)]
        for check in sorted(checks, key=worst.__getitem__)
    ]
    columns = ["rule", *(run.name for run in runs)]
    return Table(columns, rows, words=(0,), badges=tuple(range(1, len(columns))))


def _advice(runs: Sequence[RunView]) -> Block:
    rows = [
        [run.name, finding.verdict, finding.check, to_do(finding)]
        for run in runs
        for finding in run.diagnosis.findings
        if finding.verdict in TOLD and to_do(finding)
    ]
    if not rows:
        return Paragraph("Nothing.")
    return Table(["run", "verdict", "rule", "what to do"], rows, words=(0, 2, 3), badges=(1,), stacked=True)
