"""Figures of a split: what each way of splitting the batch costs and gives."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from trimtab.core.quantities import labels, quantity
from trimtab.core.wording import split_name, split_text
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
    learning_curves,
    legend,
    paneled,
    rows_of,
    themed,
)

Chart = alt.TopLevelMixin
PARTS = labels("individual", "covariance", "bias_sq")
NAMES = ("split_error", "learning_curves", "split_stages", "speed", "predicted")


def figures(result: dict[str, Any]) -> dict[str, Chart]:
    """The figures that compare splits, those there are data for."""
    charts = dict(zip(NAMES, (_error(result), _curves(result), _stages(result), _speed(result), _predicted(result))))
    return {name: chart for name, chart in charts.items() if chart is not None}


def name_of(row: dict[str, Any]) -> str:
    """A split as results name it."""
    return split_name(row["num_envs"], row["num_steps"])


def label(row: dict[str, Any]) -> str:
    return split_text(row["num_envs"], row["num_steps"])


def _shared_grad_sq(rows: list[dict[str, Any]]) -> float | None:
    """|G|² that errors are relative to: MSE over relative MSE, the same for all splits."""
    for row in rows:
        whole, relative = row["mse"].get("value"), row["mse_relative"].get("value")
        if row["mse_relative"].get("resolved") and whole and relative:
            return whole / relative
    return None


def _error(result: dict[str, Any]) -> Chart | None:
    """Individual, covariance and squared bias of each split, relative to |G|² where that is known."""
    rows, unit = result["rows"], _shared_grad_sq(result["rows"])
    resolved = [row for row in rows if row["variance"].get("resolved")]
    data = []
    for row in resolved:
        for order, (name, part) in enumerate(PARTS.items()):
            if _drawn(row, name):
                data.append(_scaled(row, name, part, unit or 1.0) | {"order": order})
        total = _total(row)
        if row[total].get("value") is not None:
            data.append(_scaled(row, total, "total", unit or 1.0) | {"order": None})
    parts = [part for part in PARTS.values() if any(d["part"] == part for d in data)]
    if not parts:
        return None
    frame = pl.DataFrame(data, infer_schema_length=None)
    x = f"relative to {quantity('grad_sq').label}" if unit else quantity("mse").axis
    layers = stacked_layers(frame, parts, [label(r) for r in rows], "N × T", x)
    layers = layers.properties(width=WIDTH, height=(ROW + 6) * len(rows))
    what = "relative to the squared signal |G|²" if unit else "not relative to the signal |G|², which is not resolved"
    return themed(
        layers,
        "Where the error of the gradient comes from, split by split",
        f"At the same batch, {what}. Dot and line: mean squared error (variance where the bias is not "
        "resolved) with its 95% interval; shorter is better." + (" No bar: not resolved." if resolved != rows else ""),
    )


def _stages(result: dict[str, Any]) -> Chart | None:
    """The same terms early, in the middle and late, each stage relative to its own largest error."""
    data, panels = [], []
    for stage in result.get("stages") or ():
        panels.append(f"{stage['stage']}, step {stage['step']:,}")
        totals = [row[_total(row)].get("value") for row in stage["rows"]]
        unit = max((t for t in totals if t), default=None)
        for row in stage["rows"] if unit else ():
            terms = [(name, part) for name, part in PARTS.items() if _drawn(row, name)]
            scaled_terms = [_scaled(row, name, part, unit) | {"order": i} for i, (name, part) in enumerate(terms)]
            scaled_terms.append(_scaled(row, _total(row), "total", unit) | {"order": None})
            data += [item | {"panel": panels[-1]} for item in scaled_terms]
    parts = [part for part in PARTS.values() if any(d["part"] == part for d in data)]
    if not parts or len(panels) < 2:
        return None
    rows = list(dict.fromkeys(label(row) for stage in result["stages"] for row in stage["rows"]))
    layers = stacked_layers(
        pl.DataFrame(data, infer_schema_length=None), parts, rows, "N × T", "error, relative to the stage's largest"
    )
    return themed(
        paneled(layers, panels, columns=len(panels), height=ROW * len(rows), x="independent"),
        "Does another split do better early or late?",
        "Error of the gradient by split at points of training. Compare bars within a panel: stages differ in scale. "
        "Dot and line: their sum with its 95% interval.",
    )


def _drawn(row: dict[str, Any], name: str) -> bool:
    """Whether a term has a bar: a bias that is not resolved has none, as the total then leaves it out."""
    return row[name].get("value") is not None and (name != "bias_sq" or bool(row[name].get("resolved")))


def _total(row: dict[str, Any]) -> str:
    """The error where both of its parts are drawn, else what is drawn of it."""
    return "mse" if row["mse"].get("resolved") and _drawn(row, "bias_sq") else "variance"


def _scaled(row: dict[str, Any], name: str, part: str, unit: float) -> dict[str, Any]:
    scaled = {k: None if row[name].get(k) is None else row[name][k] / unit for k in ("value", "lo", "hi")}
    return {"series": label(row), "panel": "", "part": part, **scaled}


def _curves(result: dict[str, Any]) -> Chart | None:
    """Learning curves, one line for each split."""
    frame = result["curves"].drop_nulls("return").filter(pl.col("return").is_finite())
    if frame.is_empty():
        return None
    names = {name_of(r): label(r) for r in result["rows"]}
    frame = frame.with_columns(pl.col("series").replace(names))
    order = [name for name in names.values() if name in set(frame["series"])]
    seeds = frame["seed"].n_unique()
    return learning_curves(
        frame,
        "How well each split learns",
        f"Mean over {seeds} seeds; bands from the lowest to the highest." if seeds > 1 else "One seed.",
        order,
    )


def _speed(result: dict[str, Any]) -> Chart | None:
    """Environment steps per second against N."""
    speeds = [(r, fps(r).as_dict()) for r in result["rows"] if r["fps"].get("value")]
    if not speeds:
        return None
    data = pl.DataFrame(
        [{"series": label(r), "num_envs": r["num_envs"], **f} for r, f in speeds],
        infer_schema_length=None,
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )
    chosen = [r["num_envs"] for r, _ in speeds]
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
    layers = alt.layer(line, *rule, dot, data=data).properties(width=WIDTH, height=220)
    spread = ", with 95% intervals over seeds" if several else ", one seed"
    return themed(layers, "How fast each split runs", f"Training speed at the same batch{spread}.")


def _predicted(result: dict[str, Any]) -> Chart | None:
    """Variances at splits that were not measured, among those that were."""
    if not result["predicted"]:
        return None
    kinds = ["measured", "predicted from blocks", "extrapolated"]
    guesses = [(p, kinds[2] if p["extrapolated"] else kinds[1]) for p in result["predicted"]]
    rows = [(r, kinds[0]) for r in result["rows"] if r["variance"].get("resolved")] + guesses
    rows = sorted(((r, k) for r, k in rows if r["variance"].get("value") is not None), key=lambda r: r[0]["num_envs"])
    data = pl.DataFrame(
        [{"series": label(r), "kind": k, **{c: r["variance"].get(c) for c in ("value", "lo", "hi")}} for r, k in rows],
        infer_schema_length=None,
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )
    labels = list(dict.fromkeys(data["series"]))
    present = [k for k in kinds if k in set(data["kind"])]
    colors = dict(zip(kinds, [BLUE, ORANGE, GREY]))
    color = colored("kind", present, [colors[k] for k in present])
    base = alt.Chart(data).encode(y=rows_of(labels, "N × T"), color=color)
    axis = alt.Axis(labelExpr=SHORT_NUMBER, tickCount=5)
    x = alt.X("value:Q", title=quantity("variance").axis, axis=axis, scale=alt.Scale(zero=True))
    shapes = ["diamond" if k == kinds[2] else "circle" for k in present]
    scale = alt.Scale(domain=present, range=shapes)
    shape = alt.Shape("kind:N", scale=scale, sort=present, legend=legend(present), title=None)
    layers = alt.layer(
        base.transform_filter("isValid(datum.lo)").mark_rule(strokeWidth=2.2).encode(x="lo:Q", x2="hi:Q"),
        base.mark_point(filled=True, size=80, opacity=1).encode(x=x, shape=shape),
        data=data,
    ).properties(width=WIDTH, height=ROW * len(labels))
    return themed(
        layers,
        "What splits that were not measured should do",
        "Variance with 95% intervals. Blocks: measured rows cut shorter, advantages computed anew. Extrapolated: as if "
        "gradients further apart than measured were uncorrelated, so without an interval.",
    )
