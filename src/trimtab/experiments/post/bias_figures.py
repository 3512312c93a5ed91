"""Figures of the post's study of bias."""

from __future__ import annotations

import polars as pl

from trimtab.experiments.figures import Chart, effects, lines
from trimtab.math.stats import mean_interval


def exact_bias(table: pl.DataFrame, environments: list[str]) -> Chart:
    """bias² / |G_T|² against T, a line for each stage (mean of logarithms over seeds), a panel for each MDP."""
    names = ["early", "middle", "late"]
    rows = []
    for (environment, step, num_steps), own in table.group_by("environment", "step", "num_steps", maintain_order=True):
        steps = _steps(table, environment)
        relative = (own["bias_sq"] / own["true_grad_sq"]).log()
        e = mean_interval(relative.drop_nulls().to_list())
        ends = [float(pl.Series([v]).exp()[0]) for v in (e.value, e.lo, e.hi)]
        series = names[steps.index(step) * 2 // max(1, len(steps) - 1)] if len(steps) > 1 else names[-1]
        rows.append((environment, series, num_steps, *ends))
    schema = ["panel", "series", "num_steps", "value", "lo", "hi"]
    data = pl.DataFrame(rows, schema=schema, orient="row").sort("panel", "series", "num_steps")
    return lines(
        data,
        "num_steps",
        "T, steps of a row (logarithmic)",
        "bias² / |true gradient|²",
        "Bias against the length of rows, exactly",
        "Squared distance of the expected batch gradient from the true one, relative to the true one's square; "
        "geometric mean over seeds with its 95% interval.",
        series=[n for n in names if n in set(data["series"])],
        panels=environments,
        log_x=True,
        log_y=True,
    )


def _steps(table: pl.DataFrame, environment: str) -> list[int]:
    return sorted(set(table.filter(pl.col("environment") == environment)["step"]))


def sampled_bias(table: pl.DataFrame) -> Chart:
    """bias² against T in variances of a sample, with the interval over seeds."""
    wide = table.pivot(on="quantity", index=["environment", "seed", "num_envs", "num_steps"], values="value")
    wide = wide.with_columns(
        (pl.col("bias_sq") / (pl.col("individual") * pl.col("num_envs") * pl.col("num_steps"))).alias("value")
    )
    rows = []
    for (environment, num_steps), own in wide.group_by("environment", "num_steps", maintain_order=True):
        e = mean_interval(own["value"].drop_nulls().to_list())
        rows.append((environment, num_steps, e.value, e.lo, e.hi))
    data = pl.DataFrame(rows, schema=["series", "num_steps", "value", "lo", "hi"], orient="row")
    return lines(
        data.sort("series", "num_steps"),
        "num_steps",
        "T, steps of a row (logarithmic)",
        "bias², in variances of a sample",
        "Bias against the length of rows, sampled",
        "Batches of 1,024 samples; paired with the same rows continued past every cut.",
        log_x=True,
    )


def draws(table: pl.DataFrame) -> Chart:
    """bias² of rows, of single draws and their distance, with intervals over seeds."""
    names = {"rows": "bias² of rows", "single": "bias² of independent draws", "gap": "squared distance of the two"}
    rows = []
    for (environment,), own in table.group_by("environment", maintain_order=True):
        for column, name in names.items():
            e = mean_interval((own[column] / own["unit"]).to_list())
            rows.append({"row": environment, "series": name, "value": e.value, "lo": e.lo, "hi": e.hi})
    return effects(
        pl.DataFrame(rows),
        "in squared sizes of one sample's error",
        "Bias of correlated rows beside that of independent draws",
        "Mean over seeds with its 95% interval; squares of noise are taken out, so values below 0 are possible.",
    )
