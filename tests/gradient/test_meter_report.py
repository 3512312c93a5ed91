"""What a meter reports, without PyTorch: the record, its file, and the sentence about a batch."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.reading import collect_problems
from trimtab.gradient.batch_sentence import BatchWorth
from trimtab.gradient.meter_report import LagCosine, MeterReport, read_reports

VARIANCE, SIGNAL = 2.0, 0.8


def a_report(**changes) -> MeterReport:
    near = lambda value: Estimate(value, 0.9 * value, 1.1 * value)
    report = MeterReport(
        step=4096,
        num_envs=8,
        num_steps=64,
        iterations=4,
        rows=32,
        variance=near(VARIANCE),
        individual=near(0.5),
        covariance=near(1.5),
        ess=near(128.0),
        grad_sq=near(SIGNAL),
        noise_scale=near(100.0),
        noise_scale_trajectory=near(512 * VARIANCE / SIGNAL),
        noise_scale_environments=near(20.0),
        cosines=(LagCosine(1, near(0.4)), LagCosine(5, UNRESOLVED)),
        minibatch_size=64,
        notes=("a note",),
    )
    return replace(report, **changes)


def test_reports_survive_their_file(tmp_path):
    first, second = (
        a_report(),
        a_report(step=8192, noise_scale_trajectory=UNRESOLVED, grad_sq=Estimate(1, -1, 2, False)),
    )
    for report in (first, second):
        report.append_to(tmp_path)
    found = read_reports(tmp_path)
    assert found[0] == first
    assert found[1].step == 8192 and not found[1].noise_scale_trajectory.known and found[1].grad_sq == second.grad_sq
    assert [r.sentence for r in found] == [first.sentence, second.sentence]


def test_damaged_and_foreign_lines_are_left_out_and_said(tmp_path):
    a_report().append_to(tmp_path / "meter.jsonl")
    with (tmp_path / "meter.jsonl").open("a") as file:
        file.write('{"kind": "other"}\n[]\n{"kind": "trimtab meter", "step": "x"}\nnot json\n')
    with collect_problems() as problems:
        assert len(read_reports(tmp_path)) == 1
    assert len(problems) == 1


def test_the_sentence_says_what_doubling_buys():
    """Var/|G|² = 2.5: twice the environments make (1 + 2.5) / (1 + 1.25) = 1.556 of the progress."""
    sentence = a_report().sentence
    assert "batch of 512 (8 × 64) is worth 128 (115 to 141) independent samples" in sentence
    assert "0.4 (0.36 to 0.44) times the noise scale" in sentence
    assert "halve the variance and raise the progress of a step by about 56% (" in sentence
    assert "minibatch of 64 is 0.05 times the noise scale" in sentence


def test_progress_of_a_larger_batch_agrees_with_its_definition():
    worth = BatchWorth(4, 256, Estimate(300, 250, 350), Estimate(3000, 2000, 5000), steps_ratio=0.7)
    for ratio in (0.5, 0.7, 1.2):
        gains = [(1 + b / 1024) / (1 + ratio * b / 1024) for b in (3000, 2000, 5000)]
        found = worth.progress(ratio)
        assert found.value == pytest.approx(gains[0])
        assert (found.lo, found.hi) == pytest.approx((min(gains[1:]), max(gains[1:])))
    assert "doubling the steps would change the variance by -30%" in worth.sentence


def test_shared_noise_limits_what_more_environments_buy():
    """Var = a/N + (N - 1)/N C: with a/N = 2 and C (N - 1)/N = 7/8 of 8, doubling leaves 1 + 15/16 of 8."""
    independent, shared = a_report(), a_report(between_rows=Estimate(7.0, 6.0, 8.0))
    assert independent.worth.envs_ratio == 0.5
    assert shared.worth.envs_ratio == pytest.approx((1 + 7.5) / 9)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"rows": 6}, 2),
        ({}, 0),
        ({"noise_scale_trajectory": UNRESOLVED, "grad_sq": Estimate(1.0, -1.0, 3.0, False)}, math.ceil(32 * 3.84)),
        ({"noise_scale_trajectory": UNRESOLVED, "grad_sq": Estimate(-1.0, -2.0, 1.0, False)}, None),
    ],
)
def test_rows_that_are_needed(changes, needed):
    report = a_report(**changes)
    assert report.rows_needed == needed
    assert ("more rows" in report.sentence) == (needed != 0 and report.rows_needed != 0)


def test_loggers_get_what_is_resolved_only():
    metrics = a_report(noise_scale=UNRESOLVED).metrics
    assert metrics["grad/variance"] == VARIANCE and metrics["grad/variance_lo"] == pytest.approx(1.8)
    assert metrics["grad/cosine_lag1"] == pytest.approx(0.4)
    assert not {"grad/noise_scale", "grad/cosine_lag5", "grad/between_rows"} & metrics.keys()
    assert all(np.isfinite(value) for value in metrics.values())


def test_without_pytorch_one_line_names_the_extra():
    """Whether or not it is installed here."""
    code = """
import sys
sys.modules["torch"] = None
import trimtab
from trimtab.core.errors import MissingPackage
try:
    trimtab.torch
except MissingPackage as error:
    print(error)
assert "jax" not in sys.modules
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.fullmatch(r"torch is not installed: pip install 'trimtab\[torch\]'\n", said.stdout), said.stderr


def test_show_prints_the_newest_report_and_writes_a_page(tmp_path, capsys):
    from trimtab import cli

    for report in (a_report(), a_report(step=8192)):
        report.append_to(tmp_path)
    assert cli.main(["show", str(tmp_path), "--page"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Gradient at step 8,192" in said and "is worth 128 (115 to 141) independent samples" in said
    page = (tmp_path / "meter.html").read_text()
    assert "512 samples are worth 128" in page and "A note." in page
    assert (tmp_path / "figures" / "ess.svg").exists() and (
        tmp_path / "figures" / "noise_scale_trajectory.svg"
    ).exists()
    assert cli.main(["show", str(tmp_path / "meter.jsonl"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["last"]["step"] == 8192 and len(answer["reports"]) == 2


def test_doctor_reads_reports_beside_a_log(tmp_path):
    """A noise scale of 40 batches: watch. Where the log does not say N, T and the minibatch, only the sentence."""
    from trimtab.libraries.common.log_doctor import diagnose_place

    rows = "".join(f"{512 * k},{k},0.01,0.1,-1.0,0.5,0.1,-0.01,3e-4,{10 * k}\n" for k in range(1, 40))
    names = "time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,train/clip_fraction,train/entropy_loss,"
    names += "train/explained_variance,train/value_loss,train/policy_gradient_loss,train/learning_rate,train/n_updates"
    (tmp_path / "progress.csv").write_text(f"{names}\n{rows}")
    scale = Estimate(20000.0, 15000.0, 30000.0)
    a_report(noise_scale_trajectory=scale).append_to(tmp_path)
    found = {f.check: f for f in diagnose_place(tmp_path, {"n_envs": 8, "n_steps": 64, "batch_size": 64}).findings}
    assert "worth 128 (115 to 141) independent samples" in found["gradient meter"].seen
    assert found["noise scale"].verdict == "watch" and found["noise scale"].value == 20000.0
    unsized = {f.check for f in diagnose_place(tmp_path).findings}
    assert "gradient meter" in unsized and "noise scale" not in unsized
