"""The page of `trimtab split`: the answer, the table, the two figures that matter, the doubts; the rest folded."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.core.quantities import labels, quantity
from trimtab.core.wording import steps
from trimtab.show import flow_diagram
from trimtab.show import probe_figures as probe_figures
from trimtab.show import split_columns as columns
from trimtab.show import split_figures as split_figures
from trimtab.show.blocks import (
    Block,
    Bullets,
    Columns,
    Contents,
    Decision,
    Figure,
    Folded,
    Heading,
    Next,
    Note,
    Paragraph,
    Slider,
    Svg,
    Table,
)
from trimtab.show.html_page import page
from trimtab.show.next_step import train_command
from trimtab.show.numbers import estimate, raised
from trimtab.show.staircase import staircase_note

__all__ = ["figures", "page", "split_page"]


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Every figure of a split by name, for saving."""
    return split_figures.figures(result) | probe_figures.of_frame(result["measurements"])


def split_page(result: dict[str, Any], charts: dict[str, Any]) -> str:
    """The page of `trimtab split`, with its figures."""
    show = lambda name, note="": [Figure(charts[name], note)] if name in charts else []
    blocks: list[Block] = [
        Decision(_times(result["recommended"]), _times(result["sentence"]), "environments × steps"),
        Contents(),
    ]
    blocks += [Heading("Every split"), *_key_table(result), *_why(result)]
    blocks += [Heading("Error and learning"), *show("split_error"), *show("learning_curves", _staircase(result))]
    blocks += _doubts(result) + _stages(result, show("split_stages"))
    blocks += [Folded("Speed", show("speed"), _fastest(result))] if "speed" in charts else []
    if result["predicted"]:
        inner = [*show("predicted"), _predicted_table(result)]
        blocks.append(Folded("Splits that were not measured", inner, "what they should do"))
    blocks += _anatomy(result) + _flow(result) + [*_horizons(result), *_made(result)]
    blocks.append(_next(result))
    return page(f"{result['env_id']}, {result['algo']}: how to split a batch of {result['batch']:,}", blocks)


def _times(text: str) -> str:
    """4x256 as 4 × 256, wherever it stands."""
    return re.sub(r"\b(\d+)x(\d+)\b", r"\1 × \2", text)


def _sentence(text: str) -> str:
    text = _times(text.strip())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# What matters ----------------------------------------------------------------------------------------------


def _key_table(result: dict[str, Any]) -> list[Block]:
    power = columns.power(result["rows"])
    judged = any("verdict" in row for row in result["rows"])
    seeds = sorted({row["seeds"] for row in result["rows"] if row.get("seeds")})
    by = {item["split"]: item["by"] for item in result.get("ruled_out", ())}
    rows = []
    for row in result["rows"]:
        cells = [f"{row.get('verdict', '')}\n{by.get(split_figures.name_of(row), '')}".strip()] if judged else []
        cells += [columns.cell(row, c, power) for c in columns.ALL]
        rows.append([split_figures.label(row), *cells, *([str(row.get("seeds", ""))] if len(seeds) > 1 else [])])
    chosen = [i for i, r in enumerate(result["rows"]) if split_figures.name_of(r) == result["recommended"]]
    at = f" at step {result['at']:,}" if "at" in result else ""
    unit = f"{raised(power)} gradient²" if power else "gradient²"
    trained = f" Steps/s and mean return over {seeds[0]} seeds." if len(seeds) == 1 and seeds[0] > 1 else ""
    caption = (
        f"Gradients of one policy{at}, {result['batch']:,} samples each. Variance, its two terms and bias² in {unit}."
        f"{trained} Small: 95% intervals."
    )
    titles = ["N × T", *(["verdict"] if judged else []), *labels(*columns.ALL).values()]
    titles += ["seeds"] if len(seeds) > 1 else []
    return [Table(titles, rows, tuple(chosen), caption=caption, badges=(1,) if judged else ())]


def _why(result: dict[str, Any]) -> list[Block]:
    """What ruled out each split that is out, and by what the choice among the others was made."""
    if "ruled_out" not in result:  # a result of before: its sentence has the reasons
        return []
    reasons = [f"Out: {_sentence(_reason(item))}" for item in result["ruled_out"]]
    reasons += [_sentence(result["tie_break"])] if result.get("tie_break") else []
    return [Bullets(reasons)] if reasons else []


def _reason(item: dict[str, Any]) -> str:
    """Begins with the split that is out."""
    reason = item["reason"].rstrip(".")
    return reason if reason.startswith(item["split"]) else f"{item['split']}, {reason}"


def _doubts(result: dict[str, Any]) -> list[Block]:
    return [Heading("How sure"), *(Note(_sentence(d), "doubt") for d in result["doubts"])] if result["doubts"] else []


def _stages(result: dict[str, Any], figure_blocks: list[Block]) -> list[Block]:
    """Whether another split would be better early or late."""
    stages = result.get("stages") or []
    if not stages:
        return []
    lead = [Paragraph(_times(result["stage_sentence"]))] if result.get("stage_sentence") else []
    rows = [
        [
            stage["stage"],
            split_figures.label(row),
            *(estimate(Estimate.from_dict(row[name])) for name in ("covariance_share", "ess")),
        ]
        for stage in stages
        for row in stage["rows"]
    ]
    columns = ["stage", "N × T", "covariance's share of the variance", "effective samples"]
    each = [f"{stage['stage'].capitalize()}, step {stage['step']:,}: {_times(stage['sentence'])}" for stage in stages]
    table = [Bullets(each), Table(columns, rows, words=(0, 1), caption="Small: 95% intervals.")]
    return [Heading("Early, middle, late"), *lead, *figure_blocks, Folded("Stage by stage", table)]


