"""The page of `trimtab split`: the answer, the table, the two figures that matter, the doubts; the rest folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from trimtab.config import Config
from trimtab.core.quantities import labels, quantity
from trimtab.core.wording import steps
from trimtab.show import flow_diagram, probe_figures, split_figures
from trimtab.show import split_columns as columns
from trimtab.show.blocks import (
    Block,
    Bullets,
    Columns,
    Contents,
    Decision,
    Folded,
    Heading,
    Next,
    Note,
    Paragraph,
    Slider,
    Svg,
    Table,
    drawn,
)
from trimtab.show.html_page import page
from trimtab.show.next_step import train_command
from trimtab.show.numbers import estimate, raised
from trimtab.show.origin import changed_fields, made_with
from trimtab.show.probe_page import by_checkpoint
from trimtab.show.staircase import staircase_note
from trimtab.studies.split_result import Eliminated, SplitResult
from trimtab.training.records import Manifest

Charts = dict[str, alt.TopLevelMixin]


@dataclass(frozen=True)
class SplitReport:
    """What the page shows: the answer, and the run and the tables it comes from."""

    result: SplitResult
    config: Config
    """Of the run that was probed."""
    manifest: Manifest
    measurements: pl.DataFrame
    """The table of all probes."""
    curves: pl.DataFrame
    """Learning curves: series, seed, step, return."""


def figures(report: SplitReport) -> Charts:
    """Every figure of a split by name, for saving."""
    return split_figures.figures(report.result, report.curves) | probe_figures.of_frame(report.measurements)


def split_page(report: SplitReport, charts: Charts) -> str:
    """The page of `trimtab split`, with its figures."""
    result = report.result
    blocks: list[Block] = [
        Decision(_times(result.recommended), _times(result.sentence), "environments × steps"),
        Contents(),
    ]
    blocks += [Heading("Every split"), _key_table(result), *_why(result)]
    blocks += [
        Heading("Error and learning"),
        *drawn(charts, "split_error"),
        *drawn(charts, "learning_curves", _staircase(report)),
    ]
    blocks += [*_doubts(result), *_stages(result, drawn(charts, "split_stages"))]
    blocks += [Folded("Speed", drawn(charts, "speed"), _fastest(result))] if "speed" in charts else []
    if result.predicted:
        inner = [*drawn(charts, "predicted"), _predicted_table(result)]
        blocks.append(Folded("Splits that were not measured", inner, "their predicted variance"))
    blocks += [*_anatomy(report), *_flow(report), _horizons(result), _made(report), _next(report)]
    return page(f"{result.env_id}, {result.algo}: how to split a batch of {result.batch:,}", blocks)


def _times(text: str) -> str:
    """4x256 as 4 × 256, wherever it occurs."""
    return re.sub(r"\b(\d+)x(\d+)\b", r"\1 × \2", text)


def _sentence(text: str) -> str:
    text = _times(text.strip())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# What matters ----------------------------------------------------------------------------------------------


def _key_table(result: SplitResult) -> Table:
    power = columns.power(result.rows)
    judged = any(row.verdict for row in result.rows)
    seeds = sorted({row.seeds for row in result.rows if row.seeds})
    by = {entry.split: entry.by for entry in result.ruled_out}
    rows = []
    for row in result.rows:
        cells = [f"{row.verdict}\n{by.get(row.name, '')}".strip()] if judged else []
        cells += [columns.cell(row, name, power) for name in columns.ALL]
        rows.append([row.label, *cells, *([str(row.seeds)] if len(seeds) > 1 else [])])
    chosen = [i for i, row in enumerate(result.rows) if row.name == result.recommended]
    unit = f"{raised(power)} gradient²" if power else "gradient²"
    trained = f" Steps/s and mean return over {seeds[0]} seeds." if len(seeds) == 1 and seeds[0] > 1 else ""
    caption = (
        f"Gradients of one policy at step {result.at:,}, {result.batch:,} samples each. Variance, its terms and "
        f"bias² in {unit}.{trained} {columns.starts(result)}Small: 95% intervals."
    )
    titles = ["N × T", *(["verdict"] if judged else []), *labels(*columns.ALL).values()]
    titles += ["seeds"] if len(seeds) > 1 else []
    return Table(titles, rows, tuple(chosen), caption=caption, badges=(1,) if judged else ())


def _why(result: SplitResult) -> list[Block]:
    """What eliminated each eliminated split, and by what the choice among the others was made."""
    reasons = [f"Eliminated: {_sentence(_reason(entry))}" for entry in result.ruled_out]
    reasons += [_sentence(result.tie_break)] if result.tie_break and result.tie_break not in result.sentence else []
    blocks: list[Block] = [Bullets(reasons)] if reasons else []
    why = [_sentence(text) for text in result.explanations]
    return blocks + (
        [Folded("Why the splits learn differently", [Bullets(why)], "noise, bias, updates")] if why else []
    )


def _reason(entry: Eliminated) -> str:
    """Begins with the split that is eliminated."""
    reason = entry.reason.rstrip(".")
    return reason if entry.split in reason.split(", ")[0] else f"{entry.split}, {reason}"


def _doubts(result: SplitResult) -> list[Block]:
    return [Heading("How sure"), *(Note(_sentence(d), "doubt") for d in result.doubts)] if result.doubts else []


def _stages(result: SplitResult, figure_blocks: Sequence[Block]) -> list[Block]:
    """Whether another split would be better early or late."""
    if not result.stages:
        return []
    lead = [Paragraph(_times(result.stage_sentence))] if result.stage_sentence else []
    rows = [
        [stage.stage, row.label, estimate(row.covariance_share), estimate(row.ess)]
        for stage in result.stages
        for row in stage.rows
    ]
    columns = ["stage", "N × T", "covariance's share of the variance", "effective samples"]
    each = [f"{stage.stage.capitalize()}, step {stage.step:,}: {_times(stage.sentence)}" for stage in result.stages]
    table: list[Block] = [Bullets(each), Table(columns, rows, words=(0, 1), caption="Small: 95% intervals.")]
    return [Heading("Early, middle, late"), *lead, *figure_blocks, Folded("Stage by stage", table)]


def _staircase(report: SplitReport) -> str:
    rows = report.result.rows
    curves = report.curves.drop_nulls("return")
    curves = curves.with_columns(pl.col("series").replace({row.name: row.label for row in rows}))
    return staircase_note(curves, {row.label: row.num_envs for row in rows})


# The rest, folded ------------------------------------------------------------------------------------------


def _fastest(result: SplitResult) -> str:
    """Which is the fastest, if its interval lies above all others."""
    speeds = {row.label: columns.fps(row) for row in result.rows if row.fps.known}
    best = max(speeds, key=lambda name: speeds[name].value)
    if all(speeds[best].lo > other.hi for name, other in speeds.items() if name != best):
        return f"{best} runs the most steps per second"
    return "steps per second; no split is significantly the fastest"


def _predicted_table(result: SplitResult) -> Block:
    rows = [
        [row.label, estimate(row.variance, "no interval"), "extrapolated" if row.extrapolated else "blocks"]
        for row in result.predicted
    ]
    return Table(["N × T", quantity("predicted_variance").label, "from"], rows, words=(0, 2))


def _anatomy(report: SplitReport) -> list[Block]:
    """The probes of every split, one checkpoint at a time."""
    frame, steps = report.measurements, report.result.steps
    left_out = {"bias_variance"} if len(steps) > 1 else {"variance", "bias_variance"}  # shown by the figure of errors
    frames = by_checkpoint(frame, steps, left_out)
    if not frames:
        return []
    text = "Probes of every split at one checkpoint of one run, each from independent batches of its frozen policy."
    slider = Slider("checkpoint", frames, len(frames) // 2)
    hint = "correlation, noise scale, minibatches" + (", by checkpoint" if len(frames) > 1 else "")
    return [Folded("Inside the gradient", [Paragraph(text, "soft"), slider], hint)]


def _flow(report: SplitReport) -> list[Block]:
    best, marginal = report.result.best, report.result.marginal
    drawing = flow_diagram.of_config(report.config.replace(num_envs=best.num_envs, num_steps=best.num_steps))
    rows = [[name, str(text)] for name, text in report.config.derived().items()]
    blocks: list[Block] = [
        Svg(drawing, "One iteration of the recommended split, and the whole run"),
        Table(["", ""], rows, words=(0, 1), caption="The run that was probed."),
    ]
    flow = Folded("From samples to updates", blocks, "how N, T, minibatch and epochs become gradient steps")
    more = [Folded("One more environment, or one more step?", [Paragraph(_times(marginal))])] if marginal else []
    return [flow, *more]


def _horizons(result: SplitResult) -> Block:
    numbers = Columns(
        [
            (f"{result.gamma:g}", "γ, the discount"),
            (steps(result.horizon_gamma), "1/(1−γ), steps: how far returns look ahead"),
            (f"{result.gae_lambda:g}", "λ of the advantages"),
            (
                steps(result.horizon_gamma_lambda),
                "1/(1−γλ), steps: how far advantages look before the critic takes over",
            ),
        ]
    )
    text = "Every bias on this page is for these values: rows shorter than the second horizon rely on the critic."
    return Folded("Discount and horizons", [numbers, Paragraph(text, "soft")])


def _made(report: SplitReport) -> Block:
    result, curves = report.result, report.curves
    seeds = sorted(curves["seed"].unique()) if not curves.is_empty() else []
    rows = [["algorithm", result.algo]]
    rows += [["seeds of the learning curves", ", ".join(map(str, seeds))]] if seeds else []
    rows += [["steps probed", ", ".join(f"{s:,}" for s in result.steps)], changed_fields(report.config)]
    return made_with(report.manifest, result.command, rows)


def _next(report: SplitReport) -> Block:
    best, why = report.result.best, "Train with it, for as long as the preset says."
    if not report.result.decided:
        why = "Train with it. The same split on more seeds (--seeds) may separate it from the others."
    return Next(train_command(report.config.as_dict(), num_envs=best.num_envs, num_steps=best.num_steps), why)
