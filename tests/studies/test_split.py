"""`trimtab split`: what it rules out and what it leaves, where its effort goes, and the whole job at a tiny size."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import tiny

import trimtab
from trimtab import cli
from trimtab.config import Config, ConfigError
from trimtab.core.estimate import Estimate
from trimtab.gradient.anatomy import ProbeResult
from trimtab.studies import study_engine as study
from trimtab.studies.elimination import (
    _least_error,
    _least_gap,
    contenders,
    eliminate_splits,
    marginal,
    say_stage,
    stage_sentence,
)
from trimtab.studies.split_result import GradientEstimates, SplitEvidence, SplitResult, SplitRow, Stage, StageRow
from trimtab.studies.split_study import (
    Split,
    SplitOptions,
    _check_split,
    _parse_splits,
    default_splits,
    effort,
)
from trimtab.training import loop
from trimtab.training.device import cores
from trimtab.training.records import Manifest
from trimtab.training.run import Run
from trimtab.training.run_dir import RunDir
from trimtab.training.warm_start import WarmStart


def estimate(value, lo=None, hi=None, resolved=True):
    return Estimate(value, value if lo is None else lo, value if hi is None else hi, resolved)


def gradient(mse, covariance=0.0, **more):
    base = {name: estimate(mse) for name in ("variance", "individual", "ess")}
    return base | {"covariance": estimate(covariance), "mse": estimate(mse, 0.9 * mse, 1.1 * mse)} | more


def stage(mse, **more):
    return GradientEstimates(**gradient(mse) | more)


def row(n, t, mse=1.0, areas=(9.0, 10.0, 11.0), speeds=(100.0,), **more):
    return SplitEvidence(**{
        "num_envs": n, "num_steps": t, "areas": tuple(areas), "speeds": speeds, "stages": (stage(mse),),
        "improved": True, "seeds": len(areas), "failed": 0,
    } | more)  # fmt: skip


def test_splits_must_multiply_to_the_batch():
    assert _parse_splits("16x64, 4x256", 1024) == [(4, 256), (16, 64)]
    with pytest.raises(ConfigError, match="nearest"):
        _parse_splits("5x256", 1024)
    with pytest.raises(ConfigError, match="4x256"):
        _parse_splits("four", 1024)
    assert default_splits(1024, quick=False) == [(4, 256), (16, 64), (64, 16), (256, 4)]


# What is ruled out ---------------------------------------------------------------------------------------------


def test_a_split_that_learned_less_is_ruled_out_by_that_however_fast():
    answer = eliminate_splits([row(4, 256), row(64, 16, areas=(1.0, 1.1, 0.9), speeds=(1000.0,))], own=64)
    assert answer.recommended == "4x256" and answer.recommended_set == ("4x256",) and answer.decided
    assert [(out.split, out.by) for out in answer.ruled_out] == [("64x16", "learned less")]
    assert answer.sentence == "Use 4 environments × 256 steps: 64x16 learned less."


def test_what_is_not_told_apart_is_left_unordered_and_the_tie_break_does_not_look_at_measurements():
    rows = [row(4, 256, areas=(9, 10, 11)), row(16, 64, areas=(12, 9, 10)), row(64, 16, areas=(10, 11, 9))]
    first = eliminate_splits(rows, own=16)
    assert first.recommended_set == ("4x256", "16x64", "64x16") and not first.ruled_out
    assert first.recommended == "16x64" and "statistically tied" in first.sentence
    moved = [row(4, 256, areas=(12, 9, 10)), row(16, 64, areas=(9, 10, 11)), row(64, 16, areas=(13, 8, 9))]
    assert eliminate_splits(moved, own=16).recommended == "16x64", "the same answer on other seeds"
    assert eliminate_splits(rows, own=8).recommended == "4x256", "of two as near, the one with fewer environments"


def test_a_much_larger_error_at_every_stage_rules_out_but_not_one_at_some_stage():
    worse, mixed = row(64, 16, stages=(stage(5.0), stage(3.0))), row(64, 16, stages=(stage(5.0), stage(1.0)))
    base = row(4, 256, stages=(stage(1.0), stage(1.0)))
    assert eliminate_splits([base, worse], own=64).ruled_out[0].by == "larger error"
    assert not eliminate_splits([base, mixed], own=64).ruled_out
    vague = row(64, 16, stages=(replace(stage(9.0), mse=estimate(9.0, -30.0, 40.0, resolved=False)),))
    answer = eliminate_splits([row(4, 256), vague], own=64)
    assert not answer.ruled_out and any("64x16 is inconclusive" in doubt for doubt in answer.doubts)


def test_only_a_much_slower_split_is_ruled_out_by_speed():
    slow, close = row(4, 256, speeds=(40.0, 45.0)), row(16, 64, speeds=(90.0, 80.0))
    fast = row(64, 16, speeds=(100.0, 110.0))
    answer = eliminate_splits([slow, close, fast], own=4)
    assert [(out.split, out.by) for out in answer.ruled_out] == [("4x256", "slower")]
    assert answer.recommended_set == ("16x64", "64x16")


def test_a_split_whose_runs_all_fail_is_ruled_out_and_one_with_some_is_not_taken():
    broken = row(16, 64, areas=(), failed=3)
    answer = eliminate_splits([row(4, 256), broken, row(64, 16)], own=16)
    assert [(out.split, out.by) for out in answer.ruled_out] == [("16x64", "did not finish")]
    assert answer.recommended == "4x256" and "16x64 did not finish" in answer.sentence
    assert broken not in contenders([row(4, 256), broken, row(64, 16)], 1)
    flattered = row(16, 64, areas=(10.0, 11.0), failed=1)
    answer = eliminate_splits([row(4, 256), flattered], own=16)
    assert answer.recommended == "4x256" and "16x64" in answer.recommended_set
    assert any("some runs of 16x64 failed" in doubt for doubt in answer.doubts)
    everywhere = [row(4, 256, areas=(), failed=2), broken]
    assert not eliminate_splits(everywhere, own=16).ruled_out, "where nothing finishes nothing is told apart"


def test_where_nothing_was_learned_learning_rules_nothing_out():
    flat = {"improved": False}
    answer = eliminate_splits([row(4, 256, **flat), row(64, 16, areas=(0.1, 0.2, 0.1), **flat)], own=4)
    assert not answer.ruled_out and any("learning does not separate" in doubt for doubt in answer.doubts)
    alone = eliminate_splits([row(4, 256, areas=(9.0,)), row(64, 16, areas=(1.0,))], own=4)
    assert not alone.ruled_out and any("single seed" in doubt for doubt in alone.doubts)


def test_learning_hardly_ever_rules_out_what_is_as_good():
    """Twenty thousand splits without any difference: what may err in 2 of 100 does not err more often."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(2000):
        rows = [row(4**k, 1, areas=rng.normal(size=3)) for k in (1, 2, 3, 4)]
        wrong += len(contenders(rows, looks=1)) < 4
    assert wrong / 2000 <= 0.03