def _staircase(result: dict[str, Any]) -> str:
    envs = {split_figures.label(row): row["num_envs"] for row in result["rows"]}
    names = {split_figures.name_of(r): split_figures.label(r) for r in result["rows"]}
    return staircase_note(result["curves"].drop_nulls("return").with_columns(pl.col("series").replace(names)), envs)


# The rest, folded ------------------------------------------------------------------------------------------


def _fastest(result: dict[str, Any]) -> str:
    """Which is the fastest, if its interval lies above all others."""
    speeds = {split_figures.label(row): columns.fps(row) for row in result["rows"] if row["fps"].get("value")}
    best = max(speeds, key=lambda name: speeds[name].value)
    if all(speeds[best].lo > other.hi for name, other in speeds.items() if name != best):
        return f"{best} runs the most steps per second"
    return "steps per second; which is the fastest is not resolved"


def _predicted_table(result: dict[str, Any]) -> Block:
    rows = [
        [
            split_figures.label(p),
            estimate(Estimate.from_dict(p["variance"]), "no interval"),
            "extrapolated" if p["extrapolated"] else "blocks",
        ]
        for p in result["predicted"]
    ]
    return Table(["N × T", quantity("predicted_variance").label, "from"], rows, words=(0, 2))


def _anatomy(result: dict[str, Any]) -> list[Block]:
    """The probes of every split, one checkpoint at a time."""
    frame, steps = result["measurements"], result["steps"]
    redundant = {"bias_variance"} if len(steps) > 1 else {"variance", "bias_variance"}  # by the figure of errors
    frames = []
    for step in steps:
        charts = probe_figures.of_frame(frame.filter(pl.col("step") == step))
        frames.append((f"step {step:,}", [Figure(chart) for name, chart in charts.items() if name not in redundant]))
    frames = [(label, inner) for label, inner in frames if inner]
    if not frames:
        return []
    text = "Probes of every split at one checkpoint of one run, each from independent batches of its frozen policy."
    slider = Slider("checkpoint", frames, len(frames) // 2)
    hint = "correlation, noise scale, minibatches" + (", by checkpoint" if len(frames) > 1 else "")
    return [Folded("Inside the gradient", [Paragraph(text, "soft"), slider], hint)]


def _flow(result: dict[str, Any]) -> list[Block]:
    drawing = flow_diagram.of_result(result)
    blocks: list[Block] = [Svg(drawing, "One iteration of the recommended split, and the whole run")]
    rows = [[name, str(text)] for name, text in result["derived"].items()]
    blocks += [Table(["", ""], rows, words=(0, 1), caption="The run that was probed.")] if rows else []
    marginal = [Paragraph(_times(result["marginal"]))] if result["marginal"] else []
    flow = Folded("From samples to updates", blocks, "what N, T, minibatch and epochs come to")
    return [flow, *([Folded("One more environment, or one more step?", marginal)] if marginal else [])]


def _horizons(result: dict[str, Any]) -> list[Block]:
    numbers = Columns(
        [
            (f"{result['gamma']:g}", "γ, the discount"),
            (steps(result["horizon_gamma"]), "1/(1−γ): how far returns look"),
            (f"{result['gae_lambda']:g}", "λ of the advantages"),
            (steps(result["horizon_gamma_lambda"]), "1/(1−γλ): how far advantages look before the critic"),
        ]
    )
    text = "Every bias here belongs to these: rows shorter than the second horizon lean on the critic."
    return [Folded("Discount and horizons", [numbers, Paragraph(text, "soft")])]


def _made(result: dict[str, Any]) -> list[Block]:
    curves = result["curves"]
    seeds = sorted(curves["seed"].unique()) if not curves.is_empty() else []
    rows = [["algorithm", result["algo"]]]
    rows += [["seeds of the learning curves", ", ".join(map(str, seeds))]] if seeds else []
    rows += [["steps probed", ", ".join(f"{s:,}" for s in result["steps"])]]
    rows += made_with(result["manifest"])
    rows += [["configuration, where not the default", changed(result["config"])]]
    return [Folded("How this was made", [Paragraph(result["command"], "code"), Table(["", ""], rows, words=(0, 1))])]


def _next(result: dict[str, Any]) -> Block:
    num_envs, num_steps = (int(part) for part in result["recommended"].split("x"))
    why = "Train with it, for as long as the preset says."
    if result.get("decided") is False:
        why = "Train with it. The same split on more seeds (--seeds) may tell the others apart."
    return Next(train_command(result["config"], num_envs=num_envs, num_steps=num_steps), why)


def changed(config: dict[str, Any]) -> str:
    """The fields that are not at their defaults."""
    usual = Config().as_dict()
    return ", ".join(f"{k} {v}" for k, v in config.items() if v != usual.get(k)) or "none"


def made_with(manifest: dict[str, Any]) -> list[list[str]]:
    """A manifest as rows of a table."""
    rows = []
    for name, value in manifest.items():
        text = _told(value)
        if name != "command" and text:
            rows.append([name.replace("_", " "), text])
    return rows


def _told(value: Any) -> str:
    """A value of a manifest in words, whatever is in it."""
    if isinstance(value, dict):
        return ", ".join(f"{k} {_told(v)}" for k, v in value.items() if v is not None)
    return "; ".join(map(_told, value)) if isinstance(value, list) else "" if value is None else str(value)
