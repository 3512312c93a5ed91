"""Reports: figures, tables and words put together into one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Any

from trimtab.config import Config
from trimtab.estimate import Estimate
from trimtab.quantities import labels, quantity
from trimtab.report.numbers import estimate, raised
from trimtab.report.page import Block, Bullets, Columns, Figure, Heading, Note, Paragraph, Svg, Table, page
from trimtab.report.probe import figures as probe_figures
from trimtab.report.split import columns, diagram
from trimtab.report.split import figures as split_figures
from trimtab.wording import steps

__all__ = ["figures", "page", "split_page"]


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Every figure of a split's page by name, in the order of the page."""
    return split_figures.figures(result) | probe_figures.of_frame(result["measurements"])


def split_page(result: dict[str, Any]) -> str:
    """The page of `trimtab split`."""
    drawn = figures(result)
    own = set(split_figures.NAMES)
    show = lambda name: [Figure(drawn[name])] if name in drawn else []
    blocks: list[Block] = [*_answer(result), *_key_table(result), *show("split_error")]
    blocks += [Heading("Learning and speed"), *show("learning_curves"), *show("speed")]
    if result["predicted"]:
        blocks += [Heading("Splits that were not measured"), *show("predicted"), _predicted_table(result)]
    if len(result["steps"]) == 1:  # then the first figure has said what these two would
        own |= {"variance", "bias_variance"}
    anatomy = [Figure(chart) for name, chart in drawn.items() if name not in own]
    if anatomy:
        blocks += [Heading("Inside the gradient"), Paragraph(_probed(result), "soft"), *anatomy]
    blocks += [*_flow(result), *_horizons(result), *_made(result)]
    return page(f"{result['env_id']}: how to split a batch of {result['batch']:,}", blocks)


def _answer(result: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = [Paragraph(result["sentence"], "lead")]
    if result["reasons"]:
        blocks += [Heading("Why", 3), Bullets([_sentence(r) for r in result["reasons"]])]
    if result["doubts"]:
        blocks += [Heading("How sure", 3), *(Note(_sentence(d), "doubt") for d in result["doubts"])]
    if result["marginal"]:
        blocks += [Heading("One more environment, or one more step?", 3), Paragraph(result["marginal"])]
    return blocks


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# Tables ----------------------------------------------------------------------------------------------------


def _key_table(result: dict[str, Any]) -> list[Block]:
    power = columns.power(result["rows"])
    rows = [[split_figures.label(row), *(columns.cell(row, c, power) for c in columns.ALL)] for row in result["rows"]]
    chosen = [i for i, r in enumerate(result["rows"]) if f"{r['num_envs']}x{r['num_steps']}" == result["recommended"]]
    at = f" at step {result['at']:,}" if "at" in result else ""
    unit = f"{raised(power)} gradient²" if power else "gradient²"
    caption = (
        f"Gradients of one policy{at}, {result['batch']:,} samples each; the recommended split is marked. "
        f"Variance, its two terms and bias² in {unit}. Small: 95% intervals."
    )
    titles = ["N × T", *labels(*columns.ALL).values()]
    return [Heading("Every split"), Table(titles, rows, tuple(chosen), caption=caption)]


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


# The rest of the page --------------------------------------------------------------------------------------


def _probed(result: dict[str, Any]) -> str:
    steps = [f"{s:,}" for s in result["steps"]]
    where = "step " + steps[0] if len(steps) == 1 else "steps " + ", ".join(steps[:-1]) + " and " + steps[-1]
    return f"Probes of every split at {where} of one run, each from independent batches of its frozen policy."


def _flow(result: dict[str, Any]) -> list[Block]:
    drawing = diagram.of_result(result)
    blocks: list[Block] = [Heading("From samples to updates")]
    blocks += [Svg(drawing, "One iteration of the recommended split, and the whole run")]
    rows = [[name, str(text)] for name, text in result["derived"].items()]
    return [*blocks, Table(["", ""], rows, words=(0, 1), caption="The run that was probed")] if rows else blocks


def _horizons(result: dict[str, Any]) -> list[Block]:
    return [
        Heading("Discount and horizons"),
        Columns(
            [
                (f"{result['gamma']:g}", "γ, the discount"),
                (steps(result["horizon_gamma"]), "1/(1−γ), in steps: how far returns look"),
                (f"{result['gae_lambda']:g}", "λ of the advantages"),
                (
                    steps(result["horizon_gamma_lambda"]),
                    "1/(1−γλ), in steps: how far advantages look before the critic",
                ),
            ]
        ),
        Paragraph("Every bias here belongs to these: rows shorter than the second horizon lean on the critic.", "soft"),
    ]


def _made(result: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = [Heading("How this was made"), Paragraph(result["command"], "code")]
    curves = result["curves"]
    seeds = sorted(curves["seed"].unique()) if not curves.is_empty() else []
    rows = [["algorithm", result["algo"]]]
    rows += [["seeds of the learning curves", ", ".join(map(str, seeds))]] if seeds else []
    rows += [["steps probed", ", ".join(f"{s:,}" for s in result["steps"])]]
    rows += [[name, text] for name, text in _flat(result["manifest"])]
    rows += [["configuration, where not the default", _changed(result["config"])]]
    return [*blocks, Table(["", ""], rows, words=(0, 1))]


def _changed(config: dict[str, Any]) -> str:
    usual = Config().as_dict()
    return ", ".join(f"{k} {v}" for k, v in config.items() if v != usual.get(k)) or "none"


def _flat(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in manifest.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)
        if name != "command" and value not in (None, ""):
            found.append((name.replace("_", " "), str(value)))
    return found
