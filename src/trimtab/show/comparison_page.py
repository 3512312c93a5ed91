"""Several runs side by side: the page of `trimtab compare`."""

from __future__ import annotations

from shlex import quote
from typing import Any

from trimtab.show import curves
from trimtab.show.blocks import Block, Contents, Decision, Figure, Folded, Heading, Next, Note, Paragraph, Table
from trimtab.show.findings import to_do
from trimtab.show.html_page import page
from trimtab.show.numbers import number

TOLD = ("act", "watch")
RANK = ("act", "watch", "unknown", "note", "fine", "solved")


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Every figure of a comparison by name."""
    charts = {"learning_curves": curves.overlaid(runs), "updates": curves.updates(runs), "metrics": curves.others(runs)}
    return {name: chart for name, chart in charts.items() if chart is not None}


def compare_page(runs: list[dict[str, Any]]) -> str:
    """Runs as dictionaries: name, config, metrics (rows), findings (dictionaries), summary."""
    charts, differing = _figures(runs), _differences(runs)
    show = lambda name: [Figure(charts[name])] if name in charts else []
    blocks: list[Block] = [_answer(runs, differing), Contents(), Heading("Every run"), _runs(runs)]
    blocks += [*show("learning_curves"), *_doubts(runs, differing)]
    blocks += [Heading("What differs"), _differing(runs, differing)] if differing else []
    blocks += show("updates")
    blocks += _findings(runs)
    blocks += [Folded("Other metrics", show("metrics"))] if "metrics" in charts else []
    blocks += _next(runs, differing)
    environments = " and ".join(dict.fromkeys(run["config"]["env_id"] for run in runs))
    return page(f"{len(runs)} runs on {environments}", blocks)


def _differences(runs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Fields that are not the same in all runs, and their values by run."""
    names = dict.fromkeys(name for run in runs for name in run["config"])
    values = {name: [run["config"].get(name) for run in runs] for name in names}
    return {name: each for name, each in values.items() if any(value != each[0] for value in each)}


def _return(run: dict[str, Any]) -> float | None:
    return run["summary"].get("ep_rew_mean")


def _best(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    candidates = [run for run in runs if _return(run) is not None]
    return max(candidates, key=_return) if candidates else None


def _answer(runs: list[dict[str, Any]], differing: dict[str, list[Any]]) -> Decision:
    best = _best(runs)
    fields = [name for name in differing if name != "seed"]
    named = ", ".join(fields) if len(fields) <= 4 else f"{len(fields)} fields"
    differ = f"They differ in {named}." if fields else "They differ in nothing but the seed."
    differ = differ if differing else "They have the same configuration."
    if best is None:
        return Decision(f"No run has finished an episode yet. {differ}")
    others = [number(_return(run)) for run in runs if run is not best and _return(run) is not None]
    if others and all(other == number(_return(best)) for other in others):
        return Decision(f"All end at {number(_return(best))}. {differ}")
    rest = f", the others at {' and '.join(others)}" if others else ""
    return Decision(f"{best['name']} ends highest, at {number(_return(best))}{rest}. {differ}")


def _doubts(runs: list[dict[str, Any]], differing: dict[str, list[Any]]) -> list[Block]:
    """One run for each configuration decides nothing; other lengths are compared at their own ends."""
    doubts = []
    if any(name != "seed" for name in differing):
        doubts.append(
            "One run for each configuration: which is better is not decided by this: seeds alone may differ as much."
        )
    lengths = {run["summary"].get("total_timesteps") for run in runs}
    if len(lengths) > 1:
        doubts.append("The runs are not equally long: returns are those of their own last episodes.")
    if len({run["config"]["env_id"] for run in runs}) > 1:
        doubts.append("The environments differ, so their returns cannot be compared.")
    return [Note(doubt, "doubt") for doubt in doubts]


def _runs(runs: list[dict[str, Any]]) -> Table:
    best = _best(runs)
    rows = []
    for run in runs:
        mean, summary = _return(run), run["summary"]
        pressing = [f["check"] for f in run["findings"] if f["verdict"] == "act"]
        rows.append(
            [
                run["name"],
                "none" if mean is None else number(mean),
                f"{summary.get('total_timesteps', 0):,}",
                number(summary["area"]) if summary.get("area") is not None else "",
                number(summary["fps"]) if summary.get("fps") else "",
                ", ".join(pressing) or "nothing",
            ]
        )
    columns = ["run", "return, last 100 episodes", "steps", "area under the curve", "steps/s", "to act on"]
    highest = [i for i, run in enumerate(runs) if best and _return(run) == _return(best)]
    return Table(columns, rows, tuple(highest) if len(highest) == 1 else (), words=(0, 5))


def _differing(runs: list[dict[str, Any]], differing: dict[str, list[Any]]) -> Table:
    rows = [[name, *(str(value) for value in values)] for name, values in differing.items()]
    return Table(["field", *(run["name"] for run in runs)], rows)


def _next(runs: list[dict[str, Any]], differing: dict[str, list[Any]]) -> list[Block]:
    """More seeds where configurations are compared, for one run of each decides nothing; else the best, looked at."""
    best = _best(runs)
    if best is None:
        return []
    path, config = (quote(f"{best.get('path', best['name'])}{end}") for end in ("", "/config.yaml"))
    if any(name != "seed" for name in differing):
        why = f"More seeds of {best['name']}, which ends highest; the same for the others, and it can be decided."
        return [Next(f"trimtab train --config {config} --seeds 5", why)]
    if any(finding["verdict"] == "solved" for finding in best["findings"]):
        return [Next(f"trimtab eval {path}", "What it returns with exploration off.")]
    return [Next(f"trimtab doctor {path}", "What to try next.")]


def _findings(runs: list[dict[str, Any]]) -> list[Block]:
    """Rules that some run has to act on or to watch, with what to do; the others folded."""
    open_ = [
        c
        for c in _checks(runs)
        if any(f["verdict"] in TOLD for run in runs for f in run["findings"] if f["check"] == c)
    ]
    rest = [check for check in _checks(runs) if check not in open_]
    blocks: list[Block] = []
    if open_:
        blocks += [Heading("Findings side by side"), _side_by_side(runs, open_)]
        blocks += [Folded("What the findings advise", [_advice(runs)])]
    return blocks + ([Folded("Nothing to do about", [_side_by_side(runs, rest)], f"{len(rest)} rules")] if rest else [])


def _checks(runs: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(finding["check"] for run in runs for finding in run["findings"]))


def _side_by_side(runs: list[dict[str, Any]], checks: list[str]) -> Table:
    """A row for each rule, the most pressing first; a badge and what was seen for each run."""
    by_run = [{f["check"]: f for f in run["findings"]} for run in runs]
    worst = lambda check: min(RANK.index(findings[check]["verdict"]) for findings in by_run if check in findings)
    rows = [
        [
            check,
            *(
                f"{findings[check]['verdict']}\n{findings[check]['seen']}" if check in findings else ""
                for findings in by_run
            ),
        ]
        for check in sorted(checks, key=worst)
    ]
    columns = ["rule", *(run["name"] for run in runs)]
    return Table(columns, rows, words=(0,), badges=tuple(range(1, len(columns))))


def _advice(runs: list[dict[str, Any]]) -> Block:
    rows = [
        [run["name"], finding["verdict"], finding["check"], to_do(finding)]
        for run in runs
        for finding in run["findings"]
        if finding["verdict"] in ("act", "watch") and to_do(finding)
    ]
    if not rows:
        return Paragraph("Nothing.")
    return Table(["run", "verdict", "rule", "what to do"], rows, words=(0, 2, 3), badges=(1,), stacked=True)
