"""`trimtab doctor` and `trimtab plan` on real runs, as a user calls them."""

import json

import polars as pl
import pytest
import tiny

from trimtab import cli
from trimtab.advise.diagnosis import diagnose
from trimtab.advise.planning import plan
from trimtab.config import Config
from trimtab.core.errors import RunError
from trimtab.envs import EnvError
from trimtab.training.loop import train
from trimtab.training.records import ActionRecord, EnvironmentRecord, Manifest, MetricsRow
from trimtab.training.run import load
from trimtab.training.run_dir import RunDir


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = tiny.config(num_envs=4, num_steps=16, total_timesteps=64 * 40)
    config = config.replace(learning_rate=0.05, update_epochs=4, clip_coef=0.02, vf_coef=0.001)
    return train(config, tmp_path_factory.mktemp("doctor") / "run")


def told(argv, capsys):
    assert cli.main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_step_size_far_too_high_is_found_and_the_next_command_lowers_it(run, capsys):
    said = told(["doctor", str(run.path)], capsys)
    clipping = next(f for f in said["findings"] if f["check"] == "clipping")
    assert clipping["verdict"] == "watch", "returns rise all the same"
    assert clipping["lo"] <= clipping["value"] <= clipping["hi"]
    assert said["command"] == f"trimtab train --config {run.path}/config.yaml --learning-rate 0.001"


def test_the_terminal_says_the_same(run, capsys):
    assert cli.main(["doctor", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert "clip fraction" in out and "next: trimtab train --config" in out


def test_runs_with_several_choices_at_once_are_looked_at_too(tmp_path):
    action = ActionRecord("multidiscrete", 6, (2, 4))
    files = RunDir.create(tmp_path / "run", tiny.config(), Manifest(environment=EnvironmentRecord(action=action)))
    files.append_metrics([MetricsRow(1, 16, {"time/fps": 100.0})])
    assert diagnose(load(files.path)).findings


def test_a_run_that_stopped_is_recognized(tmp_path):
    stopped = RunDir.create(tmp_path / "run", tiny.config(), Manifest())
    stopped.append_metrics([MetricsRow(1, 16, {}, ("policy parameters",))])
    first = diagnose(load(tmp_path / "run")).findings[0]
    assert (first.check, first.verdict) == ("finite", "act") and "parameters" in first.seen
    assert first.command.startswith(f"trimtab train --config {tmp_path}/run/config.yaml --learning-rate ")


def test_every_finding_to_act_on_names_one_next_command(tmp_path):
    config = tiny.config(vf_coef=50.0, update_epochs=40, clip_coef=2.0, learning_rate=1e-3)
    files = RunDir.create(tmp_path / "run", config, Manifest(ended="no space left"))
    files.append_metrics([MetricsRow(1, 16, {"train/clip_fraction": 0.0})])
    acts = [finding for finding in diagnose(load(files.path)).findings if finding.verdict == "act"]
    assert [f.check for f in acts] == ["ended", "clip range", "epochs", "value coefficient"]
    commands = [finding.command for finding in acts]
    assert commands[0] == f"trimtab resume {files.path}" and commands[3].endswith("config.yaml --vf-coef 0.5")
    assert len(set(commands)) == 4


def test_a_resolved_noise_scale_is_held_against_the_batch(run):
    table = {"quantity": "noise_scale_trajectory", "step": 64, "value": 5e4, "lo": 4e4, "hi": 6e4, "resolved": True}
    path = run.path / "probes" / "one.parquet"
    path.parent.mkdir()
    pl.DataFrame([table | {"resolved": False, "step": 128}, table]).write_parquet(path)
    try:
        noise = next(f for f in diagnose(run).findings if f.check == "noise scale")
        assert noise.verdict == "watch" and noise.value == 5e4 and noise.change == {"num_envs": 8}
    finally:
        path.unlink()
        path.parent.rmdir()


def test_a_plan_shows_what_follows_and_what_is_unusual(capsys):
    said = told(["plan", "Pendulum-v1", "--preset", "none", "--num-envs", "1", "--num-steps", "64"], capsys)
    checks = {f["check"]: f["verdict"] for f in said["findings"]}
    assert checks["batch"] == checks["mixture"] == "watch"
    assert said["derived"]["batch (N × T)"] == "1 × 64 = 64"


def test_a_plan_knows_spaces_network_and_memory_before_anything_runs(capsys):
    said = told(["plan", "Breakout-MinAtar"], capsys)
    assert next(f for f in said["findings"] if f["check"] == "minibatch")["verdict"] == "fine"
    said = told(["plan", "Pong-v5"], capsys)
    assert said["derived"]["network"].startswith("nature, 1,687,") and "at least" in said["derived"]["memory"]


def test_a_plan_for_an_environment_that_is_not_there_names_the_nearest():
    with pytest.raises(EnvError, match=r"no environment is called 'CartPoel-v1'; nearest: CartPole-v1"):
        plan(Config(env_id="CartPoel-v1"))


def test_records_that_are_missing_are_told_and_a_damaged_configuration_is_one_line(tmp_path):
    run = train(tiny.config(total_timesteps=64), tmp_path / "run", checkpoints=1)
    assert "records" not in {f.check for f in diagnose(run).findings}
    run.files.log.unlink()
    finding = next(f for f in diagnose(run).findings if f.check == "records")
    assert finding.verdict == "act" and "logs end at step 0, the newest checkpoint is at step 64" in finding.seen
    (run.path / "config.yaml").write_text("num_envs: [")
    with pytest.raises(RunError, match=r"config.yaml cannot be read: [^\n]*$"):
        diagnose(run)