def test_the_gap_is_welchs():
    from scipy import stats

    x, y = [3.0, 4.0, 5.5, 4.2], [1.0, 2.0, 0.5]
    expected = stats.ttest_ind(x, y, equal_var=False, alternative="greater").confidence_interval(0.99).low
    assert _least_gap(x, y, 0.01) == pytest.approx(expected)
    assert _least_gap([2.0, 2.0], [1.0, 1.0], 0.01) == 1.0


# By stage ------------------------------------------------------------------------------------------------------


def test_stages_are_told_and_whether_another_split_would_be_better_early_or_late():
    share = lambda value, lo, hi: {"covariance_share": estimate(value, lo, hi)}
    rows = lambda a, b: [
        StageRow(num_envs=4, num_steps=256, **gradient(a), **share(0.6, 0.5, 0.7)),
        StageRow(num_envs=64, num_steps=16, **gradient(b), **share(0.0, -0.1, 0.1)),
    ]
    early, late = rows(3.0, 1.0), rows(1.0, 3.0)
    assert _least_error(early) == ["64x16"] and "covariance is 60% of the variance" in say_stage(early)
    moved = [Stage("early", 1, early), Stage("late", 2, late)]
    assert "64x16 early, 4x256 late" in stage_sentence(moved)
    assert "64x16 has the smallest gradient error throughout" in stage_sentence([moved[0], Stage("late", 2, early)])
    assert "inconclusive" in stage_sentence([moved[0]])
    unknown = Stage("middle", 2, [replace(r, mse=estimate(1.0, resolved=False)) for r in early])
    said = stage_sentence([moved[0], unknown, Stage("late", 3, early)])
    assert said.endswith("gradient error where it is conclusive (early and late).")


