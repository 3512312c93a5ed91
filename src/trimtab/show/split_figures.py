"""Figures of a split: what each way of splitting the batch costs and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from trimtab.core.estimate import Estimate
from trimtab.core.quantities import labels, quantity
from trimtab.gradient.anatomy import finite
from trimtab.show.probe_figures import stacked_layers
from trimtab.show.split_columns import fps
from trimtab.show.style import (
    BLUE,
    GREY,
    ORANGE,
    ROW,
    SHORT_NUMBER,
    WIDTH,
    colored,
    layered,
    learning_curves,
    legend,
    paneled,
    rows_of,
    themed,
)
from trimtab.studies.split_result import GradientEstimates, PredictedSplit, SplitResult, SplitRow, Stage, StageRow

Chart = alt.TopLevelMixin
_PARTS = labels("individual", "covariance", "between_rows", "bias_sq")


def figures(result: SplitResult, curves: pl.DataFrame) -> dict[str, Chart]:
    """The figures that compare splits, those there are data for."""
    charts = {
        "split_error": _error(result.rows),
        "learning_curves": _curves(result.rows, curves),
        "split_stages": _stages(result.stages),
        "speed": _speed(result.rows),
        "predicted": _predicted(result),
    }
    return {name: chart for name, chart in charts.items() if chart is not None}


def _shared_grad_sq(rows: Sequence[SplitRow]) -> float | None:
    """|G|² that errors are relative to: MSE over relative MSE, the same for all splits."""
    for row in rows:
        if row.mse_relative.resolved and row.mse.known and row.mse_relative.known:
            return row.mse.value / row.mse_relative.value
    return None


def _error(rows: Sequence[SplitRow]) -> Chart | None:
    """The terms of the variance and the squared bias of each split, relative to |G|² where that is known."""
    unit, shown = _shared_grad_sq(rows), [row for row in rows if row.variance.known]
    data = [bar for row in shown for bar in _bars(row, unit or 1.0)]
    parts = _present(data)
    if not parts:
        return None
    frame = pl.DataFrame(data, infer_schema_length=None)
    x = f"relative to {quantity('grad_sq').label}" if unit else quantity("mse").axis
    layers = stacked_layers(frame, parts, [row.label for row in rows], "N × T", x)
    layers = layers.properties(width=WIDTH, height=(ROW + 6) * len(rows))
    what = "relative to the squared signal |G|²" if unit else "not relative to the signal |G|², which is inconclusive"
    return themed(
        layers,
        "Where the error of the gradient comes from, split by split",
        f"At the same batch, {what}. Dot and line: mean squared error (variance where the bias is inconclusive) "
        "with its 95% interval; shorter is better." + ("" if len(shown) == len(rows) else " No bar: inconclusive."),
    )


def _stages(stages: Sequence[Stage]) -> Chart | None:
    """The same terms early, in the middle and late, each stage relative to its own largest error."""
    data, panels = [], []
    for stage in stages:
        panels.append(f"{stage.stage}, step {stage.step:,}")
        totals = [total.value for row in stage.rows if (total := _estimate(row, _total(row))).known and total.value]
        data += [bar | {"panel": panels[-1]} for row in stage.rows if totals for bar in _bars(row, max(totals))]
    parts = _present(data)
    if not parts or len(panels) < 2:
        return None
    rows = list(dict.fromkeys(row.label for stage in stages for row in stage.rows))
    frame = pl.DataFrame(data, infer_schema_length=None)
    layers = stacked_layers(frame, parts, rows, "N × T", "error, relative to the stage's largest")
    return themed(
        paneled(layers, panels, columns=len(panels), height=ROW * len(rows), x="independent"),
        "Does another split do better early or late?",
        "Error of the gradient by split at points of training. Compare bars within a panel: stages differ in scale. "
        "Dot and line: their sum with its 95% interval.",
    )


def _bars(row: SplitRow | StageRow, unit: float) -> list[dict[str, Any]]:
    """The bars of one split and the dot at their end, as rows of the figure's table."""
    drawn = [(order, name, part) for order, (name, part) in enumerate(_PARTS.items()) if _drawn(row, name)]
    marks = [*drawn, (None, _total(row), "total")]
    return [
        {"series": row.label, "panel": "", "part": part, **_ends(_estimate(row, name).over(unit)), "order": order}
        for order, name, part in marks
        if _estimate(row, name).known
    ]


def _present(data: list[dict[str, Any]]) -> list[str]:
    """The terms that some bar shows."""
    drawn = {bar["part"] for bar in data}
    return [part for part in _PARTS.values() if part in drawn]


def _estimate(row: GradientEstimates, name: str) -> Estimate:
    estimate: Estimate = getattr(row, name)
    return estimate


def _drawn(row: GradientEstimates, name: str) -> bool:
    """Whether a term has a bar: an inconclusive bias has none, and the total then leaves it out."""
    return _estimate(row, name).known and (name != "bias_sq" or row.bias_sq.resolved)


