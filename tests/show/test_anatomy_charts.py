"""Figures say what the table holds, and every one can be saved in every format."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from show.examples import measured

from trimtab.gradient.measurements import SCHEMA, frame_of
from trimtab.show import cosine_figures, probe_figures, probe_series, style

ALL = {
    "variance",
    "bias_variance",
    "lag_covariance",
    "cosine_correlation",
    "covariance_correlation",
    "cosine_distributions",
    "cosine_distributions_long",
    "trajectory_alignment",
    "batch_alignment",
    "replicate_cosines",
    "noise_scale",
    "noise_scale_environments",
    "minibatch_drift",
    "clip_bias",
}
TABLES = {
    "one": measured(),
    "splits": measured(((4, 64), (16, 16))),
    "steps": measured(steps=tuple(range(1000, 13000, 1000))),
    "lambdas": measured(lambdas=(0.0, 0.95, 1.0)),
    "everything": measured(((4, 64), (16, 16)), (1000, 2000), (0.0, 1.0)),
}


def data_of(chart) -> list[dict]:
    return max(chart.to_dict()["datasets"].values(), key=len)


def encodings(part) -> list[dict]:
    inner = [e for p in part.get("layer", []) for e in encodings(p)] + (
        encodings(part["spec"]) if "spec" in part else []
    )
    return [part["encoding"], *inner] if "encoding" in part else inner


def titles_of(spec: dict, axis: str) -> set[str]:
    return {e[axis]["title"] for e in encodings(spec) if isinstance(e.get(axis), dict) and e[axis].get("title")}


def rows_of(spec: dict) -> list[dict]:
    """Axes of named rows, which need no title."""
    return [e["y"] for e in encodings(spec) if e.get("y", {}).get("type") == "nominal"]


@pytest.mark.parametrize("name", TABLES)
def test_every_figure_is_drawn_with_a_title_and_axis_titles(name):
    made = probe_figures.of_frame(TABLES[name])
    assert set(made) == ALL
    for chart in made.values():
        spec = chart.to_dict()
        assert spec["title"]["text"] and spec["title"]["subtitle"]
        assert titles_of(spec, "x") and (titles_of(spec, "y") or len(rows_of(spec)) > 0)


def test_nothing_is_drawn_from_nothing():
    assert probe_figures.of_frame(pl.DataFrame(schema=SCHEMA)) == {}
    assert probe_figures.of_frame(measured().filter(pl.col("quantity") == "note")) == {}


def test_only_what_the_table_holds_is_drawn():
    some = measured().filter(pl.col("quantity").is_in(["variance", "individual", "covariance", "ess"]))
    assert set(probe_figures.of_frame(some)) == {"variance"}


def test_bars_are_the_terms_and_the_dot_their_sum():
    rows = {r["part"]: r for r in data_of(probe_figures._variance(TABLES["one"]))}
    parts = [rows[name]["value"] for name in ("individual", "within rows", "between rows")]
    assert sum(parts) == pytest.approx(rows["total"]["value"])
    assert rows["total"]["lo"] == pytest.approx(0.8 * rows["total"]["value"])


def test_terms_of_very_different_sizes_are_relative_to_each_row():
    frame = measured(steps=(1000, 100_000))
    rows = data_of(probe_figures._variance(frame))
    assert [r["value"] for r in rows if r["part"] == "individual"] == pytest.approx([1.0, 1.0])
    assert [r["value"] for r in rows if r["part"] == "within rows"] == pytest.approx([1 / 3, 1 / 3])


def test_lag_covariance_is_relative_to_lag_zero_and_stops_at_half_of_the_row():
    rows = data_of(probe_figures._lag_covariance(TABLES["one"]))
    by_lag = {r["lag"]: r["value"] for r in rows}
    assert by_lag[1] == pytest.approx(0.7) and by_lag[3] == pytest.approx(0.7**3)
    assert max(by_lag) <= 32 and min(by_lag) == 1


def test_long_lags_average_and_none_is_lost():
    frame = probe_series.named(TABLES["one"]).pick("covariance_within")
    binned = probe_series.by_lag(frame)
    assert binned.height < 32 and binned["lag"].max() > 20
    assert binned.filter(pl.col("lag") <= 8)["lag"].to_list() == [float(k) for k in range(1, 9)]


def test_histograms_are_densities_of_the_same_cosines():
    chart = cosine_figures._cosine_distributions(TABLES["one"], (1, 3, 5, 7))
    rows = pl.DataFrame(data_of(chart))
    widths = 2 / cosine_figures.BINS
    masses = rows.group_by("panel", "kind").agg((pl.col("density") * widths).sum())["density"]
    np.testing.assert_allclose(masses, 1.0)
    assert rows["panel"].n_unique() == 4
    left = rows.filter((pl.col("kind") == cosine_figures.WITHIN) & (pl.col("x") < -0.3))
    assert left["density"].sum() == 0  # cosines within were made from −0.2 up


def test_splits_too_short_for_a_lag_are_left_out_of_its_figure():
    rows = data_of(cosine_figures._cosine_distributions(TABLES["splits"], (1, 5, 10, 40)))
    assert {r["panel"].split(":")[0] for r in rows} == {"4 × 64"}


def test_the_heat_map_has_a_cell_for_every_pair():
    rows = data_of(cosine_figures._replicate_cosines(TABLES["splits"]))
    assert len(rows) == 2 * 25
    assert all(r["value"] == 1.0 for r in rows if r["i"] == r["j"])


def test_unresolved_noise_scales_are_named_not_drawn():
    rows = data_of(probe_figures._noise_scale_environments(TABLES["splits"]))
    found = {r["series"]: (r["text"], r["value"]) for r in rows}
    assert found == {"4 × 64": ("", 18.75), "16 × 16": ("inconclusive", None)}


def test_an_infinite_end_is_cut_and_marked():
    rows = data_of(probe_figures._noise_scale(TABLES["one"]))
    correlated = next(r for r in rows if r["kind"] == "as correlated")
    assert correlated["open"] and np.isfinite(correlated["hi"])


def test_many_checkpoints_are_thinned_and_keep_both_ends():
    kept = sorted(probe_series.few(TABLES["steps"])["step"].unique())
    assert len(kept) == 5 and kept[0] == 1000 and kept[-1] == 12000


def test_a_probe_made_twice_is_drawn_once():
    twice = pl.concat([TABLES["one"], TABLES["one"]])
    assert data_of(probe_figures._variance(twice)) == data_of(probe_figures._variance(TABLES["one"]))


def test_updates_that_do_not_depend_on_lambda_are_drawn_once():
    assert len(data_of(probe_figures._minibatch_drift(TABLES["lambdas"]))) == 16


def test_the_order_of_colours_follows_the_ramp():
    assert style.ordered(6) == style.RAMP and style.ordered(1) == [style.BLUE]


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html"])
def test_every_figure_of_a_real_probe_saves(probed, tmp_path, suffix):
    made = probe_figures.of_frame(frame_of(probed[:4]))
    assert {"variance", "lag_covariance", "cosine_correlation", "replicate_cosines", "minibatch_drift"} <= set(made)
    start = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!doctype html>"}[suffix]
    for name, chart in made.items():
        style.save(chart, tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"{name}{suffix}").read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == len(made)


def test_reports_do_not_import_jax():
    code = "import sys, trimtab.show.split_page, trimtab.show.probe_tables; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
