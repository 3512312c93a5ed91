"""The result of `trimtab tune`: in a terminal, as figures and as a page."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from trimtab.core.terminal import new_console, styled
from trimtab.core.wording import plain
from trimtab.show.numbers import number
from trimtab.studies.tune_result import Finalist, TriedValue, TuneResult, changed

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from trimtab.training.records import Manifest

_KEPT, _TRIED = "kept", "tried"
_COMPARED = ("area", "last episodes", "the doctor would act on")  # of a configuration, on new seeds


def print_tuning(result: TuneResult) -> None:
    """A line for each sweep, the comparison on new seeds, the sentence."""
    from rich import box
    from rich.table import Table

    console = new_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("phase", "field", "area by value (kept: *)"):
        table.add_column(title)
    for sweep in result.sweeps:
        cells = [f"{plain(t.value)}: {_mean(t)}{'*' * (t.value == sweep.kept)}" for t in sweep.trials]
        table.add_row(sweep.phase, sweep.field, "   ".join(cells) or f"{plain(sweep.kept)} (nothing to try)")
    console.print(f"\n{result.env_id}, {result.algo}, {result.total_timesteps:,} steps per run\n")
    console.print(table)
    console.print(f"On new seeds, {result.final_timesteps:,} steps per run\n")
    final = Table("configuration", *_COMPARED, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in result.final:
        cells = [cell.replace("\n", " (") + ")" for cell in _measured(row)]
        bold = "bold" if row.changes == result.changes else None
        final.add_row(changed(row.changes), *cells, row.act or "nothing", style=bold)
    console.print(final)
    console.print(styled((result.sentence, "bold"), "\n"))
    for failure in result.failed:
        console.print(f"failed: {failure}", style="red")
    which = "" if result.better else " (the start's)"
    console.print(f"configuration: {result.config}{which}    page: {result.page}", soft_wrap=True)
    if not result.better:
        console.print(f"best of the trials: {result.config.with_name('found.yaml')}", soft_wrap=True)


def _measured(row: Finalist) -> list[str]:
    """Area and last episodes of a configuration, each with its interval on a second line."""
    ends = ((row.area, row.lo, row.hi), (row.end.value, row.end.lo, row.end.hi))
    return [f"{number(value)}\n{number(lo, 2)} to {number(hi, 2)}" for value, lo, hi in ends]


def _mean(tried: TriedValue) -> str:
    return "failed" if tried.mean_area is None else number(tried.mean_area)


def _sweeps_chart(result: TuneResult) -> alt.TopLevelMixin | None:
    """Area under the learning curve by value, a panel for each field; every dot is a seed."""
    import altair as alt
    import polars as pl

    from trimtab.show import style

    rows = [
        {
            "panel": sweep.field,
            "value": plain(tried.value),
            "area": area,
            "mean": tried.mean_area,
            "fate": _KEPT if tried.value == sweep.kept else _TRIED,
        }
        for sweep in result.sweeps
        if len(sweep.trials) > 1
        for tried in sweep.trials
        for area in tried.areas
    ]
    if not rows:
        return None
    x = alt.X("area:Q", title="area under the learning curve", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    axis = alt.Axis(domain=False, ticks=False, grid=True)
    y = alt.Y("value:N", title=None, sort=None, axis=axis)  # as they come: in order
    color = style.colored("fate", [_KEPT, _TRIED], [style.ORANGE, style.BLUE])
    base = alt.Chart().encode(y=y, color=color)
    dots = base.mark_point(filled=True, size=46, opacity=0.75).encode(x=x)
    ticks = base.mark_tick(thickness=2.5, size=16).encode(x="mean:Q")
    panels = list(dict.fromkeys(sweep.field for sweep in result.sweeps if any(r["panel"] == sweep.field for r in rows)))
    most = max(len(sweep.trials) for sweep in result.sweeps)
    chart = style.paneled(style.layered(dots, ticks, data=pl.DataFrame(rows)), panels, 2, 24 * most, y="independent")
    if len(panels) > 1:
        chart = chart.properties(usermeta={"columns": 2, "labels": 40})
    subtitle = "Every dot is a seed, the bar their mean. Each sweep starts from the values that earlier sweeps kept."
    title = "What each field does, in the order it was swept" if len(panels) > 1 else f"What {panels[0]} does"
    return style.themed(chart, title, subtitle)


def _figures(result: TuneResult, curves: pl.DataFrame) -> dict[str, alt.TopLevelMixin]:
    from trimtab.show import style
    from trimtab.show.blocks import present

    seeds = curves["seed"].n_unique()
    learning = style.learning_curves(
        curves,
        "The start and the best trial, on seeds that no sweep used",
        f"Mean over {seeds} seeds; bands from the lowest to the highest.",
        ["start", "best trial"],
    )
    return present(learning_curves=learning, sweeps=_sweeps_chart(result))


def write_page(result: TuneResult, curves: pl.DataFrame, manifest: Manifest) -> None:
    """page.html and figures/ in the directory of a tuning."""
    from trimtab.show import page_files, style

    with style.drawing():
        charts = _figures(result, curves)
    page_files.write_page(Path(result.run) / "page.html", _tune_page(result, charts, manifest), charts)


def _next(result: TuneResult) -> tuple[str, str]:
    """Train with what is better; where that is not decided, compare on more seeds, which keeps what was done."""
    if result.better:
        return f"trimtab train --config {quote(str(result.config))}", "Train with the tuned configuration."
    if result.gain.hi < 0 or all(sweep.kept == sweep.before for sweep in result.sweeps):
        return f"trimtab train {result.env_id}", "Nothing better was found: train with the start."
    seeds = 2 * len(result.final[0].areas)
    quoted = r"'(?:[^']|'\"'\"')*'|\S+"  # a word as a shell takes it
    command = re.sub(rf" --(final-seeds|run-dir|store)[ =]({quoted})", "", result.command)
    store = quote(str(Path(result.run) / "store"))
    why = "Inconclusive: compare on more new seeds; finished runs are reused."
    return f"{command} --final-seeds {seeds} --store {store}", why


def _tune_page(result: TuneResult, charts: dict[str, alt.TopLevelMixin], manifest: Manifest) -> str:
    """The page of `trimtab tune`: did it help, by how much, what was changed."""
    from trimtab.show.blocks import Block, Bullets, Decision, Folded, Heading, Next, Page, Table, drawn
    from trimtab.show.html_page import render
    from trimtab.show.origin import made_with

    rows = [[changed(row.changes), *_measured(row), row.act or "nothing"] for row in result.final]
    chosen = tuple(i for i, row in enumerate(result.final) if row.changes == result.changes)
    caption = (
        f"Runs of {result.final_timesteps:,} steps: area under the learning curve and mean return of the last "
        "100 episodes, means over new seeds. Small: 95% intervals. Marked: the best finalist."
    )
    steps = [
        f"{s.phase}: {s.field} {plain(s.before)} {'is kept' if s.kept == s.before else f'→ {plain(s.kept)}'}"
        for s in result.sweeps
    ]
    worse = "Keep the start" if result.gain.hi < 0 else "No significant difference"
    answer = "Use the tuned configuration" if result.better else worse
    decision = Decision(answer, result.sentence, next=Next(*_next(result)))
    table = Table(["configuration", *_COMPARED], rows, chosen, words=(0, 3), caption=caption)
    evidence: list[Block] = [Heading("On new seeds"), table, *drawn(charts, "learning_curves")]
    evidence += [Heading("Sweep by sweep"), *drawn(charts, "sweeps")] if "sweeps" in charts else []
    details = [Folded("What each sweep kept", [Bullets(steps)])]
    details += [Folded("What failed", [Bullets(result.failed)])] if result.failed else []
    details += [made_with(manifest, result.command)]
    return render(Page(f"{result.env_id}: tuning {result.algo}", decision, evidence, details=details))
