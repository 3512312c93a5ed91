"""Figures: data in, Altair chart out. Pure; every chart can be saved as HTML, SVG, PNG and PDF."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from altair.utils import schemapi
from altair.vegalite import SCHEMA_VERSION

from trimtab.config import ConfigError
from trimtab.core.writing import write_atomically
from trimtab.training.records import MetricsRow

alt.data_transformers.disable_max_rows()

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b6fb6", "#e08a1e", "#3f8f5b", "#c0392b", "#7d5ba6", "#8a8f98"
PALETTE = [BLUE, ORANGE, GREEN, RED, PURPLE, GREY]
RAMP = ["#27408b", "#2f7fb8", "#35a394", "#86b94b", "#e3a72f", "#cf5b1f"]  # for things that have an order
FORMATS = (".png", ".svg", ".pdf", ".html", ".json")
PRINTED = (".svg", ".png", ".pdf")  # beside every page
WIDTH, HEIGHT, ROW = 520, 260, 34  # of a figure, and of one bar in it
SHORT_NUMBER = (  # labels of axes: 0, 0.02, 2e-5, 3e6
    "datum.value == 0 ? '0' : format(datum.value, abs(datum.value) < 1e-3 || abs(datum.value) >= 1e5 ? '~e' : '~g')"
)
STEPS = "datum.value == 0 ? '0' : format(datum.value, '~s')"  # 0, 50k, 1M
FONT = "Inter, Helvetica Neue, Helvetica, Arial, sans-serif"
LOOK: dict[str, Any] = {
    "font": FONT,
    "background": "white",
    "padding": 8,
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "titleColor": "#3c434d",
        "labelColor": "#5b6470",
        "gridColor": "#edf0f3",
        "domainColor": "#c9cfd6",
        "tickColor": "#c9cfd6",
        "titlePadding": 8,
    },
    "view": {"strokeWidth": 0},
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "symbolStrokeWidth": 3,
        "titleColor": "#3c434d",
        "labelColor": "#3c434d",
        "symbolOpacity": 1,
    },
    "range": {"category": PALETTE},
    "header": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelFontWeight": 600,
        "labelColor": "#3c434d",
        "title": None,
    },
}


def themed(chart: alt.TopLevelMixin, title: str | None = None, subtitle: str | None = None) -> alt.TopLevelMixin:
    """The one look of every figure."""
    if title:
        heading = alt.TitleParams(textwrap.wrap(title, 68), anchor="start", fontSize=15, fontWeight=600, offset=14)
        if subtitle:
            heading.subtitle, heading.subtitleColor, heading.subtitleFontSize = (
                textwrap.wrap(subtitle, 94),
                "#5b6470",
                12,
            )
            heading.subtitlePadding, heading.subtitleLineHeight = 6, 16
        chart = chart.properties(title=heading)
    configured: alt.TopLevelMixin = chart.configure(**LOOK)  # all at once: every call copies the chart with its data
    return configured


def ordered(count: int) -> list[str]:
    """So many colours along the ramp, for series that have an order."""
    if count <= 1:
        return [BLUE]
    places = [i * (len(RAMP) - 1) / (count - 1) for i in range(count)]
    return [_between(RAMP[int(p)], RAMP[min(int(p) + 1, len(RAMP) - 1)], p % 1) for p in places]


def _between(low: str, high: str, share: float) -> str:
    ends = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (low, high)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*ends))


def legend(labels: list[str], title: str | None = None, **options: Any) -> alt.Legend:
    """A legend above the figure, in as many columns as there is room for; a narrow page makes them fewer."""
    columns = max(1, min(len(labels), 480 // (7 * max(map(len, labels), default=1) + 28)))
    return alt.Legend(orient="top", title=title, columns=columns, labelLimit=300, **options)


def colored(
    field: str, labels: list[str], colors: list[str] | None = None, title: str | None = None, **options: Any
) -> alt.Color:
    """A colour for each label, with its legend."""
    scale = alt.Scale(domain=labels, range=colors or ordered(len(labels)))
    return alt.Color(f"{field}:N", scale=scale, sort=labels, legend=legend(labels, title, **options), title=title)


def of_lines(labels: list[str]) -> alt.Color:
    """A colour for each line called by its series, the same in every figure of a page."""
    return colored("series", labels, None if len(labels) > 2 else PALETTE[:2], symbolType="stroke")


def rows_of(labels: list[str], title: str | None) -> alt.Y:
    """An axis of named rows, its title above the names."""
    axis = alt.Axis(
        domain=False, ticks=False, titleAngle=0, titleAlign="right", titleBaseline="bottom", titleX=-6, titleY=-4
    )
    return alt.Y("series:N", sort=labels, title=title if len(labels) > 1 else None, axis=axis)


def lag_axis() -> alt.X:
    """Steps between two samples of a row."""
    axis = alt.Axis(grid=False, values=[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
    return alt.X("lag:Q", title="lag k, steps (logarithmic)", axis=axis, scale=alt.Scale(type="log", nice=False))


def paneled(chart: Any, panels: list[str], columns: int = 2, height: Any = HEIGHT, **resolve: str) -> Any:
    """One panel of the figure for each label in the column `panel`; a page may lay them out in fewer columns."""
    if len(panels) <= 1:
        return chart.properties(width=WIDTH, height=height)
    columns = min(columns, len(panels)) if len(panels) != 4 or columns != 3 else 2
    width = (640 if columns > 2 else 600) // columns - 20
    faceted = chart.properties(width=width, height=height).facet(
        facet=alt.Facet("panel:N", sort=panels, title=None, header=alt.Header(labelAnchor="start")), columns=columns
    )
    faceted = faceted.properties(usermeta={"columns": columns}, spacing=24)
    if len(panels) % columns:  # a shared axis would also stand where there is no panel
        faceted = faceted.resolve_axis(x="independent")
    return faceted.resolve_scale(**resolve) if resolve else faceted


def layered(*charts: alt.Chart | alt.LayerChart, data: pl.DataFrame) -> alt.LayerChart:
    """Charts of one table over each other, the last on top."""
    chart = alt.layer(*charts, data=data)
    assert isinstance(chart, alt.LayerChart)
    return chart


def save(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart; the ending chooses the format. HTML is one file that needs no network."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError("save", str(path), f"must end in one of {', '.join(FORMATS)}")
    save_all({path.stem: chart}, path.parent, (path.suffix,))


def save_all(charts: Mapping[str, alt.TopLevelMixin], folder: Path, suffixes: Sequence[str] = PRINTED) -> None:
    """Every chart as NAME.svg, .png and .pdf, or in other formats. Vega draws each once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in charts.items():
        drawing = _Drawing(chart)
        for suffix in suffixes:
            write_atomically(folder / f"{name}{suffix}", drawing.as_bytes(suffix.lower()))


