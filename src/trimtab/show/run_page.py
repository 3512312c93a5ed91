"""Pages of one run: `trimtab show --page` and `trimtab doctor --page`.

A run is a plain dictionary: name, config, metrics (rows), evaluations (rows), findings (dictionaries), sentence and
command of the doctor, summary, manifest, goal (what counts as solved, or None), checkpoints (steps); `next` is a
command and what it is for, where it is not the usual one.
"""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.core.wording import plain
from trimtab.show import curves
from trimtab.show.blocks import Block, Columns, Contents, Decision, Figure, Folded, Heading, Next, Paragraph, Table
from trimtab.show.findings import COLUMNS, findings_rows
from trimtab.show.html_page import page
from trimtab.show.numbers import number
from trimtab.show.split_page import made_with
from trimtab.show.staircase import staircase_note

TOLD = ("act", "watch", "unknown")  # that it is solved, the answer has said
QUIET = ("note", "fine")


def figures(run: dict[str, Any]) -> dict[str, Any]:
    """Every figure of a run by name."""
    charts = {"returns": curves.returns(run), "updates": curves.updates([run]), "metrics": curves.others([run])}
    return {name: chart for name, chart in charts.items() if chart is not None}


def run_page(run: dict[str, Any]) -> str:
    """The page of `trimtab show`."""
    charts = figures(run)
    show = lambda name, note="": [Figure(charts[name], note)] if name in charts else []
    blocks: list[Block] = [_answer(run), Contents(), Columns(_numbers(run)), Heading("Learning")]
    blocks += [*show("returns", _staircase(run)), *show("updates")]
    blocks += [*_told(run, "What the doctor says"), *_quiet(run)]
    blocks += [Folded("Other metrics", show("metrics"))] if "metrics" in charts else []
    blocks += _evaluations(run) + _configuration(run)
    return page(_title(run), [*blocks, _next(run)])


def doctor_page(run: dict[str, Any], symptoms: list[dict[str, Any]]) -> str:
    """The page of `trimtab doctor`."""
    charts = figures(run)
    show = lambda name, note="": [Figure(charts[name], note)] if name in charts else []
    blocks: list[Block] = [_diagnosis(run), Contents(), *_told(run, "Findings"), Heading("Learning")]
    blocks += [*show("returns", _staircase(run)), *show("updates"), *_quiet(run)]
    blocks += [Folded("Cheat sheet", [_cheatsheet_table(symptoms)], "symptom, where to look, what to try")]
    return page(f"{_title(run)}: what its records say", [*blocks, *_configuration(run), _next(run)])


def cheatsheet_page(symptoms: list[dict[str, Any]]) -> str:
    """The page of `trimtab doctor --cheatsheet`."""
    sentence = "Find the symptom, look where it says, try one thing at a time."
    return page(
        "Triage", [Decision(sentence), _cheatsheet_table(symptoms), Next("trimtab doctor RUN", "Let it look for you.")]
    )


def _cheatsheet_table(symptoms: list[dict[str, Any]]) -> Table:
    rows = [
        [s["name"], *("\n".join(f"• {item}" for item in s[k]) for k in ("look", "tries")), ", ".join(s["checks"])]
        for s in symptoms
    ]
    columns = ["symptom", "look at", "try, in this order", "the doctor's rule"]
    return Table(columns, rows, words=(0, 1, 2, 3), stacked=True)


def _findings_table(findings: list[dict[str, Any]], verdicts: tuple[str, ...]) -> Block:
    rows = findings_rows([f for f in findings if f["verdict"] in verdicts])
    if not rows:
        return Paragraph("Nothing.")
    marked = tuple(i for i, row in enumerate(rows) if row[0] == "act")
    return Table(COLUMNS, rows, marked, words=(0, 1, 2, 3), badges=(0,), stacked=True)


# Parts -----------------------------------------------------------------------------------------------------


def _title(run: dict[str, Any]) -> str:
    config = run["config"]
    return f"{config['algo']} on {config['env_id']}, seed {config['seed']} ({run['name']})"


def _solved(run: dict[str, Any]) -> bool:
    return any(finding["verdict"] == "solved" for finding in run["findings"])


def _answer(run: dict[str, Any]) -> Decision:
    mean = run["summary"].get("ep_rew_mean")
    headline = "no episode yet" if mean is None else number(mean)
    sentence = "Solved. Nothing to act on." if _solved(run) else run["sentence"]
    return Decision(headline, sentence, "" if mean is None else "mean return of the last 100 episodes")


