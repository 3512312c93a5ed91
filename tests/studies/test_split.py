"""`trimtab split`: the whole job at a tiny size, and how it weighs what it found."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny

from trimtab import cli
from trimtab.anatomy.options import SplitOptions
from trimtab.config import Config, ConfigError
from trimtab.runs.records import RunDir
from trimtab.studies import split
from trimtab.studies.split import default_splits, improved, parse_splits
from trimtab.studies.weighing import marginal, recommend


def estimate(value, lo=None, hi=None, resolved=True):
    return {"value": value, "lo": value if lo is None else lo, "hi": value if hi is None else hi, "resolved": resolved}


def row(n, t, mse, fps=100.0, auc=(1.0, 0.5, 1.5), **more):
    base = {name: estimate(mse) for name in ("variance", "individual", "grad_sq", "ess", "true_grad_sq")}
    return base | {
        "num_envs": n, "num_steps": t, "covariance": estimate(0.0), "bias_sq": estimate(0.0, resolved=False),
        "mse": estimate(mse, 0.9 * mse, 1.1 * mse), "fps": estimate(fps), "auc": estimate(*auc),
        "lag_covariance": [1.0] * t, "improved": True,
    } | more  # fmt: skip


def test_splits_must_multiply_to_the_batch():
    assert parse_splits("16x64, 4x256", 1024) == [(4, 256), (16, 64)]
    with pytest.raises(ConfigError, match="nearest"):
        parse_splits("5x256", 1024)
    with pytest.raises(ConfigError, match="4x256"):
        parse_splits("four", 1024)
    assert default_splits(1024, quick=False) == [(4, 256), (16, 64), (64, 16), (256, 4)]


def test_a_split_with_resolved_larger_error_is_not_recommended_even_if_faster():
    answer = recommend([row(4, 256, 1.0), row(64, 16, 5.0, fps=1000.0)])
    assert answer["recommended"] == "4x256"
    assert any("64x16" in reason for reason in answer["reasons"])


def test_a_split_with_an_unresolved_error_is_not_ruled_out_but_doubted():
    unknown = row(256, 4, -9.0, fps=1000.0) | {"mse": estimate(-9.0, -34.0, 3.0, resolved=False)}
    answer = recommend([row(4, 256, 1.0), unknown])
    assert answer["recommended"] == "256x4"
    assert any("256x4 is not resolved" in doubt for doubt in answer["doubts"])
    unmeasured = unknown | {"mse": {"value": None, "lo": None, "hi": None, "resolved": False}}
    assert any("256x4 is not resolved" in doubt for doubt in recommend([row(4, 256, 1.0), unmeasured])["doubts"])


def test_among_what_cannot_be_told_apart_the_fastest_is_recommended():
    answer = recommend([row(4, 256, 1.0), row(64, 16, 1.05, fps=1000.0)])
    assert answer["recommended"] == "64x16"
    assert any("not told apart" in doubt for doubt in answer["doubts"])


def test_of_two_about_as_fast_the_one_that_learned_more_is_recommended():
    answer = recommend([row(4, 256, 1.0, auc=(1.1, 0.6, 1.6)), row(64, 16, 1.05, fps=105.0)])
    assert answer["recommended"] == "4x256" and "also 64x16" in answer["sentence"]
    untrained = {"auc": {"value": None, "lo": None, "hi": None, "resolved": False}, "improved": False}
    answer = recommend([row(4, 256, 1.0) | untrained, row(64, 16, 0.95, fps=95.0) | untrained])
    assert answer["recommended"] == "64x16" and "lowest variance" in answer["sentence"]


def test_where_nothing_was_learned_learning_decides_nothing():
    flat = {"improved": False}
    answer = recommend([row(4, 256, 1.0) | flat, row(64, 16, 1.05, fps=1000.0, auc=(0.1, 0.05, 0.2)) | flat])
    assert answer["recommended"] == "64x16" and "learned" not in answer["sentence"]
    assert any("learning decides nothing" in doubt for doubt in answer["doubts"])


def test_returns_that_rise_are_told_from_returns_that_wander(tmp_path):
    rng = np.random.default_rng(0)
    for name, rise, found in (("flat", 0.0, False), ("risen", 2.0, True)):
        run = RunDir.create(tmp_path / name, {}, {})
        returns = rng.normal(size=400) + np.linspace(0, rise, 400)
        columns = {"step": np.arange(400), "env": np.zeros(400, int), "return": returns, "length": np.ones(400, int)}
        run.write_episodes(0, columns)
        assert improved(run.path) is found
    assert not improved(RunDir.create(tmp_path / "none", {}, {}).path)


def test_the_sentence_speaks_of_the_recommended_split():
    """Its own bias, who else is biased, what is not resolved, and that there was no choice where there was none."""
    biased = {"bias_sq": estimate(3.0)}
    answer = recommend([row(4, 256, 9.0) | biased, row(64, 16, 1.0) | biased])
    assert answer["recommended"] == "64x16" and "bias is 75% of its squared error" in answer["sentence"]
    vague = row(4, 256, 1.0) | {"variance": {"value": 1.0, "lo": None, "hi": None, "resolved": False}}
    answer = recommend([vague])
    assert "only one measured" in answer["sentence"]
    assert any("variance of 4x256 is not resolved" in doubt for doubt in answer["doubts"])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--points 0", "points=0: must be at least 1"),
        ("--seeds -1", "seeds=-1: must be at least 0"),
        ("--run RUN --env-id Pendulum-v1", "env_id"),
        ("--run RUN --algo ppg", "algo='ppg': the run"),
        ("--run RUN --preset none", "brings its own configuration"),
    ],
)
def test_what_contradicts_itself_is_refused(flags, said, tmp_path, capsys):
    RunDir.create(tmp_path / "run", {"env_id": "CartPole-v1"}, {})
    words = ["split", "CartPole-v1", "--batch", "64", "--run-dir", str(tmp_path / "out"), *flags.split()]
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(tmp_path / "run") if word == "RUN" else word for word in words])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and message.count("\n") == 1 and said in message
    assert not (tmp_path / "out").exists()


def test_a_split_that_learns_measurably_less_is_dropped_first():
    worse = row(64, 16, 0.5, fps=1000.0, auc=(0.1, 0.05, 0.2))
    assert recommend([row(4, 256, 1.0), worse])["recommended"] == "4x256"


def test_learning_is_compared_by_the_interval_of_the_difference():
    """Intervals that touch may still tell two splits apart, and the best one's may be too wide to tell anything."""
    sure, wide, behind = (330.0, 298.0, 363.0), (336.0, 253.0, 419.0), (252.0, 201.0, 302.0)
    rows = [row(4, 128, 1.0, auc=sure), row(16, 32, 1.0, auc=wide), row(64, 8, 1.0, fps=1000.0, auc=behind)]
    answer = recommend(rows)
    assert answer["recommended"] != "64x8" and "64x8 learned measurably less" in answer["sentence"]
    assert recommend(rows[1:])["recommended"] == "64x8"


