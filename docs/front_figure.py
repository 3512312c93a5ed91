"""The figure on the front page: `python docs/front_figure.py` draws it from the published answers of `trimtab split`.

It answers one question: how short may the rollouts of a batch be? Each point is a split that was trained from scratch
with several seeds. The x axis is T in horizons, 1/(1 − γλ) steps, so that environments and discounts can be compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import altair as alt
import polars as pl

from trimtab.core.wording import split_text
from trimtab.show import style

RESULTS = Path(__file__).parent / "results"
SPLITS = ("split-pendulum-099", "split-pendulum-09", "split-cartpole", "split-frozenlake8x8")
TIED, LESS = "learned as much as the best split (statistically tied)", "learned significantly less"
ENOUGH = 3.8  # horizons, from which no split learned less


@dataclass(frozen=True)
class Point:
    """One split of one study: T in horizons, and the mean return over training with its 95% interval."""

    study: str
    panel: str
    split: str
    horizons: float
    value: float
    lo: float
    hi: float
    outcome: str


def points() -> list[Point]:
    """Every split of the published studies."""
    return [point for study in SPLITS for point in _points(study)]


def _points(study: str) -> list[Point]:
    answer = json.loads((RESULTS / f"{study}.json").read_text())
    less = {out["split"] for out in answer["ruled_out"] if out["by"] == "learned less"}
    panel = f"{answer['env_id']}, γ = {answer['gamma']:g}, batch of {answer['batch']:,}"
    found = []
    for row in answer["rows"]:
        n, t, area = row["num_envs"], row["num_steps"], row["auc"]
        outcome = LESS if f"{n}x{t}" in less else TIED
        horizons = t / answer["horizon_gamma_lambda"]
        found.append(Point(study, panel, split_text(n, t), horizons, area["value"], area["lo"], area["hi"], outcome))
    return found


def figure(drawn: list[Point]) -> alt.TopLevelMixin:
    """One panel per study; red points learned significantly less."""
    first = pl.col("panel").is_first_distinct()  # one shade in each panel
    frame = pl.DataFrame(drawn).with_columns(pl.when(first).then(ENOUGH).alias("enough"), pl.lit(60.0).alias("end"))
    ticks = alt.Axis(values=[0.2, 0.5, 1, 2, 4, 10, 20, 40], format="~g", grid=False)
    x = alt.X(
        "horizons:Q", title="T in horizons of 1/(1 − γλ) steps", axis=ticks,
        scale=alt.Scale(type="log", domain=[0.15, 60], nice=False),
    )  # fmt: skip
    scaled = {"title": "mean return over training", "scale": alt.Scale(zero=False)}
    color = style.colored("outcome", [TIED, LESS], [style.BLUE, style.RED])
    band = alt.Chart(frame).mark_rect(color=style.GREEN, opacity=0.12).encode(x=alt.X("enough:Q"), x2="end:Q")
    base = alt.Chart(frame).encode(x=x, color=color)
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y("lo:Q", **scaled), y2="hi:Q")
    dot = base.mark_point(filled=True, size=70, opacity=1).encode(y=alt.Y("value:Q", **scaled))
    name = base.mark_text(dy=-12, dx=4, align="left", fontSize=11).encode(y=alt.Y("value:Q", **scaled), text="split:N")
    panels = list(dict.fromkeys(point.panel for point in drawn))
    chart = style.paneled(alt.layer(band, interval, dot, name), panels, 2, 170, y="independent")
    return style.themed(chart, title(drawn), SUBTITLE)


SUBTITLE = (
    "Each point is one N × T split of the same batch, trained from scratch with 3 to 9 seeds; 95% intervals. "
    "The horizon 1/(1 − γλ) is how far an advantage looks ahead; the shade begins at about 4 of them."
)


def title(drawn: list[Point]) -> str:
    """The answer, which must be what the points say."""
    if any(point.outcome == LESS and point.horizons >= ENOUGH for point in drawn):
        raise ValueError("a split with long rollouts learned less: the figure needs another title")
    return "How short may rollouts be? At about 4 horizons or more, no split of the batch learned less"


if __name__ == "__main__":
    style.save(figure(points()), RESULTS / "how-to-split.svg")