class _Drawing:
    """A chart in any format; pictures are made from its SVG."""

    def __init__(self, chart: alt.TopLevelMixin):
        self.chart = chart

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        return self.chart.to_dict(validate=False)  # as `drawing`: the tests have checked it

    @functools.cached_property
    def svg(self) -> str:
        return vl_convert.vegalite_to_svg(self.spec, vl_version="_".join(SCHEMA_VERSION.split(".")[:2]))

    def as_bytes(self, suffix: str) -> bytes:
        match suffix:
            case ".svg":
                return self.svg.encode()
            case ".png":
                return vl_convert.svg_to_png(self.svg, scale=2.0)
            case ".pdf":
                return vl_convert.svg_to_pdf(self.svg)
            case ".json":
                return json.dumps(self.spec, indent=2, sort_keys=True).encode()
        from trimtab.show.blocks import Figure
        from trimtab.show.html_page import page_of_blocks

        return page_of_blocks("", [Figure(self.chart)]).encode()


@contextmanager
def drawing() -> Iterator[None]:
    """Altair checks every part of a chart as it is made, over and over, which takes longer than drawing it; the tests
    have checked ours."""
    with schemapi.debug_mode(False):
        yield


def learning_curve_of(rows: list[MetricsRow], title: str) -> alt.TopLevelMixin:
    """The training return of one run."""
    returned = [row for row in rows if row.mean_return is not None]
    frame = pl.DataFrame({"step": [row.step for row in returned], "return": [row.mean_return for row in returned]})
    return learning_curves(frame.with_columns(pl.lit("").alias("series"), pl.lit(0).alias("seed")), title)


def thin(frame: pl.DataFrame, points: int = 300) -> pl.DataFrame:
    """Average a curve (step, return, series, seed) into at most `points` bins of steps."""
    if frame.is_empty():
        return frame
    width = max(1, max(frame["step"].to_list()) // points)
    return (
        frame.with_columns((pl.col("step") // width * width + width // 2).alias("step"))
        .group_by("series", "seed", "step", maintain_order=True)
        .agg(pl.col("return").mean())
    )


def on_cells() -> Any:
    """Ink of numbers in cells coloured from −1 to 1: white on the strongest, which stays legible in the dark too."""
    return alt.condition("abs(datum.value) > 0.8", alt.value("white"), alt.value("#23282f"))


def over_steps(ticks: int = 6) -> alt.X:
    """Environment steps, up to where the data end."""
    axis = alt.Axis(labelExpr=STEPS, grid=False, tickCount=ticks, labelFlush=12)
    return alt.X("step:Q", title="environment steps", axis=axis, scale=alt.Scale(nice=False, domainMin=0))


MEASURES = {
    "evaluated": "return of the current policy (evaluated)",
    "credited": "return of training episodes, where they were played",
}


def _measure_of(frame: pl.DataFrame) -> str:
    """What the returns of learning curves are, as the title of their axis."""
    if "measure" in frame.columns:
        return "; ".join(MEASURES.get(name, name) for name in frame["measure"].unique(maintain_order=True))
    return "mean return of the episodes that end" if "ended" in frame.columns else "return of the last 100 episodes"


def learning_curves(
    frame: pl.DataFrame, title: str, subtitle: str | None = None, order: list[str] | None = None
) -> alt.TopLevelMixin:
    """Return against environment steps, a line per series: mean over seeds, band from the lowest to the highest."""
    summary = (
        thin(frame)
        .group_by("series", "step", maintain_order=True)
        .agg(
            pl.col("return").mean().alias("mean"),
            pl.col("return").min().alias("low"),
            pl.col("return").max().alias("high"),
        )
        .sort("series", "step")
    )
    several = frame["series"].n_unique() > 1
    x = over_steps()
    labels = order or sorted(frame["series"].unique())
    color = of_lines(labels) if several else alt.value(BLUE)
    base = alt.Chart(summary).encode(x=x, color=color)
    title_y = _measure_of(frame)
    y = alt.Y("mean:Q", title=title_y, scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q"), y2="high:Q")
    tooltip = [
        alt.Tooltip("series:N"),
        alt.Tooltip("step:Q", format=",.0f"),
        alt.Tooltip("mean:Q", format=".4g"),
    ]
    line = base.mark_line(strokeWidth=2.2).encode(y=y, tooltip=tooltip if several else tooltip[1:])
    return themed((band + line).properties(width=WIDTH, height=HEIGHT + 40), title, subtitle)