def test_perfectly_correlated_steps_are_worth_nothing_and_independent_ones_as_much_as_environments():
    answered = lambda lags, variance: SplitRow(
        num_envs=4, num_steps=8, lag_covariance=lags, **gradient(1.0) | {"variance": variance}
    )
    same = marginal(answered((1.0,) * 8, estimate(1 / 4)))
    assert "Per sample, an environment" in same or "only more environments" in same
    text = marginal(answered((1.0,) + (0.0,) * 7, estimate(1 / 32)))
    assert "lower the variance equally" in text or "1.1" in text or "1.2" in text
    assert "inconclusive" in marginal(answered((1.0,) * 8, estimate(0.0, resolved=False)))


def test_a_split_whose_runs_end_no_episode_is_doubted_and_not_taken():
    rows = [row(4, 256), row(256, 4, areas=(), seeds=3)]
    answer = eliminate_splits(rows, own=256)
    assert answer.recommended == "4x256" and answer.recommended_set == ("4x256", "256x4")
    assert any("256x4 ended no episode" in doubt for doubt in answer.doubts)
    assert not any("ended no episode" in doubt for doubt in eliminate_splits([row(4, 256), row(16, 64)], own=4).doubts)


def test_returns_that_rise_are_told_from_returns_that_wander(tmp_path):
    rng = np.random.default_rng(0)
    for name, rise, count, found in (("flat", 0.0, 400, False), ("risen", 2.0, 400, True), ("few", 50.0, 31, False)):
        run = RunDir.create(tmp_path / name, Config(), Manifest())
        returns = rng.normal(size=count) + np.linspace(0, rise, count)
        run.write_episodes(
            0,
            {
                "step": np.arange(count),
                "env": 0 * np.arange(count),
                "return": returns,
                "length": 1 + 0 * np.arange(count),
            },
        )
        assert Run(run.path).improved is found
    assert not Run(RunDir.create(tmp_path / "none", Config(), Manifest()).path).improved


# Effort --------------------------------------------------------------------------------------------------------


def split_of(**options) -> Split:
    config = Config(env_id="FrozenLake-v1", num_envs=4, num_steps=16, total_timesteps=640)
    return Split(config, 64, 4, SplitOptions(splits="4x16,8x8,16x4", points=1, **options))


def probed(options, step):
    signal = {"grad_sq": estimate(1.0), "bias_sq": estimate(0.0), "true_grad_sq": estimate(1.0)}
    about = {"gamma": 0.9, "gae_lambda": 0.9, "options": options, "method": "", "relative_error": 0.0}
    size = {"num_envs": options.num_envs, "num_steps": options.num_steps, "step": step, "reset_synchrony": None}
    return ProbeResult(**gradient(1.0), **signal, **about, **size, lag_covariance=(1.0,) * options.num_steps)


class Formula:
    """An executor whose runs learn what a formula says, to see what is asked for."""

    workers = 1

    def __init__(self, area):
        self.area, self.asked = area, []

    def run(self, jobs, store, tick=lambda job, steps: None):
        from trimtab.studies.executor import Queue
        from trimtab.studies.store import Outcome

        for job in Queue(jobs).waiting.values():
            if job.kind == "train":
                self.asked.append((job.config.num_envs, job.config.seed))
                run = RunDir.create(store.place(job), job.config, Manifest())
                columns = {"step": np.arange(32), "env": np.zeros(32, int), "return": np.repeat([0.0, 9.0], 16)}
                run.write_episodes(0, columns | {"length": np.ones(32, int)})
                result = {"area": self.area(job.config.num_envs, job.config.seed), "fps": 1.0, "ep_rew_mean": 1.0}
                yield Outcome(job, run.path, result, seconds=30.0)
            else:
                result = {"probes": [probed(job.options, step).as_dict() for step in job.at]}
                yield Outcome(job, store.place(job), result)

    def close(self):
        pass


def conducted(study, area, tmp_path):
    from trimtab.studies.store import Store
    from trimtab.studies.study_engine import _drive

    formula = Formula(area)
    answer, _ = _drive(study, tmp_path, formula, Store(tmp_path / "store"))
    return answer, formula.asked


def test_more_seeds_go_where_the_decision_is_open(tmp_path):
    noise = lambda seed: 0.1 * np.sin(7.0 * seed)
    area = lambda n, seed: {4: 1.0, 8: 1.0, 16: -50.0}[n] + noise(n + seed)
    answer, asked = conducted(split_of(seeds=3, max_seeds=7), area, tmp_path)
    count = lambda n: sum(m == n for m, _ in asked)
    assert (count(4), count(8), count(16)) == (7, 7, 3), "the hopeless one gets no more"
    assert answer.recommended_set == ("4x16", "8x8") and answer.ruled_out[0].split == "16x4"


