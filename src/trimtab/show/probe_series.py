"""Names for the probes of a table: what is told apart by colour, what by panel, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from trimtab.core.wording import split_text
from trimtab.gradient.measurements import with_start

KEYS = ("num_envs", "num_steps", "gae_lambda", "step", "start")
TITLES = {"split": "N × T", "gae_lambda": None, "step": None, "start": None}  # where the label does not say it


class Series(NamedTuple):
    """A table with the columns `series` (colour) and `panel`, the labels of each in order, and what a series is."""

    frame: pl.DataFrame
    series: list[str]
    panels: list[str]
    title: str | None

    def pick(self, *quantities: str) -> pl.DataFrame:
        """The rows of some quantities that have a value."""
        return self.frame.filter(pl.col("quantity").is_in(quantities) & pl.col("value").is_not_null())

    def present(self, data: pl.DataFrame) -> list[str]:
        """The panels that some data have something for."""
        return [p for p in self.panels if p in set(data["panel"])]

    @property
    def where(self) -> str:
        """For a subtitle: which probe this is, if it is only one."""
        return f"At {self.series[0]}".replace(" × ", "\u00a0×\u00a0") if len(self.series) == 1 else ""


def named(frame: pl.DataFrame) -> Series:
    """The first of split, λ, checkpoint and start that varies becomes the series; what else varies, the panels."""
    frame = _tidy(frame)
    probes = frame.select(KEYS).unique().sort(KEYS)
    varies = [k for k in ("split", "gae_lambda", "step", "start") if _varies(probes, k)]
    first, rest = (varies or ["split"])[0], varies[1:]
    rows = probes.to_dicts()
    series = [_label(first, row) for row in rows]
    panels = [", ".join(_label(k, row) for k in reversed(rest)) for row in rows]
    names = probes.with_columns(pl.Series("series", series, pl.String), pl.Series("panel", panels, pl.String))
    by_panel = [panels[i] for i in sorted(range(len(rows)), key=lambda i: _rank(rest, rows[i]))]
    return Series(
        frame.join(names, on=list(KEYS), how="left", maintain_order="left"),
        list(dict.fromkeys(series)),
        list(dict.fromkeys(by_panel)),
        TITLES[first],
    )


def measured(frame: pl.DataFrame, *quantities: str) -> pl.DataFrame:
    """The probes that measured some quantities, and those only: what was not measured gets no place in a figure."""
    return frame.filter(pl.col("quantity").is_in(quantities))


def last_step(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Only the last checkpoint, where something else than the checkpoint varies too; and words to say so."""
    frame = with_start(frame)
    probes = frame.select(KEYS).unique()
    if not _varies(probes, "step") or not (_varies(probes, "split") or _varies(probes, "gae_lambda")):
        return frame, ""
    step = max(frame["step"].to_list())
    return frame.filter(pl.col("step") == step), f"Step {step:,}, the last probed."


def few(frame: pl.DataFrame, most: int = 5) -> pl.DataFrame:
    """At most so many checkpoints, evenly spread and with the first and the last."""
    steps = sorted(frame["step"].unique())
    if len(steps) <= most:
        return frame
    chosen = {steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)}
    return frame.filter(pl.col("step").is_in(list(chosen)))


def by_lag(data: pl.DataFrame, exact: int = 8) -> pl.DataFrame:
    """Lags up to 8 as they are and beyond in bins that grow, so that long, noisy lags average; up to T/2."""
    data = data.filter((pl.col("lag") > 0) & (pl.col("lag") <= pl.col("num_steps") // 2))
    grown = (exact * 1.12 ** ((pl.col("lag") / exact).log(1.12).floor())).round(1)
    bins = pl.when(pl.col("lag") <= exact).then(pl.col("lag").cast(pl.Float64)).otherwise(grown)
    means = [pl.col(c).mean() for c in ("lag", "value", "lo", "hi")]
    return data.group_by("series", "panel", bins.alias("bin"), maintain_order=True).agg(means).drop("bin")


def _varies(probes: pl.DataFrame, key: str) -> bool:
    columns = ["num_envs", "num_steps"] if key == "split" else [key]
    return probes.select(columns).unique().height > 1


def _label(key: str, row: Mapping[str, Any]) -> str:
    if key == "split":
        return split_text(row["num_envs"], row["num_steps"])
    if key == "start":
        return f"starts {row['start']}"
    return f"λ = {row['gae_lambda']:g}" if key == "gae_lambda" else f"step {row['step']:,}"


def _rank(keys: list[str], row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((row["num_envs"], row["num_steps"]) if k == "split" else row[k] for k in reversed(keys))


def _tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """Not-a-number becomes missing; of a probe made twice the later one counts (single values of both are kept)."""
    frame = with_start(frame).with_columns(pl.col("value", "lo", "hi").fill_nan(None))
    single = pl.col("quantity").str.ends_with("_value")
    once = frame.filter(~single).unique(["quantity", *KEYS, "lag", "note"], keep="last", maintain_order=True)
    return pl.concat([once, frame.filter(single)])
