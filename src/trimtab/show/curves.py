"""Figures of runs: returns over training, and what the updates did."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from trimtab.advise.run_summary import RunView
from trimtab.show.style import (
    BLUE,
    GREEN,
    HEIGHT,
    ORANGE,
    SHORT_NUMBER,
    WIDTH,
    colored,
    learning_curves,
    of_lines,
    over_steps,
    paneled,
    themed,
    thin,
)

Chart = alt.TopLevelMixin
# What to look at first, and what it is called.
FIRST = {
    "train/clip_fraction": "clip fraction",
    "train/approx_kl": "approximate KL to the behavior policy",
    "train/entropy_loss": "minus the entropy",
    "train/explained_variance": "variance the critic explains",
}
RETURN = "rollout/ep_rew_mean"
STRAIGHT = ("train/gradient_steps_taken", "train/ent_coef")  # set, not found out


def frame_of(runs: Sequence[RunView], name: str = RETURN) -> pl.DataFrame:
    """One metric of runs as a table: series, seed, step, return."""
    rows = [(run.name, 0, row.step, row.numbers[name]) for run in runs for row in run.metrics if name in row.numbers]
    return pl.DataFrame(
        rows, schema={"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64}, orient="row"
    )


def returns(run: RunView) -> Chart | None:
    """The training return of one run, its evaluations, and what counts as solved."""
    frame = thin(frame_of([run]))
    if frame.is_empty():
        return None
    x = over_steps()
    y = alt.Y("value:Q", title="return", scale=alt.Scale(zero=False))
    parts = [frame.select("step", pl.col("return").alias("value"), pl.lit(_TRAINED).alias("kind"))]
    evaluated = [(row.step, row.mean_reward, _EVALUATED) for row in run.evaluations]
    if evaluated:
        parts.append(pl.DataFrame(evaluated, schema=["step", "value", "kind"], orient="row"))
    data = pl.concat(part.cast({"step": pl.Int64, "value": pl.Float64}) for part in parts)
    kinds = [_TRAINED] + [_EVALUATED] * bool(evaluated)
    color = colored("kind", kinds, [BLUE, ORANGE]) if evaluated else alt.value(BLUE)
    tooltip = [alt.Tooltip("step:Q", format=",.0f"), alt.Tooltip("value:Q", format=".4g")]
    base = alt.Chart(data).encode(x=x, y=y, color=color, tooltip=tooltip)
    layers = [base.transform_filter(f"datum.kind == '{_TRAINED}'").mark_line(strokeWidth=2.2)]
    if evaluated:
        layers.append(
            base.transform_filter(f"datum.kind == '{_EVALUATED}'").mark_point(filled=True, size=48, opacity=1)
        )
    subtitle = "Mean of the last 100 episodes."
    if run.goal is not None:
        mark = alt.Chart(pl.DataFrame({"value": [run.goal]}))
        layers.append(mark.mark_rule(color=GREEN, strokeDash=[5, 4], strokeWidth=1.6).encode(y="value:Q"))
        subtitle += f" Dashed: {run.goal:g} counts as solved."
    layered = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT + 20)
    return themed(layered, "Return over training", subtitle)


_TRAINED, _EVALUATED = "training", "evaluation, exploration off"


def updates(runs: Sequence[RunView]) -> Chart | None:
    """The four metrics that say most about an update, a panel each."""
    return _metrics(
        runs,
        FIRST,
        "What the updates did",
        "Each panel has its own scale. A clip fraction of a few percent is usual; the entropy should fall slowly; "
        "a critic with explained variance near 0 does not reduce the variance.",
    )


def others(runs: Sequence[RunView]) -> Chart | None:
    """Every other metric of training."""
    names = sorted({name for run in runs for row in run.metrics for name in row.numbers if name.startswith("train/")})
    rest = {name: name.removeprefix("train/") for name in names if name not in FIRST and name not in STRAIGHT}
    return _metrics(runs, rest, "Everything else that was recorded", "Each panel has its own scale.")


def _metrics(runs: Sequence[RunView], names: dict[str, str], title: str, subtitle: str) -> Chart | None:
    frames = []
    for name, label in names.items():
        frame = thin(frame_of(runs, name), 150)
        if frame.height > 1 and frame["return"].n_unique() > 1:
            frames.append(frame.with_columns(pl.lit(label).alias("panel")))
    if not frames:
        return None
    data = pl.concat(frames).select("series", "step", pl.col("return").alias("value"), "panel")
    panels, series = list(dict.fromkeys(data["panel"])), [run.name for run in runs]
    present = [name for name in series if name in set(data["series"])]
    color = of_lines(present) if len(runs) > 1 else alt.value(BLUE)
    x = over_steps(4)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4, labelExpr=SHORT_NUMBER))
    tooltip = ["series:N", alt.Tooltip("step:Q", format=",.0f"), alt.Tooltip("value:Q", format=".3g")]
    lines = alt.Chart(data).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color, tooltip=tooltip)
    return themed(paneled(lines, panels, 2, 130, y="independent"), title, subtitle)


def overlaid(runs: Sequence[RunView]) -> Chart | None:
    """The learning curves of several runs in one figure."""
    frame = frame_of(runs)
    if frame.is_empty():
        return None
    order = [run.name for run in runs if run.name in set(frame["series"])]
    return learning_curves(frame, "Learning curves", "One line for each run.", order)