def _diagnosis(run: dict[str, Any]) -> Decision:
    """Solved, what to act on, or what is worth a try, large."""
    goal = next((f for f in run["findings"] if f["verdict"] == "solved"), None)
    if goal is not None:
        return Decision("Solved", f"{goal['seen'][:1].upper()}{goal['seen'][1:]}.", "nothing to act on")
    for verdict, headline in (("act", "To act on"), ("watch", "Worth a try")):
        findings = [f for f in run["findings"] if f["verdict"] == verdict]
        if findings:
            tried = ", ".join(f"{name}: {plain(value)}" for name, value in findings[0]["change"].items())
            text = (
                f"Begin with {findings[0]['check']}" + (f": try {tried}." if tried else ".") + " One thing at a time."
            )
            return Decision(headline, text, ", ".join(f["check"] for f in findings))
    return Decision(run["sentence"])


def _told(run: dict[str, Any], title: str) -> list[Block]:
    """What there is to do; of a solved run nothing, and the answer has said so."""
    if _solved(run) and not any(f["verdict"] in TOLD for f in run["findings"]):
        return []
    return [Heading(title), _findings_table(run["findings"], TOLD)]


def _quiet(run: dict[str, Any]) -> list[Block]:
    count = sum(f["verdict"] in QUIET for f in run["findings"])
    table = _findings_table(run["findings"], QUIET)
    return [Folded("Nothing to do about", [table], f"{count} rules, and what each saw")] if count else []


def _next(run: dict[str, Any]) -> Next:
    """The doctor's first suggestion; a solved run is to be looked at, any other to be measured."""
    if run.get("next"):
        return Next(*run["next"])
    first = next((f for f in run["findings"] if f["verdict"] in ("act", "watch")), None)
    if run["command"]:
        return Next(
            run["command"], f"The same run with the first suggestion taken ({first['check']})." if first else ""
        )
    if not _solved(run):
        return Next(f"trimtab probe {run['path']} --page", "Measure what its gradient is made of.")
    if not run["evaluations"]:
        return Next(f"trimtab eval {run['path']}", "What it returns with exploration off.")
    return Next(f"trimtab watch {run['path']}", "See it play.")


def _numbers(run: dict[str, Any]) -> list[tuple[str, str]]:
    config, last = run["config"], run["metrics"][-1] if run["metrics"] else {}
    batch = config["num_envs"] * config["num_steps"]
    steps, total = last.get("time/total_timesteps", 0), config["total_timesteps"] // batch * batch
    numbers = [(f"{steps:,}", "environment steps" if steps >= total else f"of {total:,} environment steps")]
    numbers += [(f"{config['num_envs']} × {config['num_steps']}", f"= {batch:,} samples in a batch")]
    numbers += [(number(last["time/fps"]), "steps/s")] if last.get("time/fps") else []
    if run["evaluations"]:
        row = run["evaluations"][-1]
        spread = f"middle half {number(row['eval/iqr_low'])} to {number(row['eval/iqr_high'])}"
        numbers.append((number(row["eval/mean_reward"]), f"last evaluation, {spread}"))
    if run["checkpoints"]:
        numbers.append((str(len(run["checkpoints"])), f"checkpoints, the last at step {run['checkpoints'][-1]:,}"))
    return numbers


def _staircase(run: dict[str, Any]) -> str:
    frame = curves.frame_of([run | {"name": ""}])
    return staircase_note(frame, {"": run["config"]["num_envs"]})


def _evaluations(run: dict[str, Any]) -> list[Block]:
    if not run["evaluations"]:
        return []
    names = {"eval/mean_reward": "mean", "eval/median_reward": "median", "eval/iqr_low": "25%", "eval/iqr_high": "75%"}
    rows = [
        [f"{row['time/total_timesteps']:,}", *(number(row[k]) if k in row else "" for k in names)]
        for row in run["evaluations"]
    ]
    return [Folded("Evaluations", [Table(["step", *names.values()], rows, words=())], "with exploration off")]


def _configuration(run: dict[str, Any]) -> list[Block]:
    usual = Config().as_dict()
    rows = [[name, str(value)] for name, value in run["config"].items()]
    marked = tuple(i for i, (name, _) in enumerate(rows) if run["config"][name] != usual.get(name))
    table = Table(["", ""], rows, marked, words=(0, 1), caption="Marked: not the default.")
    origin = Table(["", ""], made_with(run["manifest"]), words=(0, 1))
    return [Folded("Configuration", [table]), Folded("How this was made", [origin])]
