"""The page of `trimtab probe`: what was measured at every checkpoint, and the figures of one at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.quantities import labels
from trimtab.core.wording import split_text
from trimtab.show import probe_figures
from trimtab.show.blocks import Block, Contents, Decision, Figure, Folded, Heading, Next, Note, Paragraph, Slider, Table
from trimtab.show.html_page import page
from trimtab.show.numbers import estimate, number, power_of, raised
from trimtab.show.origin import changed_fields, made_with
from trimtab.show.probe_series import KEYS, named
from trimtab.training.records import Manifest

_SQUARED = labels("variance", "individual", "covariance", "between_rows", "bias_sq")
_PLAIN = {"ess": "effective samples", "noise_scale_trajectory": "noise scale, samples"}
_FIRST = ("variance", "lag_covariance")  # the two figures that matter, over all probes


@dataclass(frozen=True)
class _Probe:
    """One probe of the table of measurements."""

    num_envs: int
    num_steps: int
    gae_lambda: float
    step: int
    start: str
    estimates: dict[str, Estimate]

    def estimate(self, name: str) -> Estimate:
        return self.estimates.get(name, UNRESOLVED)


def probe_page(frame: pl.DataFrame, config: Config, manifest: Manifest) -> str:
    """The page of some probes of one run.

    Args:
        frame: their table of measurements.
        config: that of the run.
        manifest: that of the run.

    Returns:
        The page as HTML.
    """
    charts, probes = probe_figures.of_frame(frame), _probes(frame)
    blocks: list[Block] = [_answer(probes[-1]), Contents(), Heading("Every probe"), _table(probes)]
    blocks += [Figure(charts[name]) for name in _FIRST if name in charts]
    notes = frame.filter(pl.col("quantity") == "note")["note"].drop_nulls().unique(maintain_order=True)
    if len(notes):
        doubts = [Note(f"{note[:1].upper()}{note[1:].rstrip('.')}.", "doubt") for note in notes]
        blocks += [Heading("How sure"), *doubts]
    blocks += [*_one_by_one(frame), made_with(manifest, rows=[changed_fields(config)])]
    why = "Measure every way to split this batch, and train each."
    blocks.append(Next(f"trimtab split {config.env_id} --batch {config.batch}", why))
    return page(f"{config.algo} on {config.env_id}: what its gradient is made of", blocks)


def by_checkpoint(
    frame: pl.DataFrame, steps: Sequence[int], left_out: Collection[str]
) -> list[tuple[str, list[Figure]]]:
    """The figures of each checkpoint, as frames of a slider; without some figures."""
    frames = []
    for step in steps:
        charts = probe_figures.of_frame(frame.filter(pl.col("step") == step))
        frames.append((f"step {step:,}", [Figure(chart) for name, chart in charts.items() if name not in left_out]))
    return [(label, inner) for label, inner in frames if inner]


def _one_by_one(frame: pl.DataFrame) -> list[Block]:
    """Every other figure, at one checkpoint at a time."""
    frames = by_checkpoint(frame, sorted(frame["step"].unique()), _FIRST)
    if not frames:
        return []
    if len(frames) == 1:
        return [Folded("Inside the gradient", frames[0][1], "correlation, noise scale, minibatches")]
    text = Paragraph("One checkpoint at a time: the slider moves every figure below it.", "soft")
    return [Heading("Checkpoint by checkpoint"), text, Slider("checkpoint", frames, len(frames) - 1)]


def _probes(frame: pl.DataFrame) -> list[_Probe]:
    tidy = named(frame).frame
    probes = []
    for keys in (
        tidy.select(KEYS).unique().sort("step", "num_envs", "num_steps", "gae_lambda", "start").iter_rows(named=True)
    ):
        own = tidy.filter(pl.all_horizontal(pl.col(k) == v for k, v in keys.items()) & pl.col("lag").is_null())
        own = own.filter(pl.col("quantity").is_in([*_SQUARED, *_PLAIN]))
        columns = own.select("quantity", "value", "lo", "hi", "resolved").iter_rows(named=True)
        probes.append(_Probe(**keys, estimates={row.pop("quantity"): Estimate.from_dict(row) for row in columns}))
    return probes


def _table(probes: Sequence[_Probe]) -> Table:
    power = power_of([probe.estimate(name).value for probe in probes for name in _SQUARED])
    rows = [
        [
            f"{probe.step:,}",
            split_text(probe.num_envs, probe.num_steps),
            f"{probe.gae_lambda:g}",
            probe.start,
            *(estimate(probe.estimate(name).times(10.0**-power)) for name in _SQUARED),
            *(estimate(probe.estimate(name)) for name in _PLAIN),
        ]
        for probe in probes
    ]
    unit = f"{raised(power)} gradient²" if power else "gradient²"
    columns = ["step", "N × T", "λ", "starts", *_SQUARED.values(), *_PLAIN.values()]
    caption = f"Variance, its terms and bias² in {unit}. Small: 95% intervals."
    return Table(columns, rows, words=(3,), caption=caption)


def _answer(probe: _Probe) -> Decision:
    """How many independent samples the batch of a probe equals."""
    batch, ess = probe.num_envs * probe.num_steps, probe.estimate("ess")
    enough = _against_noise(batch, probe.estimate("noise_scale_trajectory"))
    if not ess.resolved or not ess.known:
        text = f"The number of effective samples at step {probe.step:,} is inconclusive: use more --replicates."
        return Decision("Inconclusive", f"{text} {enough}".strip(), f"effective samples of {batch:,}")
    worth, samples = ess.value / batch, number(ess.value)
    if ess.lo <= batch <= ess.hi:
        text = f"Not significantly different from {batch:,} ({number(ess.lo)} to {number(ess.hi)}): "
        text += "correlation has no measurable cost."
    elif worth < 1:
        text = f"Correlation makes {batch:,} samples worth {samples} independent ones ({worth:.0%})."
    else:
        text = f"Correlation cancels noise: {batch:,} samples are worth {samples} independent ones."
    text += _shared_noise(probe)
    return Decision(samples, f"{text} {enough}".strip(), f"effective samples of {batch:,}, at step {probe.step:,}")


def _shared_noise(probe: _Probe) -> str:
    """What environments share, where it is a significant part of the variance."""
    shared, variance = probe.estimate("between_rows"), probe.estimate("variance")
    if not (shared.resolved and shared.lo > 0 and variance.known and variance.value > 0):
        return ""
    share = shared.value / variance.value
    return f" {share:.0%} of the variance is between rows: environments are at the same phase of their episodes."


def _against_noise(batch: int, scale: Estimate) -> str:
    """Whether a larger batch would pay: it does below the noise scale, and less and less above it."""
    if not scale.resolved or not scale.known:
        return ""
    scale_text = f"noise equals signal at {number(scale.value)} samples, {number(scale.lo, 2)} to {number(scale.hi, 2)}"
    if scale.lo > batch:
        return f"The batch is below its noise scale ({scale_text}): a larger batch would still pay."
    if scale.hi < batch:
        return f"The batch is above its noise scale ({scale_text}): a smaller batch would do nearly as well."
    return f"The batch is about as large as its noise scale ({scale_text}): keep it."
