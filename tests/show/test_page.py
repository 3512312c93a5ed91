"""Pages open in a real browser, from disk: everything drawn, nothing fetched, nothing wider than the window."""

from dataclasses import replace

import polars as pl
import pytest
from show.browser import Browser
from show.examples import curves_of, measured, report_of

from trimtab.config import Config
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.show import blocks, html_page, numbers, split_figures, style
from trimtab.show import split_page as split
from trimtab.show.staircase import _steps_of, staircase_note
from trimtab.studies.split_result import Eliminated, Stage, StageRow, estimates_of

READY = "document.documentElement.dataset.ready === '1' && document.readyState === 'complete'"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SHARED = 0.9e-5


def drawn(given):
    return split.split_page(given, split.figures(given))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def result(splits, config):
    return report_of(splits, curves_of(["4x16", "8x8"]), config, SHARED)


@pytest.fixture(scope="module")
def large():
    frame = measured(((4, 256), (16, 64), (64, 16)), (1000, 2000))
    return report_of(frame, curves_of(["4x256", "16x64", "64x16"]), Config(num_envs=4, num_steps=256), SHARED)


@pytest.fixture(scope="module")
def pages(result, large, tmp_path_factory):
    """The pages of both results, written."""
    folder = tmp_path_factory.mktemp("pages")
    for name, given in (("real", result), ("large", large)):
        (folder / f"{name}.html").write_text(drawn(given), encoding="utf-8")
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
    browser.run("document.querySelectorAll('details.folded').forEach(d => { d.open = true; })")
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


VISIBLE = "[...document.querySelectorAll('svg.marks')].filter(s => s.checkVisibility()).length"


def test_one_slider_moves_every_figure_of_its_group(browser, pages):
    browser.open(pages / "large.html", 1280, READY)
    browser.run("document.querySelectorAll('details.folded').forEach(d => { d.open = true; })")
    label = "document.querySelector('.control output').textContent"
    shown = (
        "[...document.querySelectorAll('.frame.shown')].map(f => f.dataset.label + f.querySelectorAll('svg').length)"
    )
    before, first = browser.run(shown), browser.run(label)
    browser.run(
        "{const i = document.querySelector('.control input'); i.value = 0; i.dispatchEvent(new Event('input'));}"
    )
    after = browser.run(shown)
    assert len(before) == len(after) == 1 and before != after
    assert first == "step 2,000" and browser.run(label) == "step 1,000"
    assert int(after[0].removeprefix("step 1,000")) >= 8


def test_a_link_of_the_contents_opens_its_section(browser, pages):
    browser.open(pages / "large.html", 390, READY)
    before = browser.run(VISIBLE)
    assert not browser.run("document.getElementById('inside-the-gradient').open")
    browser.run("document.querySelector('nav.contents a[href=\"#inside-the-gradient\"]').click()")
    assert browser.run("document.getElementById('inside-the-gradient').open") and browser.run(VISIBLE) > before
    browser.run("document.querySelector('.unfold').click()")
    assert browser.run("[...document.querySelectorAll('details.folded')].every(d => d.open)")


LIGHTNESS = """(() => { const dot = document.createElement('canvas').getContext('2d');
  return (color) => { dot.fillStyle = color; dot.fillRect(0, 0, 1, 1);
    const [r, g, b] = dot.getImageData(0, 0, 1, 1).data; return (r + g + b) / 765; }; })()"""


def shades(browser):
    """Lightness of the paper, of the labels of axes and of the grid, as they are drawn."""
    axis = "document.querySelector('svg.marks .role-axis-label text')"
    grid = "document.querySelector('svg.marks .role-axis-grid line')"
    read = lambda part, name: browser.run(f"{LIGHTNESS}(getComputedStyle({part})['{name}'])")
    return read("document.body", "backgroundColor"), read(axis, "fill"), read(grid, "stroke")


