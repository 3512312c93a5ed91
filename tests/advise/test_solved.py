"""What counts as solved, and that a solved run is not sent to be changed; the course of returns; the cheat sheet."""

import json

import numpy as np
import pytest

from trimtab import cli, presets
from trimtab import config as configuration
from trimtab.advise import solved
from trimtab.advise.cheatsheet import CHEATSHEET
from trimtab.advise.diagnosis import Diagnosis, diagnose
from trimtab.advise.rules import RULES
from trimtab.advise.rules.stability_rules import _swings
from trimtab.config import Config
from trimtab.core.finding import Finding
from trimtab.training.records import ActionRecord, EnvironmentRecord, Manifest, MetricsRow
from trimtab.training.run import load
from trimtab.training.run_dir import RunDir

RNG = np.random.default_rng(0)


def test_the_table_is_gymnasiums():
    import gymnasium

    own = {
        env_id: (float(spec.reward_threshold), spec.max_episode_steps)
        for env_id, spec in gymnasium.registry.items()
        if spec.reward_threshold is not None and "/" not in env_id
    }
    assert own == solved.REGISTERED
    assert not set(solved.OWN) & set(own)


def test_a_threshold_belongs_to_the_environment_as_it_is_registered():
    assert solved.goal(Config(env_id="CartPole-v1")).threshold == 475
    assert solved.goal(Config(env_id="CartPole-v1", time_limit=500)).threshold == 475
    assert solved.goal(Config(env_id="CartPole-v1", time_limit=200)) is None
    assert solved.goal(Config(env_id="FrozenLake-v1", env_kwargs={"is_slippery": False})) is None
    assert "own" in solved.goal(Config(env_id="Pendulum-v1")).source
    assert solved.goal(Config(env_id="Breakout-MinAtar")) is None


def test_solved_is_the_mean_of_the_last_hundred_or_an_evaluation():
    config, rising = Config(env_id="CartPole-v1"), np.linspace(10, 400, 300)
    assert solved.reached(config, rising, None) is None
    assert solved.reached(config, rising, 480.0).value == 480.0
    late = np.concatenate([rising, np.full(100, 476.0)])
    assert solved.reached(config, late, None).value == 476.0
    assert solved.reached(config, np.concatenate([late, np.full(10, 400.0)]), None) is None  # no longer
    assert solved.reached(config, np.full(20, 500.0), None) is None  # too few to say


def test_the_ceiling_must_have_been_learned():
    config = Config(env_id="Catch-bsuite")
    learned = np.concatenate([RNG.choice([-1.0, 1.0], 300), np.ones(200)])
    assert solved.reached(config, learned, None).value == 1.0
    assert solved.reached(config, np.full(400, -200.0), None) is None  # stuck at the floor
    assert solved.reached(config, np.concatenate([learned, [0.5]]), None) is None


def records(path, config, returns):
    """A run's directory with these episodes, and metrics that show a clip fraction far too high."""
    run = RunDir.create(path, config, Manifest(environment=EnvironmentRecord(action=ActionRecord("discrete", 2))))
    rows = [
        {"iteration": i + 1, "time/total_timesteps": 512 * (i + 1), "train/clip_fraction": 0.5, "train/value_loss": 1.0}
        for i in range(40)
    ]
    run.append_metrics([MetricsRow.from_dict(row) for row in rows])
    count = len(returns)
    columns = {
        "step": np.arange(1, count + 1) * 40,
        "env": np.zeros(count, int),
        "return": np.asarray(returns, float),
        "length": np.full(count, 100),
    }
    run.write_episodes(0, columns)
    run.write_checkpoint(512 * 40, 40, {"x": np.zeros(1, np.float32)})
    return load(path)


