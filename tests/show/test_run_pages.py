"""Pages of runs, comparisons, probes and tunings: made of plain values, whole in a browser, with a command to go on."""

import math
from dataclasses import replace

import pytest
from show.browser import Browser
from show.examples import curves_of, measured

from trimtab.advise.cheatsheet import CHEATSHEET
from trimtab.advise.diagnosis import Diagnosis
from trimtab.advise.run_summary import RunView
from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.core.finding import Finding
from trimtab.show import comparison_page, curves, run_page, tune_page
from trimtab.show.next_step import train_command
from trimtab.show.probe_page import probe_page
from trimtab.studies.tune_result import Finalist, SweepResult, TriedValue, TuneResult
from trimtab.training.records import Evaluation, Manifest, MetricsRow

READY = "document.documentElement.dataset.ready === '1' && document.readyState === 'complete'"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def run(name, height=100.0, **changes):
    """A run's records, made up."""
    config = Config(total_timesteps=512 * 60).replace(**changes)
    rows = [
        {
            "time/fps": 1000.0,
            "rollout/ep_rew_mean": height * (1 - math.exp(-k / 20)),
            "train/clip_fraction": 0.1 / (k + 1),
            "train/entropy_loss": -0.6 + k / 200,
            "train/value_loss": 5.0 / (k + 1),
        }
        for k in range(60)
    ]
    clipping = Finding(
        "clipping", "act", "clipping <seen>", "too high", {"learning_rate": 1e-4}, series=(1.0, 2.0, 3.0, 2.0)
    )
    command = f"trimtab train --config runs/{name}/config.yaml --learning-rate 0.0001"
    findings = [clipping, Finding("entropy", "fine", "entropy <seen>")]
    return RunView(
        name=name,
        path=f"runs/{name}",
        config=config,
        diagnosis=Diagnosis(f"runs/{name}", findings, "To act on: clipping.", command),
        metrics=[MetricsRow(k + 1, 512 * (k + 1), row) for k, row in enumerate(rows)],
        evaluations=[Evaluation(20_000, 80.0, 81.0, 70.0, 90.0, None, None, None)],
        checkpoints=(0, 30_720),
        manifest=Manifest(trimtab="0", packages={"jax": "1"}),
    )


def tuning():
    changes, end = {"learning_rate": 3e-3}, Estimate(9.0, 8.0, 10.0)
    trials = tuple(TriedValue(v, i, (a, a + 1), (1, 1)) for i, (v, a) in enumerate([(1e-3, 5), (3e-3, 7)]))
    fields = ("learning_rate", "update_epochs", "max_grad_norm")
    return TuneResult(
        env_id="CartPole-v1",
        algo="ppo",
        total_timesteps=1000,
        final_timesteps=4000,
        changes=changes,
        gain=Estimate(2.0, 1.0, 3.0),
        better=True,
        sentence="Better: with learning_rate 0.003.",
        sweeps=tuple(SweepResult("stability", name, 1e-3, 3e-3, trials) for name in fields),
        final=(
            Finalist(0, {}, (1.0, 2.0), 5.0, 4.0, 6.0, end=end),
            Finalist(1, changes, (1.0, 2.0), 7.0, 6.0, 8.0, end=end, act="clip fraction in 1 of 2"),
        ),
        command="trimtab tune CartPole-v1",
        run="runs/tune",
    )