def test_dark_light_and_print_each_have_their_colours(browser, pages):
    emulate = lambda media, scheme: browser.call(
        "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    try:
        emulate("", "dark")
        browser.open(pages / "large.html", 1280, READY)
        paper, label, grid = shades(browser)
        assert paper < 0.15 and label > 0.5 and grid < 0.35
        white = "[...document.querySelectorAll('svg.marks')].map(s => getComputedStyle(s).backgroundColor)"
        assert set(browser.run(white)) == {"rgba(0, 0, 0, 0)"}
        browser.run("document.querySelector('button.theme').click()")
        paper, label, grid = shades(browser)
        assert paper == 1 and label < 0.5 and grid > 0.85
        browser.run("document.querySelector('button.theme').click()")
        emulate("print", "dark")
        assert shades(browser)[0] == 1 and shades(browser)[1] < 0.5
        browser.run("window.dispatchEvent(new Event('beforeprint'))")
        drawn = browser.run("document.querySelectorAll('svg.marks').length")
        assert browser.run(VISIBLE) == drawn  # everything unfolded, also the frames of sliders
    finally:
        browser.run("localStorage.removeItem('trimtab-theme')")
        emulate("", "light")


def with_rows(report, **changes):
    """The same report with other values in every row."""
    rows = tuple(replace(row, **changes) for row in report.result.rows)
    return replace(report, result=replace(report.result, rows=rows))


def judged(report):
    """The same result with verdicts, stages and a tie, as `split` weighs them."""
    result = report.result
    names, verdicts = [row.name for row in result.rows], ["eliminated", "remaining", "recommended"]
    rows = [replace(row, verdict=word, seeds=1 + i) for i, (word, row) in enumerate(zip(verdicts, result.rows))]
    share = Estimate(0.6, 0.5, 0.7)
    size = lambda row: {"num_envs": row.num_envs, "num_steps": row.num_steps, "covariance_share": share}
    here = tuple(StageRow(**size(row), **estimates_of(row)) for row in result.rows)
    stage = lambda name, step: Stage(name, step, here, f"{name}: nothing to tell apart.")
    result = replace(
        result,
        rows=tuple(rows),
        recommended_set=tuple(names[1:]),
        ruled_out=(Eliminated(names[0], "learned less", "its return is 40 lower (10 to 70)"),),
        tie_break="of those left the one with the lowest variance is taken",
        stages=(stage("early", 1000), stage("late", 2000)),
        stage_sentence="Early and late ask for the same split.",
    )
    return replace(report, result=result)


def test_verdicts_and_stages_are_on_the_page(browser, large, tmp_path):
    text = drawn(judged(large))
    assert text.count('class="badge good">recommended<') == 1 and text.count('class="badge grey">eliminated<') == 1
    for said in (
        "learned less",
        "Eliminated: 4 × 256, its return is 40 lower (10 to 70).",
        "Early and late ask for",
        "lowest variance",
    ):
        assert text.count(said) == 1
    (tmp_path / "judged.html").write_text(text, encoding="utf-8")
    visit = browser.open(tmp_path / "judged.html", 390, READY)
    assert visit.errors == [] and browser.run(OVERFLOW) <= 0


def test_stages_are_relative_to_their_own_largest_error(large):
    rows = _data(split_figures._stages(judged(large).result.stages))
    for panel in ("early, step 1,000", "late, step 2,000"):
        assert max(r["value"] for r in rows if r["panel"] == panel and r["part"] == "total") == pytest.approx(1.0)
    assert split_figures._stages(large.result.stages) is None


def curve(values, every=1000):
    return pl.DataFrame(
        {"step": [every * (i + 1) for i in range(len(values))], "return": values, "series": "4 × 8", "seed": 0}
    )


def test_a_staircase_is_told_from_a_ceiling():
    stairs = [float(i // 5) for i in range(40)]
    assert _steps_of(curve(stairs)) == 5000
    assert _steps_of(curve([*map(float, range(20)), *[20.0] * 60])) is None  # it arrived
    assert _steps_of(curve([float(k // 5 * 3 + min(k % 5, 2)) for k in range(60)])) is None  # most points are new
    assert _steps_of(curve([1.0] * 20).with_columns(pl.col("step") + 51_200)) == 52_200  # no second episode yet
    note = staircase_note(curve(stairs), {"4 × 8": 4, "8 × 4": 8})
    assert "The line of 4 × 8 climbs in steps" in note and "the 4 environments" in note and "5,000" in note
    assert staircase_note(curve([float(i) for i in range(40)]), {}) == ""


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
    style.save(split_figures.figures(result.result, result.curves)["split_error"], tmp_path / "figure.html")
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
    large = with_rows(large, bias_sq=UNRESOLVED, mse=UNRESOLVED)
    assert "inconclusive" in drawn(large)
    assert {r["part"] for r in _data(split_figures._error(large.result.rows))} == {"individual", "within rows", "total"}


def test_errors_are_relative_to_the_shared_signal(large):
    rows, first = large.result.rows, large.result.rows[0]
    rows = {(r["series"], r["part"]): r["value"] for r in _data(split_figures._error(rows))}
    assert rows["4 × 256", "individual"] == pytest.approx(first.individual.value / SHARED)
    assert rows["4 × 256", "total"] == pytest.approx(first.mse_relative.value)


def test_extrapolations_are_marked(large):
    kinds = {r["series"]: r["kind"] for r in _data(split_figures._predicted(large.result))}
    assert kinds["1 × 1024"] == "extrapolated" and kinds["8 × 128"] == "predicted from blocks"


def test_a_dot_stands_where_its_bars_end(large):
    """Where the bias is not resolved it has no bar, and the dot is that of the variance, whatever the error's is."""
    open_bias = Estimate(5.0, -1.0, 9.0, resolved=False)
    unsure = with_rows(large, bias_sq=open_bias, mse=Estimate(99.0, 98.0, 100.0))
    assert {split_figures._total(row) for row in unsure.result.rows} == {"variance"}
    sure = with_rows(unsure, bias_sq=replace(open_bias, resolved=True))
    assert {split_figures._total(row) for row in sure.result.rows} == {"mse"}


def test_every_figure_that_compares_splits_saves(result, tmp_path):
    for name, chart in split_figures.figures(result.result, result.curves).items():
        for suffix in (".svg", ".png", ".pdf"):
            style.save(chart, tmp_path / f"{name}{suffix}")
            assert (tmp_path / f"{name}{suffix}").stat().st_size > 500


def test_pages_without_results_of_training(large):
    bare = with_rows(large, auc=UNRESOLVED, fps=UNRESOLVED, final_return=UNRESOLVED)
    bare = replace(bare, curves=large.curves.clear(), result=replace(bare.result, predicted=(), doubts=()))
    assert set(split_figures.figures(bare.result, bare.curves)) == {"split_error"}
    assert "inconclusive" in drawn(bare)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.5e-7, "1.50e−7"), (0.0123, "0.0123"), (3.2071, "3.21"), (-12.34, "−12.3"), (98765, "98,800")],
)
def test_numbers_are_short(value, text):
    assert numbers.number(value) == text


def test_other_reports_share_the_page():
    parts = [
        blocks.Heading("a"),
        blocks.Paragraph("b"),
        blocks.Table(["c"], [["d\ne"]]),
        blocks.Note("f"),
        blocks.Svg("<svg/>"),
    ]
    text = html_page.page_of_blocks("title", parts)
    assert '<h2 id="a">a</h2>' in text and "<small>e</small>" in text and "<svg/>" in text
    assert "vegaEmbed" not in text  # nothing to draw, nothing to carry


def test_a_page_leads_with_its_decision():
    """Decision, next command, evidence, caveats, details: in this order, whatever else is on the page."""
    decision = blocks.Decision("Use 4 <", "It is fast.", "a split", blocks.Next("trimtab train", "to use it"))
    evidence, details = [blocks.Heading("Evidence")], [blocks.Folded("Look up", [])]
    text = html_page.render(blocks.Page("t", decision, evidence, ("One seed.",), details))
    said = [
        "<h1>t<",
        "Use 4 &lt;",
        "It is fast.",
        "trimtab train",
        'id="evidence"',
        'id="caveats"',
        "One seed.",
        'id="look-up"',
    ]
    places = [text.index(part) for part in said]
    assert places == sorted(places)
    assert text.count('href="#') == 3  # every section is listed


def _data(chart) -> list[dict]:
    return max(chart.to_dict()["datasets"].values(), key=len)


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.996, "10.0"), (99.96, "100"), (12.34, "12.3"), (0.01234, "0.0123"), (12345.6, "12,300"), (float("nan"), "–")],
)
def test_numbers_have_so_many_digits(value, text):
    assert numbers.number(value) == text
