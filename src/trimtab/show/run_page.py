"""Pages of one run: `trimtab show --page` and `trimtab doctor --page`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.advise.cheatsheet import Symptom
from trimtab.advise.run_summary import RunView
from trimtab.config import Config
from trimtab.core.finding import Finding
from trimtab.core.wording import as_sentence, plain
from trimtab.show import curves
from trimtab.show.blocks import Block, Columns, Decision, Folded, Heading, Next, Page, Paragraph, Table, drawn, present
from trimtab.show.findings import COLUMNS, findings_rows
from trimtab.show.html_page import render
from trimtab.show.numbers import number
from trimtab.show.origin import made_with
from trimtab.show.staircase import staircase_note

_TOLD = ("act", "watch", "unknown")  # that it is solved, the answer has said
_QUIET = ("note", "fine")


def figures(run: RunView) -> dict[str, curves.Chart]:
    """Every figure of a run by name."""
    return present(returns=curves.returns(run), updates=curves.updates([run]), metrics=curves.others([run]))


def run_page(run: RunView) -> str:
    """The page of `trimtab show`."""
    charts = figures(run)
    evidence = [Columns(_numbers(run)), Heading("Learning"), *_curves(run, charts), *_told(run, "What the doctor says")]
    others: list[Block] = [Folded("Other metrics", drawn(charts, "metrics"))] if "metrics" in charts else []
    details = [*_quiet(run), *others, *_evaluations(run), *_configuration(run)]
    return render(Page(_title(run), _answer(run), evidence, details=details))


def doctor_page(run: RunView, symptoms: Sequence[Symptom]) -> str:
    """The page of `trimtab doctor`."""
    evidence = [*_told(run, "Findings"), Heading("Learning"), *_curves(run, figures(run))]
    triage = Folded("Cheat sheet", [_cheatsheet_table(symptoms)], "symptom, where to look, what to try")
    details = [*_quiet(run), triage, *_configuration(run)]
    return render(Page(f"{_title(run)}: what its records say", _diagnosis(run), evidence, details=details))


def _curves(run: RunView, charts: dict[str, curves.Chart]) -> list[Block]:
    note = staircase_note(curves.frame_of([replace(run, name="")]), {"": run.config.num_envs})
    return [*drawn(charts, "returns", note), *drawn(charts, "updates")]


def cheatsheet_page(symptoms: Sequence[Symptom]) -> str:
    """The page of `trimtab doctor --cheatsheet`."""
    following = Next("trimtab doctor RUN", "Let the doctor check a run.")
    decision = Decision("Find the symptom, look where it says, try one thing at a time.", next=following)
    return render(Page("Triage", decision, [_cheatsheet_table(symptoms)]))


def _cheatsheet_table(symptoms: Sequence[Symptom]) -> Table:
    bullets = lambda items: "\n".join(f"• {item}" for item in items)
    rows = [[s.name, *map(bullets, (s.look, s.tries)), ", ".join(s.checks)] for s in symptoms]
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
    return Decision(headline, sentence, "" if mean is None else "mean return of the last 100 episodes", _next(run))


def _diagnosis(run: RunView) -> Decision:
    """Solved, what to act on, or what is worth a try, large."""
    goal = next((f for f in run.diagnosis.findings if f.verdict == "solved"), None)
    if goal is not None:
        return Decision("Solved", as_sentence(goal.seen), "nothing to act on", _next(run))
    for verdict, headline in (("act", "To act on"), ("watch", "Worth a try")):
        findings = [f for f in run.diagnosis.findings if f.verdict == verdict]
        if findings:
            tried = ", ".join(f"{name}: {plain(value)}" for name, value in findings[0].change.items())
            text = f"Begin with {findings[0].check}{f': try {tried}' if tried else ''}. Change one thing at a time."
            return Decision(headline, text, ", ".join(f.check for f in findings), _next(run))
    return Decision(run.diagnosis.sentence, next=_next(run))


def _told(run: RunView, title: str) -> list[Block]:
    """What there is to do; of a solved run nothing, and the answer has said so."""
    findings = run.diagnosis.findings
    if run.is_solved and not any(f.verdict in _TOLD for f in findings):
        return []
    return [Heading(title), _findings_table(findings, _TOLD)]


def _quiet(run: RunView) -> list[Block]:
    count = sum(f.verdict in _QUIET for f in run.diagnosis.findings)
    table = _findings_table(run.diagnosis.findings, _QUIET)
    return [Folded("No action needed", [table], f"{count} rules, and what each saw")] if count else []


def _next(run: RunView) -> Next:
    """The doctor's first suggestion; a solved run is to be looked at, any other to be measured."""
    if run.next:
        return Next(*run.next)
    first = next((f for f in run.diagnosis.findings if f.verdict in ("act", "watch")), None)
    if run.diagnosis.command:
        why = f"The same run with the first suggestion taken ({first.check})." if first else ""
        return Next(run.diagnosis.command, why)
    if not run.is_solved:
        return Next(f"trimtab probe {run.path} --page", "Measure its gradient.")
    if not run.evaluations:
        return Next(f"trimtab eval {run.path}", "Evaluate it with exploration off.")
    return Next(f"trimtab watch {run.path}", "Watch it play.")


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


def _evaluations(run: RunView) -> list[Block]:
    if not run.evaluations:
        return []
    rows = [
        [f"{e.step:,}", *("" if value is None else number(value) for value in numbers)]
        for e in run.evaluations
        for numbers in [(e.mean_reward, e.median_reward, e.iqr_low, e.iqr_high)]
    ]
    table = Table(["step", "mean", "median", "25%", "75%"], rows, words=())
    return [Folded("Evaluations", [table], "with exploration off")]


def _configuration(run: RunView) -> list[Block]:
    usual, values = Config().as_dict(), run.config.as_dict()
    marked = tuple(i for i, (name, value) in enumerate(values.items()) if value != usual[name])
    rows = [[name, str(value)] for name, value in values.items()]
    table = Table(["", ""], rows, marked, words=(0, 1), caption="Marked: not the default.")
    return [Folded("Configuration", [table]), *([made_with(run.manifest)] if run.manifest else [])]