def _total(row: GradientEstimates) -> str:
    """The error where both of its parts are drawn, else the variance."""
    return "mse" if row.mse.resolved and _drawn(row, "bias_sq") else "variance"


def _ends(estimate: Estimate) -> dict[str, float | None]:
    """An estimate as columns of a table, where what is unknown is missing."""
    return {name: finite(getattr(estimate, name)) for name in ("value", "lo", "hi")}


def _curves(rows: Sequence[SplitRow], curves: pl.DataFrame) -> Chart | None:
    """Learning curves, one line for each split."""
    frame = curves.drop_nulls("return").filter(pl.col("return").is_finite())
    if frame.is_empty():
        return None
    names = {row.name: row.label for row in rows}
    frame = frame.with_columns(pl.col("series").replace(names))
    order = [name for name in names.values() if name in set(frame["series"])]
    seeds = frame["seed"].n_unique()
    return learning_curves(
        frame,
        "How well each split learns",
        f"Mean over {seeds} seeds; bands from the lowest to the highest." if seeds > 1 else "One seed.",
        order,
    )


def _speed(rows: Sequence[SplitRow]) -> Chart | None:
    """Environment steps per second against N."""
    speeds = [(row, fps(row)) for row in rows if row.fps.known]
    if not speeds:
        return None
    data = pl.DataFrame(
        [{"series": row.label, "num_envs": row.num_envs, **_ends(speed)} for row, speed in speeds],
        infer_schema_length=None,
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )
    chosen = [row.num_envs for row, _ in speeds]
    x = alt.X(
        "num_envs:Q",
        title="environments N (logarithmic)",
        scale=alt.Scale(type="log", base=2, nice=False, padding=16),
        axis=alt.Axis(values=chosen, format="d", grid=False),
    )
    base = alt.Chart(data).encode(x=x)
    y = alt.Y("value:Q", title="environment steps per second", axis=alt.Axis(format="~s"), scale=alt.Scale(zero=True))
    line = base.mark_line(strokeWidth=2, color=BLUE).encode(y=y)
    several = data["lo"].is_not_null().any()
    with_interval = base.transform_filter("isValid(datum.lo)")
    rule = [with_interval.mark_rule(color=BLUE, strokeWidth=2).encode(y="lo:Q", y2="hi:Q")] if several else []
    dot = base.mark_point(filled=True, size=64, color=BLUE, opacity=1).encode(
        y=y, tooltip=["series:N", alt.Tooltip("value:Q", format=",.0f")]
    )
    layers = layered(line, *rule, dot, data=data).properties(width=WIDTH, height=220)
    spread = ", with 95% intervals over seeds" if several else ", one seed"
    return themed(layers, "How fast each split runs", f"Training speed at the same batch{spread}.")


def _predicted(result: SplitResult) -> Chart | None:
    """Variances at splits that were not measured, among those that were."""
    if not result.predicted:
        return None
    kinds = ["measured", "predicted from blocks", "extrapolated"]
    rows: list[tuple[SplitRow | PredictedSplit, str]] = [(r, kinds[0]) for r in result.rows if r.variance.resolved]
    rows += [(p, kinds[2] if p.extrapolated else kinds[1]) for p in result.predicted]
    rows = sorted(((r, k) for r, k in rows if r.variance.known), key=lambda r: r[0].num_envs)
    data = pl.DataFrame(
        [{"series": r.label, "kind": k, **_ends(r.variance)} for r, k in rows],
        infer_schema_length=None,
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )
    series = list(dict.fromkeys(data["series"]))
    present = [k for k in kinds if k in set(data["kind"])]
    colors = dict(zip(kinds, [BLUE, ORANGE, GREY]))
    color = colored("kind", present, [colors[k] for k in present])
    base = alt.Chart(data).encode(y=rows_of(series, "N × T"), color=color)
    axis = alt.Axis(labelExpr=SHORT_NUMBER, tickCount=5)
    x = alt.X("value:Q", title=quantity("variance").axis, axis=axis, scale=alt.Scale(zero=True))
    shapes = ["diamond" if k == kinds[2] else "circle" for k in present]
    scale = alt.Scale(domain=present, range=shapes)
    shape = alt.Shape("kind:N", scale=scale, sort=present, legend=legend(present), title=None)
    layers = layered(
        base.transform_filter("isValid(datum.lo)").mark_rule(strokeWidth=2.2).encode(x="lo:Q", x2="hi:Q"),
        base.mark_point(filled=True, size=80, opacity=1).encode(x=x, shape=shape),
        data=data,
    ).properties(width=WIDTH, height=ROW * len(series))
    return themed(
        layers,
        "Predicted variance of splits that were not measured",
        "Variance with 95% intervals. Blocks: measured rows cut shorter, with new advantages. Extrapolated: as if "
        "gradients further apart than measured were uncorrelated, so there is no interval.",
    )