PAGES = {
    "run": lambda: run_page.run_page(run("a")),
    "doctor": lambda: run_page.doctor_page(run("a"), CHEATSHEET),
    "compare": lambda: comparison_page.compare_page([run("a"), run("b", 90.0, learning_rate=1e-3), run("c", 80.0)]),
    "probe": lambda: probe_page(measured(steps=(1000, 2000, 4000)), Config(), Manifest(trimtab="0")),
    "tune": lambda: tune_page._tune_page(
        tuning(), tune_page._figures(tuning(), curves_of(["start", "best trial"])), Manifest(trimtab="0")
    ),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("which", PAGES)
def test_pages_are_whole_on_a_screen_and_on_a_phone(browser, which, tmp_path):
    path = tmp_path / f"{which}.html"
    path.write_text(PAGES[which](), encoding="utf-8")
    for width in (1280, 390):
        visit = browser.open(path, width, READY)
        browser.run("document.querySelectorAll('details.folded').forEach(d => { d.open = true; })")
        assert visit.errors == [] and visit.requests == [path.resolve().as_uri()]
        specs = browser.run("document.querySelectorAll('div.chart').length")
        assert browser.run("document.querySelectorAll('svg.marks').length") == specs >= 2
        assert browser.run(OVERFLOW) <= 0
        assert browser.run("document.querySelector('.next code').textContent").startswith("trimtab ")


def test_what_to_type_after_a_tuning_follows_from_what_it_found():
    charts = tune_page._figures(tuning(), curves_of(["start", "best trial"]))
    page_of = lambda **changes: tune_page._tune_page(replace(tuning(), **changes), charts, Manifest())
    assert (
        "<strong>Use the tuned configuration</strong>" in page_of()
        and "trimtab train --config runs/tune/tuned.yaml" in page_of()
    )
    asked = "trimtab tune CartPole-v1 --final-seeds 2 --run-dir runs/tune"
    open_ = {"better": False, "gain": Estimate(1.0, -1.0, 3.0), "command": asked}
    assert "<code>trimtab tune CartPole-v1 --final-seeds 4 --store runs/tune/store</code>" in page_of(**open_)
    worse = open_ | {"gain": Estimate(-1.0, -2.0, -0.5)}
    assert "<code>trimtab train CartPole-v1</code>" in page_of(**worse)


def test_no_axis_stands_under_an_empty_place():
    """Three panels in two columns: each has its own axis, so none is drawn where there is no panel."""
    spec = tune_page._sweeps_chart(tuning()).to_dict()
    assert spec["columns"] == 2 and spec["resolve"]["axis"] == {"x": "independent"}


def test_the_findings_of_a_run_are_told_and_escaped():
    text = run_page.run_page(run("a"))
    assert 'class="badge bad">act<' in text and "clipping &lt;seen&gt;" in text and "try learning_rate: 0.0001" in text
    assert "▁" in text  # its course over training


def test_a_solved_run_says_so_once():
    findings = [Finding("goal", "solved", "mean return 100"), Finding("clipping", "note", "2%")]
    solved = replace(run("a"), diagnosis=Diagnosis("runs/a", findings, "Solved: 100 counts. Nothing to act on."))
    text = run_page.run_page(solved)
    assert text.count("Solved. Nothing to act on.") == 1 and "trimtab watch runs/a" in text
    assert "What the doctor says" not in text  # it has nothing to say
    diagnosis = run_page.doctor_page(replace(solved, evaluations=[]), CHEATSHEET)
    assert "<strong>Solved</strong><span>nothing to act on</span>" in diagnosis and "trimtab eval runs/a" in diagnosis


def test_the_figure_of_returns_has_its_evaluations_and_its_goal():
    spec = curves.returns(run("a")).to_dict()
    data = [row for rows in spec["datasets"].values() for row in rows]
    assert {row.get("kind") for row in data} == {"training", "evaluation, exploration off", None}
    assert {"value": 475.0} in data and "475 counts as solved" in " ".join(spec["title"]["subtitle"])


def test_a_comparison_names_what_differs_and_orders_nothing_it_cannot():
    runs = [run("a"), run("b", 90.0, learning_rate=1e-3)]
    assert comparison_page._differences(runs) == {"learning_rate": [Config().learning_rate, 1e-3]}
    text = comparison_page.compare_page(runs)
    assert "The others end at 85.3. They differ in learning_rate." in text
    assert "<strong>a ends highest, at 94.8</strong>" in text and "so no configuration wins" in text
    assert "All end at 94.8" in comparison_page.compare_page([run("a"), run("b")])


def test_what_was_not_measured_has_no_legend_entry():
    import polars as pl

    from trimtab.show import cosine_figures

    frame = measured(((4, 64), (16, 16)))
    lacking = frame.filter(~(pl.col("quantity").str.starts_with("cosine") & (pl.col("num_envs") == 16)))
    spec = cosine_figures._cosine_correlation(lacking).to_dict()
    assert "16 × 16" not in str(spec)
    assert "16 × 16" in str(cosine_figures._cosine_correlation(frame).to_dict())


def test_the_next_command_is_the_preset_and_what_differs():
    from trimtab import config, presets

    shipped = config.from_dict(presets.load("ppo/CartPole-v1")).as_dict()
    assert train_command(shipped) == "trimtab train CartPole-v1"
    wanted = train_command(shipped | {"learning_rate": 1e-3, "seed": 7}, num_envs=16, num_steps=32)
    assert wanted == "trimtab train CartPole-v1 --num-envs 16 --num-steps 32 --learning-rate 0.001"
    other = config.from_dict(presets.load("ppg/CartPole-v1")).as_dict()
    assert train_command(other) == "trimtab train CartPole-v1 --algo ppg"
    assert train_command(shipped | {"max_grad_norm": None}) == "trimtab train CartPole-v1 --max-grad-norm none"