def test_all_the_seeds_that_are_allowed_are_used(tmp_path):
    _, asked = conducted(split_of(seeds=3, max_seeds=4), lambda n, seed: float(seed % 3), tmp_path)
    assert [sum(m == n for m, _ in asked) for n in (4, 8, 16)] == [4, 4, 4], "though rounds add two"


def test_no_more_seeds_once_it_is_decided_and_as_many_as_time_allows(tmp_path):
    sure = lambda n, seed: float(-n) * 10 + 0.001 * seed
    assert len(conducted(split_of(seeds=2, max_seeds=9), sure, tmp_path / "a")[1]) == 6
    same = lambda n, seed: float(np.sin(7.0 * n * seed))
    asked = conducted(split_of(seeds=2, budget=7.0 / cores()), same, tmp_path / "b")[1]
    assert 6 + 6 <= len(asked) <= 24, "7 minutes of runs of 30 seconds each, one after another"


def test_a_split_none_of_whose_episodes_end_gets_no_seeds_without_end(tmp_path):
    area = lambda n, seed: None if n == 16 else float(np.sin(7.0 * n * seed))
    _, asked = conducted(split_of(seeds=2, max_seeds=4), area, tmp_path)
    assert sum(n == 16 for n, _ in asked) == 4


def test_a_run_that_fails_is_a_doubt_and_not_the_end(tmp_path, monkeypatch):
    from trimtab.studies.store import Outcome

    failing = lambda o: o.job.kind == "train" and (o.job.config.num_envs, o.job.config.seed) == (8, 2)
    plain_run = Formula.run
    monkeypatch.setattr(
        Formula,
        "run",
        lambda self, jobs, store, tick=None: (
            Outcome(o.job, o.path, {}, error="not finite") if failing(o) else o for o in plain_run(self, jobs, store)
        ),
    )
    answer, _ = conducted(split_of(seeds=3, max_seeds=3), lambda n, seed: float(n + 0.1 * seed), tmp_path)
    [failed] = answer.failed
    assert "8x8 seed 2 failed and is not compared: not finite" in failed and failed in answer.doubts
    assert [row.seeds for row in answer.rows] == [3, 2, 3]


def test_a_run_named_from_here_and_from_elsewhere_is_probed_once(tmp_path, monkeypatch):
    run = RunDir.create(tmp_path / "run", Config(env_id="FrozenLake-v1"), Manifest())
    (run.path / "checkpoints" / "64").mkdir(parents=True)
    monkeypatch.setattr(Split, "_steps_probed", [64])
    monkeypatch.chdir(tmp_path)
    config = Config(env_id="FrozenLake-v1", num_envs=4, num_steps=16, total_timesteps=64)
    study = Split(config, 64, 4, SplitOptions(run="run", splits="4x16", seeds=0))
    again = Split.again(study.asked())
    named = lambda study: [probe.identity for each in study.probes.values() for probe in each]
    assert named(study) == named(again)


def test_shorter_rows_are_predicted_at_the_stage_that_is_shown_and_every_stage_is_probed_once():
    config = Config(env_id="FrozenLake-v1", num_envs=4, num_steps=16, total_timesteps=64 * 20)
    probes = Split(config, 64, 4, SplitOptions(splits="4x16,16x4", points=3)).probes
    shown, others = probes[4, 16]
    assert shown.options.blocks == (8, 2, 1) and others.options.blocks == ()
    assert sorted((*shown.at, *others.at)) == sorted(probes[16, 4][0].at) and shown.at == (probes[16, 4][0].at[1],)


def test_more_seeds_than_usual_raise_their_limit_unless_that_is_given_too():
    assert effort({"seeds": 12}).max_seeds == 12 and effort({"seeds": 4, "quick": True}).max_seeds == 4
    assert effort({"seeds": 1}).max_seeds == SplitOptions.max_seeds
    with pytest.raises(ConfigError, match="max_seeds"):
        _check_split(effort({"seeds": 12, "max_seeds": 9}))


def test_the_untrained_policy_is_never_what_is_probed():
    config = Config(env_id="FrozenLake-v1", num_envs=4, num_steps=16, total_timesteps=64)
    assert Split(config, 64, 4, SplitOptions(splits="4x16,16x4", points=1))._steps_probed == [64]


