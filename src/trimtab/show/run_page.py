"""Pages of one run: `trimtab show --page` and `trimtab doctor --page`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.advise.cheatsheet import Symptom
from trimtab.advise.run_summary import RunView
from trimtab.config import Config
from trimtab.core.finding import Finding
from trimtab.core.wording import plain
from trimtab.show import curves
from trimtab.show.blocks import Block, Columns, Contents, Decision, Figure, Folded, Heading, Next, Paragraph, Table
from trimtab.show.findings import COLUMNS, findings_rows
from trimtab.show.html_page import page
from trimtab.show.numbers import number
from trimtab.show.origin import made_with
from trimtab.show.staircase import staircase_note

TOLD = ("act", "watch", "unknown")  # that it is solved, the answer has said
QUIET = ("note", "fine")


def figures(run: RunView) -> dict[str, curves.Chart]:
    """Every figure of a run by name."""
    charts = {"returns": curves.returns(run), "updates": curves.updates([run]), "metrics": curves.others([run])}
    return {name: chart for name, chart in charts.items() if chart is not None}


def run_page(run: RunView) -> str:
    """The page of `trimtab show`."""
    charts = figures(run)
    show = lambda name, note="": [Figure(charts[name], note)] if name in charts else []
    blocks: list[Block] = [_answer(run), Contents(), Columns(_numbers(run)), Heading("Learning")]
    blocks += [*show("returns", _staircase(run)), *show("updates")]
    blocks += [*_told(run, "What the doctor says"), *_quiet(run)]
    blocks += [Folded("Other metrics", show("metrics"))] if "metrics" in charts else []
    blocks += _evaluations(run) + _configuration(run)
    return page(_title(run), [*blocks, _next(run)])


def doctor_page(run: RunView, symptoms: Sequence[Symptom]) -> str:
    """The page of `trimtab doctor`."""
    charts = figures(run)
    show = lambda name, note="": [Figure(charts[name], note)] if name in charts else []
    blocks: list[Block] = [_diagnosis(run), Contents(), *_told(run, "Findings"), Heading("Learning")]
    blocks += [*show("returns", _staircase(run)), *show("updates"), *_quiet(run)]
    blocks += [Folded("Cheat sheet", [_cheatsheet_table(symptoms)], "symptom, where to look, what to try")]
    return page(f"{_title(run)}: what its records say", [*blocks, *_configuration(run), _next(run)])


def cheatsheet_page(symptoms: Sequence[Symptom]) -> str:
    """The page of `trimtab doctor --cheatsheet`."""
    sentence = "Find the symptom, look where it says, try one thing at a time."
    return page(
        "Triage", [Decision(sentence), _cheatsheet_table(symptoms), Next("trimtab doctor RUN", "Let it look for you.")]
    )


def _cheatsheet_table(symptoms: Sequence[Symptom]) -> Table:
    listed = lambda items: "\n".join(f"• {item}" for item in items)
    rows = [[s.name, listed(s.look), listed(s.tries), ", ".join(s.checks)] for s in symptoms]
    columns = ["symptom", "look at", "try, in this order", "the doctor's rule"]
    return Table(columns, rows, words=(0, 1, 2, 3), stacked=True)


def _findings_table(findings: Sequence[Finding], verdicts: tuple[str, ...]) -> Block:
    rows = findings_rows([f for f in findings if f.verdict in verdicts])
    if not rows:
        return Paragraph("Nothing.")
    marked = tuple(i for i, row in enumerate(rows) if row[0] == "act")
    return Table(COLUMNS, rows, marked, words=(0, 1, 2, 3), badges=(0,), stacked=True)


# Parts -----------------------------------------------------------------------------------------------------


def _title(run: RunView) -> str:
    return f"{run.config.algo} on {run.config.env_id}, seed {run.config.seed} ({run.name})"


def _answer(run: RunView) -> Decision:
    mean = run.mean_return
    headline = "no episode yet" if mean is None else number(mean)
    sentence = "Solved. Nothing to act on." if run.is_solved else run.diagnosis.sentence
    return Decision(headline, sentence, "" if mean is None else "mean return of the last 100 episodes")


def _diagnosis(run: RunView) -> Decision:
    """Solved, what to act on, or what is worth a try, large."""
    goal = next((f for f in run.diagnosis.findings if f.verdict == "solved"), None)
    if goal is not None:
        return Decision("Solved", f"{goal.seen[:1].upper()}{goal.seen[1:]}.", "nothing to act on")
    for verdict, headline in (("act", "To act on"), ("watch", "Worth a try")):
        findings = [f for f in run.diagnosis.findings if f.verdict == verdict]
        if findings:
            tried = ", ".join(f"{name}: {plain(value)}" for name, value in findings[0].change.items())
            text = f"Begin with {findings[0].check}" + (f": try {tried}." if tried else ".") + " One thing at a time."
            return Decision(headline, text, ", ".join(f.check for f in findings))
    return Decision(run.diagnosis.sentence)


def _told(run: RunView, title: str) -> list[Block]:
    """What there is to do; of a solved run nothing, and the answer has said so."""
    findings = run.diagnosis.findings
    if run.is_solved and not any(f.verdict in TOLD for f in findings):
        return []
    return [Heading(title), _findings_table(findings, TOLD)]


def _quiet(run: RunView) -> list[Block]:
    count = sum(f.verdict in QUIET for f in run.diagnosis.findings)
    table = _findings_table(run.diagnosis.findings, QUIET)
    return [Folded("Nothing to do about", [table], f"{count} rules, and what each saw")] if count else []


def _next(run: RunView) -> Next:
    """The doctor's first suggestion; a solved run is to be looked at, any other to be measured."""
    if run.next:
        return Next(*run.next)
    first = next((f for f in run.diagnosis.findings if f.verdict in ("act", "watch")), None)
    if run.diagnosis.command:
        why = f"The same run with the first suggestion taken ({first.check})." if first else ""
        return Next(run.diagnosis.command, why)
    if not run.is_solved:
        return Next(f"trimtab probe {run.path} --page", "Measure what its gradient is made of.")
    if not run.evaluations:
        return Next(f"trimtab eval {run.path}", "What it returns with exploration off.")
    return Next(f"trimtab watch {run.path}", "See it play.")