def test_a_solved_run_is_not_sent_to_be_changed(tmp_path):
    config = Config(env_id="CartPole-v1", total_timesteps=512 * 40)
    rising = np.concatenate([np.linspace(10, 480, 300), np.full(200, 490.0)])
    said = diagnose(records(tmp_path / "solved", config, rising))
    assert said.findings[0].check == "goal" and said.findings[0].verdict == "solved"
    assert said.command is None and said.sentence.startswith("Solved: ") and "Nothing to act on" in said.sentence
    assert not [f for f in said.findings if f.verdict in ("act", "watch") or f.change]
    clipping = next(f for f in said.findings if f.check == "clipping")
    assert clipping.verdict == "note"
    same = diagnose(records(tmp_path / "not", config, rising * 0.9))  # the same records below the target
    assert next(f for f in same.findings if f.check == "clipping").verdict == "watch" and same.command  # it improves
    flat = np.full(500, 100.0) + RNG.normal(0, 1, 500)
    stuck = diagnose(records(tmp_path / "flat", config, flat))
    assert next(f for f in stuck.findings if f.check == "clipping").verdict == "act" and stuck.command


def test_a_preset_that_returns_what_it_is_known_to_has_nothing_to_act_on(tmp_path):
    shipped = configuration.from_dict(presets.load("ppo/HalfCheetah-v4"))
    returns = np.tile([1990.0, 2010.0], 100)
    said = diagnose(records(tmp_path / "known", shipped.replace(seed=3), returns))
    assert "act" not in {f.verdict for f in said.findings} and "clipping" in said.sentence
    other = diagnose(records(tmp_path / "other", shipped.replace(learning_rate=1e-2), returns))
    assert "act" in {f.verdict for f in other.findings}


def test_a_diagnosis_is_short_to_look_at():
    series = tuple(float(x) for x in range(10_000))
    found = [Finding("clipping", "act", "too <much>", "less", {"learning_rate": 1e-4}, series=series)]
    said = Diagnosis("runs/x", found, "To act on: clipping.", None)
    assert len(repr(said)) < 300 and "clipping" in repr(said) and len(repr(found[0])) < 300
    assert "too &lt;much&gt;" in said._repr_html_() and "learning_rate: 0.0001" in said._repr_html_()


def test_swings_are_what_episodes_do_not_explain():
    noise = lambda: np.random.default_rng(0).normal(0, 30, 4000)
    assert _swings(np.linspace(0, 100, 4000) + noise(), 40)[0] < 0.1
    size, sure = _swings(np.repeat(np.tile([0.0, 100.0], 20), 100) + noise(), 40)
    assert size == pytest.approx(0.5**0.5, rel=0.1) and sure > 2
    assert _swings(noise(), 40)[1] < 3  # noise alone is no swing


def test_the_cheat_sheet_is_there_without_a_run(capsys, tmp_path):
    assert cli.main(["doctor", "--cheatsheet", "--json", "--page", str(tmp_path / "sheet.html")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["symptoms"]) == len(CHEATSHEET) >= 8 and all(s["tries"] and s["look"] for s in said["symptoms"])
    assert "Numbers blow up" in (tmp_path / "sheet.html").read_text()
    with pytest.raises(SystemExit) as stopped:
        cli.main(["doctor"])
    assert stopped.value.code == 2 and "name a run" in capsys.readouterr().err


def test_the_cheat_sheets_rules_are_the_doctors():
    names = {rule.name for rule in RULES}
    assert {check for symptom in CHEATSHEET for check in symptom.checks} <= names


def test_pages_of_a_run_are_written_with_their_figures(tmp_path, capsys):
    config = Config(env_id="CartPole-v1", total_timesteps=512 * 40)
    run = records(tmp_path / "run", config, np.linspace(200, 10, 300))
    assert cli.main(["show", str(run.path), "--json", "--page"]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(run.path / "page.html")
    assert cli.main(["doctor", str(run.path), "--page"]) == 0
    assert "doctor.html" in capsys.readouterr().out and (run.path / "doctor.html").is_file()
    assert "<strong>To act on</strong>" in (run.path / "doctor.html").read_text()