def test_a_policy_that_was_trained_before_its_first_step_is_probed_there(tmp_path):
    first = loop.train(tiny.config(), tmp_path / "first", until=0)
    with pytest.raises(ConfigError, match="no checkpoint after the first step"):
        Split(first.config, 16, 2, SplitOptions(run=str(first.path)))
    begun = loop.train(first.config, tmp_path / "begun", start=WarmStart.from_run(first.path), until=0)
    assert Split(begun.config, 16, 2, SplitOptions(run=str(begun.path)))._steps_probed == [0]


@pytest.mark.parametrize("options", [{"points": 4}, {"budget": 0.0}, {"seeds": 5, "max_seeds": 3}, {"replicates": 1}])
def test_efforts_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError):
        _check_split(SplitOptions(**options))


# As a command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--points 0", "points=0: must be at least 1"),
        ("--seeds -1", "seeds=-1: must be at least 0"),
        ("--on moon", "on='moon': must be local, inline, ray or ray:ADDRESS"),
        ("--run RUN --env-id Pendulum-v1", "env_id"),
        ("--run RUN --algo ppg", "algo='ppg': the run"),
        ("--run RUN --preset none", "brings its own configuration"),
    ],
)
def test_what_contradicts_itself_is_refused(flags, said, tmp_path, capsys):
    RunDir.create(tmp_path / "run", Config(), Manifest())
    words = ["split", "CartPole-v1", "--batch", "64", "--run-dir", str(tmp_path / "out"), *flags.split()]
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(tmp_path / "run") if word == "RUN" else word for word in words])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and message.count("\n") == 1 and said in message
    assert not (tmp_path / "out").exists()


def test_the_whole_job_interrupted_and_resumed_writes_a_page_and_one_object(tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = [sys.executable, "-m", "trimtab.cli"]
    command = [*run, "split", "FrozenLake-v1", "--batch", "64", "--splits", "4x16,16x4", "--run-dir", "out"]
    command += ["--seeds", "2", "--max-seeds", "2", "--points", "1", "--replicates", "8"]
    command += ["--total-timesteps", "640", "--hidden-sizes", "8"]
    begun = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path)
    while begun.poll() is None and not list(out.glob("store/*/outcome.json")):
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does
    said = begun.communicate()[1]
    assert begun.returncode == 130 and "`trimtab resume out` continues from the finished jobs" in said
    kept = {file: file.stat().st_mtime_ns for file in out.glob("store/*/outcome.json")}
    assert kept and not (out / "page.html").exists()
    going_on = [*run, "resume", str(out), "--json"]
    done = subprocess.run(going_on, capture_output=True, text=True, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert kept == {file: file.stat().st_mtime_ns for file in kept}, "what was done is not done again"
    result = json.loads(done.stdout)
    assert [(r["num_envs"], r["num_steps"]) for r in result["rows"]] == [(4, 16), (16, 4)]
    for name in ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess", "fps", "auc"):
        assert {"value", "lo", "hi"} <= set(result["rows"][0][name])
    assert result["recommended"] in result["recommended_set"] and isinstance(result["ruled_out"], list)
    assert [s["stage"] for s in result["stages"]] == ["middle"]
    assert SplitResult.from_dict(result).as_dict() == result, "JSON and back"
    page = (out / "page.html").read_text()
    assert "<html" in page and result["recommended"].split("x")[0] in page
    assert list((out / "figures").glob("*.png"))
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 2 and "already exists" in again.stderr


def test_the_batch_that_is_split_is_its_own_unless_another_is_asked_for(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(study, "run_study", lambda split, *rest: asked.append(split) or {})
    monkeypatch.setattr("trimtab.operations.split.show_split", lambda result, as_json: None)
    run = loop.train(tiny.config(num_envs=4, num_steps=16), tmp_path / "run")
    words = (
        ["Pendulum-v1"],
        ["Pendulum-v1", "--batch", "64"],
        ["--run", str(run.path)],
        ["CartPole-v1", "--preset=none"],
    )
    for each in words:
        assert cli.main(["split", *each]) == 0
    preset = trimtab.configure("Pendulum-v1")
    own = [(preset.batch, preset.num_envs), (64, preset.num_envs), (64, 4), (512, 4)]
    assert [(split.batch, split.own) for split in asked] == own
    assert asked[2].config.env_id == "CartPole-v1"
    with pytest.raises(SystemExit):
        cli.main(["split"])


def test_a_split_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["split", "NoSuch-v9", "--batch", "64", "--quiet"])
    assert stopped.value.code == 2 and not list(tmp_path.glob("runs/*"))
