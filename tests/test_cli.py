"""The command line: what a user gets wrong ends in one line, exit code 2, and nothing written."""

import json
from typing import Any

import pytest
import tiny

from trimtab import cli, operations
from trimtab.config import Config, ConfigError
from trimtab.operations import flags
from trimtab.training import progress
from trimtab.training.records import Manifest
from trimtab.training.run_dir import RunDir

WRONG = {
    "unknown command": "trian",
    "unknown option": "train CartPole-v1 --num-evns 3",
    "abbreviated option": "train CartPole-v1 --num-env 3",
    "missing value": "train CartPole-v1 --num-envs",
    "not a number": "train CartPole-v1 --num-envs many",
    "not whole": "train CartPole-v1 --num-envs 2.5",
    "out of range": "train CartPole-v1 --gamma 1.5",
    "infinite": "train CartPole-v1 --learning-rate inf",
    "not a choice": "train CartPole-v1 --algo pppo",
    "not a boolean": "train CartPole-v1 --norm-obs maybe",
    "not a mapping": "train CartPole-v1 --env-kwargs 5",
    "broken mapping": "train CartPole-v1 --env-kwargs {a:",
    "unknown environment": "train CartPole-v7",
    "environment twice": "train CartPole-v1 --env-id Pendulum-v1",
    "no environment": "train",
    "unknown preset": "train CartPole-v1 --preset nope",
    "unknown environment option": "train CartPole-v1 --env-kwargs {gravty:3}",
    "wrong backend": "train CartPole-v1 --backend tabular",
    "too many words": "train CartPole-v1 Pendulum-v1",
    "no such file": "train --config nowhere.yaml",
    "a directory for a file": "train --config .",
    "bytes for text": "train --config binary.yaml",
    "broken file": "train --config broken.yaml",
    "a list for fields": "train --config list.yaml",
    "an empty file": "train --config empty.yaml",
    "unknown field in a file": "train --config unknown.yaml",
    "a number for a name in a file": "train --config number.yaml",
    "wrong type in a file": "train --config type.yaml",
    "a field twice in a file": "train --config twice.yaml",
    "no checkpoints": "train CartPole-v1 --checkpoints 0",
    "no seeds": "train CartPole-v1 --seeds 0",
    "ignored option": "train CartPole-v1 --momentum 0.9",
    "where many jobs are done, of one run": "train CartPole-v1 --workers 2",
    "a cheat sheet of a run": "doctor runs/none --cheatsheet",
    "does not fit the environment": "train CartPole-v1 --network impala",
    "resume of nothing": "resume nowhere",
    "eval of nothing": "eval nowhere",
    "show of nothing": "show nowhere",
    "repeat of nothing": "repeat nowhere",
    "eval of no episodes": "eval nowhere --episodes 0",
    "eval with a negative seed": "eval nowhere --seed -1",
    "probe with a negative seed": "probe nowhere --seed -1",
    "blocks of rows of one step": "probe nowhere --num-steps 1 --blocks 1",
    "a file for a directory": "train CartPole-v1 --run-dir empty.yaml/run",
    "resume without checkpoints": "resume nowhere --checkpoints 0",
    "split of two environments": "split CartPole-v1 --batch 64 --env-id Acrobot-v1",
    "unknown backend to list": "envs --backend nativ",
    "unknown name to list": "envs Qzzzx",
    "unknown environment to plan": "plan NoSuchEnv-v9",
    "unknown module": "train nomodule:Env-v0",
    "unknown part of an observation": "train CheetahRun-v1 --actor-obs speed",
}
FILES = {
    "binary.yaml": b"\xff\xfe\x00\x80\xff",
    "broken.yaml": b"a: [1,\nb: {",
    "list.yaml": b"- 1\n- 2\n",
    "empty.yaml": b"",
    "unknown.yaml": b"env_id: CartPole-v1\nnum_env: 3\n",
    "number.yaml": b"7: 3\nenv_id: CartPole-v1\n",
    "twice.yaml": b"env_id: CartPole-v1\nnum_envs: 2\nnum_envs: 3\n",
    "type.yaml": b"env_id: CartPole-v1\nnum_envs: [1]\n",
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_ends_in_one_line_and_writes_nothing(case, runs, capsys):
    for name, data in FILES.items():
        (runs / name).write_bytes(data)
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(cli.main(WRONG[case].split()))
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert said.err.count("\n") == 1 and said.err.startswith("trimtab: ") and "Traceback" not in said.err
    assert said.out == ""
    assert {p.name for p in runs.iterdir()} == set(FILES)


def test_messages_name_the_field_the_value_and_the_nearest(capsys):
    for line, parts in {
        "train CartPole-v1 --num-evns 3": ["--num-evns", "--num-envs"],
        "train CartPole-v7": ["CartPole-v7", "CartPole-v1"],
        "trian": ["trian", "train"],
        "train CartPole-v1 --minibatch-size 100": ["minibatch_size=100", "64, 128"],
        "train CartPole-v1 --preset ppo/CartPol": ["ppo/CartPol", "ppo/CartPole-v1"],
    }.items():
        with pytest.raises(SystemExit):
            cli.main(line.split())
        said = capsys.readouterr().err
        assert all(part in said for part in parts), said


@pytest.mark.parametrize(
    "name, kind, text, value",
    [
        ("total_timesteps", int, "1e6", 1_000_000),
        ("total_timesteps", int, "500_000", 500_000),
        ("gamma", float, ".5", 0.5),
        ("target_kl", float | None, "none", None),
        ("norm_obs", bool, "Yes", True),
        ("env_kwargs", dict[str, Any], "{a: 1}", {"a": 1}),
        ("hidden_sizes", tuple[int, ...], ["64,", "32"], (64, 32)),
    ],
)
def test_values_are_read_by_type(name, kind, text, value):
    assert flags.parse(name, kind, text) == value


@pytest.mark.parametrize("kind, text", [(int, "1e400"), (int, "1.5"), (float, "x"), (bool, "2")])
def test_values_that_cannot_be_read_are_refused(kind, text):
    with pytest.raises(ConfigError):
        flags.parse("name", kind, text)


def test_every_field_has_help():
    helps = flags.field_help(Config)
    assert set(helps) == set(Config.__dataclass_fields__) and all(text.endswith((".", ")")) for text in helps.values())


def test_train_show_eval_end_with_one_json_object(runs, capsys):
    given = [f"--{name}={value}" for name, value in tiny.BASE.items() if name != "hidden_sizes"]
    line = ["train", "CartPole-v1", "--preset=none", "--hidden_sizes", "8", *given, "--run-dir", "r", "--json"]
    assert cli.main(line) == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["total_timesteps"] == 64 and summary["run"] == "r" and said.err == ""
    assert cli.main(["show", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["last"]["iteration"] == 4
    assert cli.main(["eval", "r", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eval/episodes"] == 2
    with pytest.raises(SystemExit):
        cli.main(["eval", "r", "--at", "33"])
    assert "nearest: 32, 48" in capsys.readouterr().err


def test_a_file_of_fields_lies_over_the_preset(runs):
    """What a file does not say comes from the environment's own preset, unless there is to be none."""
    (runs / "few.yaml").write_text("env_id: Pendulum-v1\nnum_steps: 64\n")
    words = ["--config", "few.yaml", "--total-timesteps", "4096"]
    given = operations.load("plan").read(words).options()
    config = given.configuration()
    assert (config.num_steps, config.total_timesteps) == (64, 4096)
    assert config.norm_obs and config.num_minibatches == 32 and given.chosen_preset == "ppo/Pendulum-v1"
    given = operations.load("plan").read([*words, "--preset", "none"]).options()
    assert not given.configuration().norm_obs and given.chosen_preset is None


def test_a_folder_of_runs_names_the_runs_in_it(runs, capsys):
    RunDir.create(runs / "all" / "seed1", Config(), Manifest())
    with pytest.raises(SystemExit):
        cli.main(["show", "all"])
    assert "there are runs in it: seed1" in capsys.readouterr().err
    assert cli.main(["doctor", "."]) == 0
    assert "all/seed1: " in capsys.readouterr().out


def test_progress_counts_down_and_ends_once(capsys, monkeypatch):
    clock = iter([0.0, 0.0, 10.0, 16.0, 20.0, 21.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    bar = progress.Progress(2, "work", unit="tasks")
    bar.start()
    for done in (1, 1, 2, 2):
        bar.update(done)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("tasks")[1].split() for line in lines] == [["10", "s", "left"], ["4", "s", "left"], []]


def test_the_list_of_environments_keeps_its_brackets_and_says_what_runs(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert cli.main(["envs", "lunarlander"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["LunarLanderContinuous-v3", "envpool", "8", "float32", "continuous", "2", "1000"] in lines
    assert cli.main(["envs", "ChineseGo13x13"]) == 0
    assert "not available here (has several players" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["envs"]) == 0
    told = capsys.readouterr().out
    assert "gymnasium[box2d]" in told and "mujoco.myosuite" in told and "796" in told
