"""The page of `trimtab probe`: what was measured at every checkpoint, and the figures of one at a time."""

from __future__ import annotations

from typing import Any

import polars as pl

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.show import probe_figures as probe_figures
from trimtab.show.blocks import Block, Contents, Decision, Figure, Folded, Heading, Next, Note, Paragraph, Slider, Table
from trimtab.show.html_page import page
from trimtab.show.numbers import estimate, number, power_of, raised
from trimtab.show.probe_series import KEYS, named
from trimtab.show.split_page import changed, made_with

SQUARED = {"variance": "variance", "individual": "individual", "covariance": "covariance", "bias_sq": "bias²"}
PLAIN = {"ess": "effective samples", "noise_scale_trajectory": "noise scale, samples"}
FIRST = ("variance", "lag_covariance")  # the two figures that matter, over all probes


def probe_page(frame: pl.DataFrame, config: dict[str, Any], manifest: dict[str, Any]) -> str:
    """Probes (the table of measurements) of one run."""
    charts = probe_figures.of_frame(frame)
    blocks: list[Block] = [_answer(frame), Contents(), Heading("Every probe"), _table(frame)]
    blocks += [Figure(charts[name]) for name in FIRST if name in charts]
    notes = frame.filter(pl.col("quantity") == "note")["note"].drop_nulls().unique(maintain_order=True)
    if len(notes):
        blocks += [
            Heading("How sure"),
            *(Note(f"{note[:1].upper()}{note[1:].rstrip('.')}.", "doubt") for note in notes),
        ]
    blocks += _one_by_one(frame)
    rows = [*made_with(manifest), ["configuration, where not the default", changed(config)]]
    blocks.append(Folded("How this was made", [Table(["", ""], rows, words=(0, 1))]))
    batch = config["num_envs"] * config["num_steps"]
    why = "Measure every way to split this batch, and train each."
    blocks.append(Next(f"trimtab split {config['env_id']} --batch {batch}", why))
    return page(f"{config['algo']} on {config['env_id']}: what its gradient is made of", blocks)


def _one_by_one(frame: pl.DataFrame) -> list[Block]:
    """Every other figure, at one checkpoint at a time."""
    frames = []
    for step in sorted(frame["step"].unique()):
        charts = probe_figures.of_frame(frame.filter(pl.col("step") == step))
        frames.append((f"step {step:,}", [Figure(chart) for name, chart in charts.items() if name not in FIRST]))
    frames = [(label, inner) for label, inner in frames if inner]
    if not frames:
        return []
    if len(frames) == 1:
        return [Folded("Inside the gradient", frames[0][1], "correlation, noise scale, minibatches")]
    text = Paragraph("One checkpoint at a time: the slider moves every figure below it.", "soft")
    return [Heading("Checkpoint by checkpoint"), text, Slider("checkpoint", frames, len(frames) - 1)]


def _estimates(frame: pl.DataFrame) -> list[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """For every probe its keys, and its estimates by name."""
    tidy = named(frame).frame
    probes = []
    for keys in tidy.select(KEYS).unique().sort("step", "num_envs", "num_steps", "gae_lambda").iter_rows(named=True):
        own = tidy.filter(pl.all_horizontal(pl.col(k) == v for k, v in keys.items()) & pl.col("lag").is_null())
        values = {row["quantity"]: row for row in own.iter_rows(named=True) if row["quantity"] in SQUARED | PLAIN}
        probes.append((keys, values))
    return probes


def _table(frame: pl.DataFrame) -> Table:
    probes = _estimates(frame)
    power = power_of([values[name]["value"] for _, values in probes for name in SQUARED if name in values])
    rows = [
        [
            f"{keys['step']:,}",
            f"{keys['num_envs']} × {keys['num_steps']}",
            f"{keys['gae_lambda']:g}",
            *(estimate(_estimate(values, name).times(10.0**-power)) for name in SQUARED),
            *(estimate(_estimate(values, name)) for name in PLAIN),
        ]
        for keys, values in probes
    ]
    unit = f"{raised(power)} gradient²" if power else "gradient²"
    columns = ["step", "N × T", "λ", *SQUARED.values(), *PLAIN.values()]
    return Table(columns, rows, caption=f"Variance, its two terms and bias² in {unit}. Small: 95% intervals.")


def _estimate(values: dict[str, dict[str, Any]], name: str) -> Estimate:
    return Estimate.from_dict(values[name]) if name in values else UNRESOLVED


def _answer(frame: pl.DataFrame) -> Decision:
    """How many samples the batch is worth, at the last checkpoint."""
    keys, values = _estimates(frame)[-1]
    batch, ess = keys["num_envs"] * keys["num_steps"], values.get("ess", {})
    where = f"of {batch:,} samples, at step {keys['step']:,}"
    enough = _against_noise(batch, _estimate(values, "noise_scale_trajectory"))
    if not ess.get("resolved") or ess.get("value") is None:
        sentence = (
            f"How many independent samples the {batch:,} of a batch are worth is not resolved at step {keys['step']:,}"
        )
        return Decision(f"{sentence}: take more replicates. {enough}".strip())
    worth, samples = ess["value"] / batch, number(ess["value"])
    if ess["lo"] <= batch <= ess["hi"]:
        text = f"Not told apart from {batch:,}: {number(ess['lo'])} to {number(ess['hi'])}. "
        text += "Whether correlation along rows costs anything is not resolved."
    elif worth < 1:
        text = f"Correlation along rows makes {batch:,} samples worth {samples} independent ones: {worth:.0%}."
    else:
        text = f"Correlation along rows cancels noise: {batch:,} samples are worth {samples} independent ones."
    return Decision(samples, f"{text} {enough}".strip(), f"effective samples {where}")


def _against_noise(batch: int, scale: Estimate) -> str:
    """Whether a larger batch would pay: it does below the noise scale, and less and less above it."""
    if not scale.resolved or not scale.known:
        return ""
    scale_text = f"noise equals signal at {number(scale.value)} samples, {number(scale.lo, 2)} to {number(scale.hi, 2)}"
    if scale.lo > batch:
        return f"The batch is below its noise scale ({scale_text}): a larger one would still pay."
    if scale.hi < batch:
        return f"The batch is above its noise scale ({scale_text}): a smaller one would do nearly as well."
    return f"The batch is about as large as its noise scale ({scale_text}): nothing here says to change it."
