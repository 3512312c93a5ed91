"""`trimtab tune`: what a sweep keeps, what the end says, and the whole job at a tiny size."""

import json
import os
import subprocess
import sys

import pytest
import tiny
import yaml

from trimtab import cli
from trimtab.config import Config, ConfigError, from_dict
from trimtab.estimate import Estimate
from trimtab.studies import tune
from trimtab.studies.tune import PHASES, Trial, TuneOptions, check


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Sweeps whose trials learn what a formula says: best at a learning rate of 1e-3 with two epochs."""

    def learned(self, trials, seeds):
        for trial in (t for t in trials if not t.areas):
            config = self.config_of(trial)
            area = (config.learning_rate == 1e-3) * 10 + (config.update_epochs == 2) * 3 - config.gamma
            trial.areas, trial.fps = [area + s for s in seeds], [1.0 for _ in seeds]

    monkeypatch.setattr(tune._Work, "_train", learned)
    return lambda **options: tune._Work(Config(), tmp_path, TuneOptions(**options))


def test_each_sweep_starts_from_what_the_ones_before_it_kept(work):
    job = work(phases="stability")
    kept = {sweep["field"]: sweep["kept"] for sweep in job.sweep_all()}
    assert kept == {"learning_rate": 1e-3, "update_epochs": 2, "max_grad_norm": 0.5}
    assert job.best.changes == {"learning_rate": 1e-3, "update_epochs": 2}


def test_the_start_is_kept_where_nothing_is_better(work):
    job = work(phases="polish")
    assert [sweep["kept"] for sweep in job.sweep_all()] == ["constant", False, 0.0] and job.best.number == 0


def test_the_last_comparison_uses_new_seeds_and_has_the_start_in_it(work):
    job = work(phases="stability,horizon", seeds=2, final_seeds=3)
    job.sweep_all()
    final = job.compare()
    assert final[0].changes == {} and len(final) == 4
    assert all(min(t.areas) > 900 for t in final), "the formula adds the seed: these are seeds no sweep has seen"
    assert final[1].changes == job.best.changes


def test_values_an_algorithm_refuses_are_left_out(tmp_path):
    job = tune._Work(Config(algo="reinforce", num_envs=1), tmp_path, TuneOptions())
    assert job._changed("num_envs", 0) is None and job._changed("num_envs", 2) is not None


def test_where_there_is_nothing_to_try_it_says_so(work, monkeypatch):
    monkeypatch.setitem(PHASES, "variance", {"norm_reward": lambda c: (c.norm_reward,)})
    job = work(phases="variance")
    job.sweep_all()
    with pytest.raises(ConfigError, match="no value to try"):
        job.compare()


@pytest.mark.parametrize(
    "gain, said", [((1, 0.5, 1.5), "Better"), ((-1, -2, -0.5), "Worse"), ((1, -0.5, 2.5), "Not told apart")]
)
def test_the_sentence_claims_no_more_than_the_interval(gain, said):
    best, start = Trial(1, {"gamma": 0.9}, [2.0, 3.0]), Trial(0, {}, [1.0, 1.0])
    assert tune._sentence(best, start, Estimate(*gain)).startswith(said)


def test_every_field_swept_is_a_field_of_the_configuration_and_its_values_are_valid():
    for fields in PHASES.values():
        for name, values in fields.items():
            tried = [v for v in values(Config()) if v != 0 or name != "num_envs"]
            assert len(set(tried)) > 1 and all(Config().replace(**{name: v}) for v in tried)


@pytest.mark.parametrize("options", [{"seeds": 0}, {"final_seeds": 1}, {"phases": "stabilty"}, {"phases": ""}])
def test_efforts_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError):
        check(TuneOptions(**options))


def test_the_whole_job_writes_a_configuration_a_page_and_one_object_and_can_be_resumed(tmp_path, capsys):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "trimtab.cli", "tune", "FrozenLake-v1", "--preset", "none", "--phases", "variance"]
    command += [
        "--seeds",
        "1",
        "--final-seeds",
        "2",
        "--total-timesteps",
        "640",
        "--num-envs",
        "4",
        "--num-steps",
        "16",
    ]
    command += ["--hidden-sizes", "8", "--run-dir", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | tiny.CHEAP)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(s["field"], [t["value"] for t in s["trials"]]) for s in result["sweeps"]] == [
        ("norm_reward", [False, True])
    ]
    assert {"value", "lo", "hi"} == set(result["gain"]) and isinstance(result["better"], bool)
    assert len(result["final"]) == 2 and all(len(row["areas"]) == 2 for row in result["final"])
    assert from_dict(yaml.safe_load((out / "tuned.yaml").read_text())).hidden_sizes == (8,)
    assert "<html" in (out / "page.html").read_text() and (out / "figures" / "sweeps.png").exists()
    times = {file: file.stat().st_mtime_ns for file in out.glob("outputs/*.txt")}
    assert cli.main(["resume", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert times == {file: file.stat().st_mtime_ns for file in out.glob("outputs/*.txt")}
