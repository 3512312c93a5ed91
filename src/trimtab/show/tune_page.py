"""What `trimtab tune` found: in a terminal, as figures and as a page."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import Any

import polars as pl

from trimtab.core.terminal import new_console, styled
from trimtab.core.wording import plain
from trimtab.show.numbers import number

KEPT, TRIED = "kept", "tried"
COMPARED = ("area", "last episodes", "the doctor would act on")  # of a configuration, on new seeds


def print_tuning(result: dict[str, Any]) -> None:
    """A line for each sweep, the comparison on new seeds, the sentence."""
    from rich import box
    from rich.table import Table

    console = new_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("phase", "field", "area by value (kept: *)"):
        table.add_column(title)
    for sweep in result["sweeps"]:
        cells = [f"{plain(t['value'])}: {_mean(t)}{'*' * (t['value'] == sweep['kept'])}" for t in sweep["trials"]]
        table.add_row(sweep["phase"], sweep["field"], "   ".join(cells) or f"{plain(sweep['kept'])} (nothing to try)")
    console.print(f"\n{result['env_id']}, {result['algo']}, {result['total_timesteps']:,} steps a run\n")
    console.print(table)
    console.print(f"On new seeds, {result['final_timesteps']:,} steps a run\n")
    final = Table("configuration", *COMPARED, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in result["final"]:
        cells = [cell.replace("\n", " (") + ")" for cell in _measured(row)]
        bold = "bold" if row["changes"] == result["changes"] else None
        final.add_row(changed(row["changes"]), *cells, row["act"] or "nothing", style=bold)
    console.print(final)
    console.print(styled((result["sentence"], "bold"), "\n"))
    for failure in result.get("failed", ()):
        console.print(f"failed: {failure}", style="red")
    which = "" if result["better"] else " (the start's)"
    console.print(f"configuration: {result['config']}{which}    page: {result['page']}", soft_wrap=True)
    if not result["better"]:
        console.print(f"what was found: {Path(result['config']).with_name('found.yaml')}", soft_wrap=True)


def _measured(row: dict[str, Any]) -> list[str]:
    """Area and last episodes of a configuration, each with its interval on a second line."""
    end = row["end"]
    return [
        f"{number(value)}\n{number(lo, 2)} to {number(hi, 2)}"
        for value, lo, hi in ((row["area"], row["lo"], row["hi"]), (end["value"], end["lo"], end["hi"]))
    ]


def _mean(trial: dict[str, Any]) -> str:
    return number(sum(trial["areas"]) / len(trial["areas"])) if trial["areas"] else "failed"


def changed(changes: dict[str, Any]) -> str:
    return ", ".join(f"{name} {plain(value)}" for name, value in changes.items()) or "the start"


def _sweeps_chart(result: dict[str, Any]):
    """Area under the learning curve by value, a panel for each field; every dot is a seed."""
    import altair as alt

    from trimtab.show import style

    rows = [
        {
            "panel": sweep["field"],
            "value": plain(trial["value"]),
            "area": area,
            "mean": sum(trial["areas"]) / len(trial["areas"]),
            "fate": KEPT if trial["value"] == sweep["kept"] else TRIED,
        }
        for sweep in result["sweeps"]
        if len(sweep["trials"]) > 1
        for trial in sweep["trials"]
        for area in trial["areas"]
    ]
    if not rows:
        return None
    x = alt.X("area:Q", title="area under the learning curve", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    axis = alt.Axis(domain=False, ticks=False, grid=True)
    y = alt.Y("value:N", title=None, sort=None, axis=axis)  # as they come: in order
    color = style.colored("fate", [KEPT, TRIED], [style.ORANGE, style.BLUE])
    base = alt.Chart().encode(y=y, color=color)
    dots = base.mark_point(filled=True, size=46, opacity=0.75).encode(x=x)
    ticks = base.mark_tick(thickness=2.5, size=16).encode(x="mean:Q")
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    most = max(len(sweep["trials"]) for sweep in result["sweeps"])
    chart = style.paneled(alt.layer(dots, ticks, data=pl.DataFrame(rows)), panels, 2, 24 * most, y="independent")
    if len(panels) > 1:
        chart = chart.properties(usermeta={"columns": 2, "labels": 40})
    subtitle = "Every dot is a seed, the bar their mean; each sweep starts from what the ones before it kept."
    title = "What each field does, in the order it was swept" if len(panels) > 1 else f"What {panels[0]} does"
    return style.themed(chart, title, subtitle)


def _figures(result: dict[str, Any], curves: pl.DataFrame) -> dict[str, Any]:
    from trimtab.show import style

    seeds = curves["seed"].n_unique()
    learning = style.learning_curves(
        curves,
        "The start and what was found, on seeds that no sweep has seen",
        f"Mean over {seeds} seeds; bands from the lowest to the highest.",
        ["start", "found"],
    )
    charts = {"learning_curves": learning, "sweeps": _sweeps_chart(result)}
    return {name: chart for name, chart in charts.items() if chart is not None}


def write_page(result: dict[str, Any], curves: pl.DataFrame, manifest: dict[str, Any], out: Path) -> None:
    """page.html and figures/ in the directory of a tuning."""
    from trimtab.show import page_files, style

    with style.drawing():
        charts = _figures(result, curves)
    page_files.write_page(out / "page.html", _tune_page(result, charts, manifest), charts)


def _next(result: dict[str, Any]) -> tuple[str, str]:
    """Train with what is better; where that is not decided, compare on more seeds, which keeps what was done."""
    if result["better"]:
        return f"trimtab train --config {quote(result['config'])}", "Train with what was found."
    if result["gain"]["hi"] < 0 or all(sweep["kept"] == sweep["before"] for sweep in result["sweeps"]):
        return f"trimtab train {result['env_id']}", "Nothing better was found: train with the start."
    seeds = 2 * len(result["final"][0]["areas"])
    quoted = r"'(?:[^']|'\"'\"')*'|\S+"  # a word as a shell takes it
    command = re.sub(rf" --(final-seeds|run-dir|store)[ =]({quoted})", "", result["command"])
    store = quote(str(Path(result["config"]).parent / "store"))
    why = "Not decided: compare on more new seeds; what was done is kept."
    return f"{command} --final-seeds {seeds} --store {store}", why


def _tune_page(result: dict[str, Any], charts: dict[str, Any], manifest: dict[str, Any]) -> str:
    """The page of `trimtab tune`: did it help, by how much, what was changed."""
    from trimtab.show.blocks import Block, Bullets, Contents, Decision, Figure, Folded, Heading, Next, Table
    from trimtab.show.html_page import page
    from trimtab.show.origin import made_with
    from trimtab.training.records import Manifest

    rows = [[changed(row["changes"]), *_measured(row), row["act"] or "nothing"] for row in result["final"]]
    chosen = [i for i, row in enumerate(result["final"]) if row["changes"] == result["changes"]]
    caption = (
        f"Runs of {result['final_timesteps']:,} steps: area under the learning curve and mean return of the last "
        "100 episodes, means over new seeds. Small: 95% intervals. Marked: the best but the start."
    )
    steps = [
        f"{s['phase']}: {s['field']} {plain(s['before'])}"
        + (f" → {plain(s['kept'])}" if s["kept"] != s["before"] else " stays")
        for s in result["sweeps"]
    ]
    headline, _, rest = result["sentence"].partition(": ")
    sweeps: list[Block] = [Heading("Sweep by sweep"), Figure(charts["sweeps"])] if "sweeps" in charts else []
    failed: list[Block] = [Folded("What failed", [Bullets(result["failed"])])] if result.get("failed") else []
    blocks: list[Block] = [
        Decision(headline.split(",")[0], f"{rest[:1].upper()}{rest[1:]}"),
        Contents(),
        Heading("On new seeds"),
        Table(["with", *COMPARED], rows, tuple(chosen), words=(0, 3), caption=caption),
        Figure(charts["learning_curves"]),
        *sweeps,
        Folded("What each sweep kept", [Bullets(steps)]),
        *failed,
        made_with(Manifest.read(manifest)[0], result["command"]),
        Next(*_next(result)),
    ]
    return page(f"{result['env_id']}: tuning {result['algo']}", blocks)