def _numbers(run: RunView) -> list[tuple[str, str]]:
    config, steps = run.config, run.steps
    numbers = [
        (f"{steps:,}", "environment steps" if steps >= config.steps else f"of {config.steps:,} environment steps")
    ]
    numbers += [(f"{config.num_envs} × {config.num_steps}", f"= {config.batch:,} samples in a batch")]
    numbers += [(number(run.fps), "steps/s")] if run.fps else []
    if run.evaluations:
        last = run.evaluations[-1]
        spread = f"middle half {number(last.iqr_low)} to {number(last.iqr_high)}"
        numbers.append((number(last.mean_reward), f"last evaluation, {spread}"))
    if run.checkpoints:
        numbers.append((str(len(run.checkpoints)), f"checkpoints, the last at step {run.checkpoints[-1]:,}"))
    return numbers


def _staircase(run: RunView) -> str:
    return staircase_note(curves.frame_of([replace(run, name="")]), {"": run.config.num_envs})


def _evaluations(run: RunView) -> list[Block]:
    if not run.evaluations:
        return []
    numbers = lambda row: (row.mean_reward, row.median_reward, row.iqr_low, row.iqr_high)
    rows = [
        [f"{row.step:,}", *("" if value is None else number(value) for value in numbers(row))]
        for row in run.evaluations
    ]
    table = Table(["step", "mean", "median", "25%", "75%"], rows, words=())
    return [Folded("Evaluations", [table], "with exploration off")]


def _configuration(run: RunView) -> list[Block]:
    usual, values = Config().as_dict(), run.config.as_dict()
    marked = tuple(i for i, (name, value) in enumerate(values.items()) if value != usual[name])
    rows = [[name, str(value)] for name, value in values.items()]
    table = Table(["", ""], rows, marked, words=(0, 1), caption="Marked: not the default.")
    return [Folded("Configuration", [table]), *([made_with(run.manifest)] if run.manifest else [])]
