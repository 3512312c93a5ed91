"""Pages of studies and of all claims: what holds, large; every claim opens; sliders, grids and files."""

import polars as pl
import pytest
from show.browser import Browser

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.experiments import figures
from trimtab.experiments.claims import Claim, EffectEstimate, explained, judge
from trimtab.experiments.ledger import claims_page, judged_rows, print_ledger, print_studies
from trimtab.experiments.paper import paper_figures
from trimtab.experiments.post import frozenlake
from trimtab.show import verdicts
from trimtab.show.study_page import StudyReport, study_page
from trimtab.studies.source_result import SourceResult
from trimtab.studies.study_result import StudyTime

READY = "document.documentElement.dataset.ready === '1' && document.readyState === 'complete'"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ABOVE, BELOW, NEITHER = Estimate(1.0, 0.5, 1.5), Estimate(-1.0, -1.5, -0.5), Estimate(0.01, -0.99, 1.01)


def judged():
    """A verdict of each kind, on claims that a study has."""
    effects = {"P1": [ABOVE, ABOVE], "P2": [BELOW], "P3": [NEITHER], "P6": [ABOVE, BELOW]}
    found = [
        judge(
            Claim(k, f"claim <{k}>", "Fig. 1", "rule"),
            "effect",
            [EffectEstimate(f"e{i}", e, 4) for i, e in enumerate(es)],
            "S.",
        )
        for k, es in effects.items()
    ]
    return tuple(explained(found, "Other settings."))


def answer(**changes):
    told = {"study": "post/split", "size": "quick", "sentence": "Found.", "verdicts": judged(), "notes": ("n",)}
    told |= {"jobs": 2, "steps": 1000, "failed": ("a job: lost",), "command": "trimtab study run post/split"}
    return SourceResult(**told | changes)


def drawn():
    cells = pl.DataFrame(
        [
            (s, u, b, i, ((i * 7 + b) % 20 - 10) / 10)
            for s in ("4x32", "32x4")
            for u in (100, 400)
            for b in range(5)
            for i in range(128)
        ],
        schema=["split", "update", "batch", "sample", "value"],
        orient="row",
    )
    frames = tuple((f"update {u}", frozenlake.against_others(cells, u)) for u in (100, 400))
    heat = pl.DataFrame(
        [(p, i, j, 0.7) for p in ("4 × 256", "16 × 64") for i in range(3) for j in range(i + 1, 3)],
        schema=["panel", "i", "j", "value"],
        orient="row",
    )
    rows = pl.DataFrame(
        {"environment": ["a", "b"], "kind": ["x", "x"], "value": [0.1, -0.1], "lo": [0.0, -0.3], "hi": [0.2, 0.1]}
    )
    return {
        "batches": figures.Figure(frames[0][1], "Look left and right.", frames),
        "heat": figures.Figure(
            figures.heat_maps(heat, "Cosines", "Blue agrees.", panels=["4 × 256", "16 × 64"]), "Look."
        ),
        "each": figures.Figure(paper_figures.by_environment(rows, "difference", "kind"), "Right of 0 is better."),
    }


def page(**changes):
    configs = [Config(seed=s, learning_rate=1e-3) for s in (1, 2)]
    about = ("Which is it?", "Fig. 1", StudyTime(60.0, 40.0), "x, 2 cores, y", ["numbers"], configs)
    return study_page(StudyReport(answer(**changes), drawn(), *about))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_study_is_whole(browser, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(page(), encoding="utf-8")
    visit = browser.open(path, width, READY)
    browser.run("document.querySelectorAll('details.folded, details.claim').forEach(d => { d.open = true; })")
    assert visit.errors == [] and visit.requests == [path.resolve().as_uri()] and browser.run(OVERFLOW) <= 0
    assert browser.run("document.querySelectorAll('svg.marks').length") == 4
    visible = "[...document.querySelectorAll('svg.marks')].filter(s => s.checkVisibility())"
    edges = f"{visible}.map(s => s.getBoundingClientRect().right)"
    assert max(browser.run(edges)) <= width  # both columns of the grid are in view
    shown = "[...document.querySelectorAll('.frame.shown')].map(f => f.dataset.label).join()"
    assert browser.run(shown) == "update 100"
    browser.run(
        "{const i = document.querySelector('.control input'); i.value = 1; i.dispatchEvent(new Event('input'));}"
    )
    texts = "[...document.querySelectorAll('.frame.shown svg text')].map(t => t.textContent)"
    columns = f"{texts}.filter(t => t.includes('×')).join()"
    assert browser.run(shown) == "update 400" and browser.run(columns) == "4 × 32,32 × 4"


def test_a_study_says_what_holds_what_differs_and_what_would_resolve():
    text = page()
    assert (
        "<strong>1 of 4 claims hold</strong><span>1 contradicted, 1 depends, 1 inconclusive at the quick size</span>"
        in text
    )
    assert text.count("What differs: Other settings.") == 2 and "claim &lt;P1&gt;" in text
    assert "out of reach: over 100 seeds" in text and 'href="tables/numbers.parquet"' in text
    assert "seed 1, 2" in text and "learning_rate 0.001" in text and "a job: lost" in text
    assert "<code>trimtab study run post/split</code>" in text


def test_the_effect_shown_is_the_middle_one():
    verdict = judge(
        Claim("P1", "t", "w", "r"),
        "effect",
        [EffectEstimate(n, e, 4) for n, e in zip("abc", (ABOVE, NEITHER, BELOW))],
        "",
    )
    assert verdicts.effect(verdict) == "0.01 [-0.99, 1]\neffect\n1 of 3 above 0, 1 below"
    nothing = EffectEstimate("d", Estimate(0.0, 0.0, 0.0), 4)
    verdict = judge(verdict.claim, "effect", [*verdict.evidence, nothing], "")
    assert verdicts.effect(verdict).endswith("1 of 4 above 0, 1 below, 1 equal")
    assert verdicts.tally(judged()) == "1 holds, 1 contradicted, 1 depends, 1 inconclusive"


def test_all_claims_on_a_page_and_in_eighty_columns(browser, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "page.html").write_text("here")
    rows = judged_rows([answer(run=str(tmp_path / "study"))])
    path = tmp_path / "claims.html"
    path.write_text(claims_page(rows, tmp_path), encoding="utf-8")
    visit = browser.open(path, 390, "document.readyState === 'complete'")
    assert visit.errors == [] and browser.run(OVERFLOW) <= 0
    assert browser.run("document.querySelectorAll('.claim').length") == 4
    assert browser.run("document.querySelector('.claim a').getAttribute('href')") == "study/page.html"
    print_ledger(rows)
    print_studies()
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "P1–P3 P6" in printed and "4 of 44 claims judged" in printed and "contradicted" in printed
