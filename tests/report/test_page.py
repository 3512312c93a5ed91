"""Pages open in a real browser, from disk: everything drawn, nothing fetched, nothing wider than the window."""

import pytest
from report.browser import Browser
from report.examples import curves_of, measured, result_of

from trimtab.config import Config
from trimtab.report import numbers, page, style
from trimtab.report.split import figures
from trimtab.report.split.page import split_page

READY = "document.documentElement.dataset.ready === '1' && document.readyState === 'complete'"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SHARED = 0.9e-5


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def result(splits, config):
    return result_of(splits, curves_of(["4x16", "8x8"]), config, SHARED)


@pytest.fixture(scope="module")
def large():
    frame = measured(((4, 256), (16, 64), (64, 16)), (1000, 2000))
    return result_of(frame, curves_of(["4x256", "16x64", "64x16"]), Config(num_envs=4, num_steps=256), SHARED)


@pytest.fixture(scope="module")
def pages(result, large, tmp_path_factory):
    """The pages of both results, written."""
    folder = tmp_path_factory.mktemp("pages")
    for name, given in (("real", result), ("large", large)):
        (folder / f"{name}.html").write_text(split_page(given), encoding="utf-8")
    return folder


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["real", "large"])
def test_the_split_page_is_whole(browser, pages, which, width):
    path = pages / f"{which}.html"
    visit = browser.open(path, width, READY)
    specs = browser.run("document.querySelectorAll('script[type=\"application/json\"]').length")
    assert specs >= 10
    assert browser.run("document.querySelectorAll('div.chart svg.marks').length") == specs
    assert browser.run("document.querySelectorAll('div.chart[data-drawn]').length") == specs
    assert visit.errors == []
    assert visit.requests == [path.resolve().as_uri()]
    assert browser.run("performance.getEntriesByType('resource').length") == 0
    assert browser.run("window.innerWidth") == width
    assert browser.run(OVERFLOW) <= 0
    edges = "Math.max(...[...document.querySelectorAll('svg.marks')].map(s => s.getBoundingClientRect().right))"
    assert browser.run(edges) <= width


def test_figures_follow_the_window(browser, pages):
    browser.open(pages / "real.html", 1280, READY)
    before = browser.run("document.querySelector('svg.marks').getBoundingClientRect().width")
    browser.call("Emulation.setDeviceMetricsOverride", width=500, height=900, deviceScaleFactor=1, mobile=False)
    browser.run("window.dispatchEvent(new Event('resize'))")
    width = "document.querySelector('svg.marks').getBoundingClientRect().width"
    after = browser.eventually(f"{width} <= 500 && {width}")
    assert before > 700 and 300 < after <= 500


def test_the_browser_would_notice(browser, tmp_path):
    """The checks above can fail: an error, a request and a wide page are all seen."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<body><img src='https://example.org/x.png'><p style='width:3000px'>wide</p>"
        "<script>console.error('oh')</script>"
    )
    visit = browser.open(path, 390, "document.readyState === 'complete'")
    assert any("oh" in e for e in visit.errors) and "https://example.org/x.png" in visit.requests
    assert browser.run(OVERFLOW) > 0


def test_a_saved_figure_opens_on_a_phone(browser, result, tmp_path):
    style.save(figures.figures(result)["split_error"], tmp_path / "figure.html")
    visit = browser.open(tmp_path / "figure.html", 390, READY)
    assert visit.errors == [] and browser.run("document.querySelectorAll('svg.marks').length") == 1
    assert browser.run(OVERFLOW) <= 0


def test_text_is_escaped_and_marked_rows_stand_out(pages):
    text = (pages / "real.html").read_text(encoding="utf-8")
    assert "&lt;fast&gt;" in text and "<fast>" not in text
    assert text.count('<tr class="marked">') == 1
    assert text.index("8 × 8") and "Content-Security-Policy" in text
    assert text.count("window.vegaEmbed=") == 1  # the library is there once


def test_what_is_not_resolved_is_said(large):
    nothing = {"value": None, "lo": None, "hi": None, "resolved": False}
    large = large | {"rows": [row | {"bias_sq": nothing, "mse": nothing} for row in large["rows"]]}
    assert "not resolved" in split_page(large)
    assert {r["part"] for r in _data(figures.error(large))} == {"individual", "covariance", "total"}


def test_errors_are_relative_to_the_shared_signal(large):
    rows = {(r["series"], r["part"]): r["value"] for r in _data(figures.error(large))}
    assert rows["4 × 256", "individual"] == pytest.approx(large["rows"][0]["individual"]["value"] / SHARED)
    assert rows["4 × 256", "total"] == pytest.approx(large["rows"][0]["mse_relative"]["value"])


def test_extrapolations_are_marked(large):
    kinds = {r["series"]: r["kind"] for r in _data(figures.predicted(large))}
    assert kinds["1 × 1024"] == "extrapolated" and kinds["8 × 128"] == "predicted from blocks"


def test_every_figure_that_compares_splits_saves(result, tmp_path):
    for name, chart in figures.figures(result).items():
        for suffix in (".svg", ".png", ".pdf"):
            style.save(chart, tmp_path / f"{name}{suffix}")
            assert (tmp_path / f"{name}{suffix}").stat().st_size > 500


def test_pages_without_results_of_training(large):
    empty = {"value": None, "lo": None, "hi": None, "resolved": False}
    rows = [row | {"auc": empty, "fps": empty, "final_return": empty} for row in large["rows"]]
    bare = large | {"rows": rows, "curves": large["curves"].clear(), "predicted": [], "reasons": [], "doubts": []}
    assert set(figures.figures(bare)) == {"split_error"}
    assert "not resolved" in split_page(bare)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.5e-7, "1.50e−7"), (0.0123, "0.0123"), (3.2071, "3.21"), (-12.34, "−12.3"), (98765, "98,800")],
)
def test_numbers_are_short(value, text):
    assert numbers.number(value) == text


def test_other_reports_share_the_page():
    blocks = [page.Heading("a"), page.Paragraph("b"), page.Table(["c"], [["d\ne"]]), page.Note("f"), page.Svg("<svg/>")]
    text = page.page("title", blocks)
    assert '<h2 id="a">a</h2>' in text and "<small>e</small>" in text and "<svg/>" in text
    assert "vegaEmbed" not in text  # nothing to draw, nothing to carry


def _data(chart) -> list[dict]:
    return max(chart.to_dict()["datasets"].values(), key=len)