def test_on_one_seed_a_split_that_fell_far_behind_is_not_recommended_however_fast():
    one = lambda value: {"value": value, "lo": None, "hi": None, "resolved": False}
    rows = [row(4, 256, 1.0), row(16, 64, 1.0), row(256, 4, 0.3, fps=1000.0)]
    for r, value in zip(rows, (-511.0, -660.0, -1460.0)):
        r["auc"] = one(value)
    answer = recommend(rows)
    assert answer["recommended"] in ("4x256", "16x64")
    for r, value in zip(rows, (-511.0, -520.0, -530.0)):
        r["auc"] = one(value)
    assert recommend(rows)["recommended"] == "256x4"


def test_perfectly_correlated_steps_are_worth_nothing_and_independent_ones_as_much_as_environments():
    same = row(4, 8, 1.0, lag_covariance=[1.0] * 8, variance=estimate(1 / 4))
    assert "Per sample, an environment" in marginal(same) or "environments are what" in marginal(same)
    free = row(4, 8, 1.0, lag_covariance=[1.0] + [0.0] * 7, variance=estimate(1 / 32))
    text = marginal(free)
    assert "worth the same" in text or "1.1" in text or "1.2" in text


def test_the_whole_job_interrupted_and_resumed_writes_a_page_and_one_object(tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = [sys.executable, "-m", "trimtab.cli"]
    command = [*run, "split", "FrozenLake-v1", "--batch", "64", "--splits", "4x16,16x4", "--run-dir", "out"]
    command += ["--seeds", "2", "--points", "1", "--replicates", "8", "--total-timesteps", "640", "--hidden-sizes", "8"]
    cheap = os.environ | tiny.CHEAP
    begun = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path, env=cheap
    )
    while begun.poll() is None and not list(out.glob("outputs/*.txt")):
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does
    said = begun.communicate()[1]
    assert begun.returncode == 130 and "`trimtab resume out` does what is left" in said
    kept = {file: file.stat().st_mtime_ns for file in out.glob("outputs/*.txt")}
    assert kept and not (out / "page.html").exists()
    going_on = [*run, "resume", str(out), "--json"]
    done = subprocess.run(going_on, capture_output=True, text=True, cwd=elsewhere, env=cheap)
    assert done.returncode == 0, done.stderr
    assert kept == {file: file.stat().st_mtime_ns for file in kept}, "what was done is not done again"
    result = json.loads(done.stdout)
    assert [(r["num_envs"], r["num_steps"]) for r in result["rows"]] == [(4, 16), (16, 4)]
    for name in ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess", "fps", "auc"):
        assert {"value", "lo", "hi"} <= set(result["rows"][0][name])
    assert result["recommended"] in ("4x16", "16x4")
    assert result["horizon_gamma"] == pytest.approx(100)
    page = (out / "page.html").read_text()
    assert "<html" in page and result["recommended"].split("x")[0] in page
    assert list((out / "figures").glob("*.png"))
    assert all(RunDir.open(path).metrics()[-1]["time/total_timesteps"] == 640 for path in out.glob("runs/*"))
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 2 and "already exists" in again.stderr


def test_a_split_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["split", "NoSuch-v9", "--batch", "64", "--quiet"])
    assert stopped.value.code == 2 and not list(tmp_path.glob("runs/*"))


def test_a_split_that_saw_no_gradient_is_not_recommended_for_it():
    nothing = {"variance": estimate(0.0, resolved=False), "mse": estimate(0.0, resolved=False)}
    blind, seen = row(2, 200, 0.0) | nothing, row(4, 100, 1.0) | {"mse": estimate(1.0, resolved=False)}
    assert recommend([blind, seen])["recommended"] == "4x100"
    alone = recommend([blind, row(8, 50, 0.0) | nothing])
    assert not alone["sentence"].endswith(": .")
    assert "not resolved" in marginal(blind)


def test_the_untrained_policy_is_never_what_is_probed(tmp_path):
    config = Config(env_id="FrozenLake-v1", num_envs=4, num_steps=16, total_timesteps=64)
    plan = split._Plan(split.Spec(config, 64, SplitOptions(splits="4x16,16x4", points=1), ""), tmp_path)
    assert plan.points == [64]
