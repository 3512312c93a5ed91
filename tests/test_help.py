"""Help in groups with the preset's values, names of other libraries, and completion in a real shell."""

import dataclasses
import subprocess

import pytest

from trimtab import cli, presets
from trimtab.commands import HELP
from trimtab.commands.described import parser_of, parsers
from trimtab.commands.elsewhere import ELSEWHERE
from trimtab.commands.groups import GROUPS
from trimtab.config import Config


def shown(capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(cli.main(list(argv)))
    assert stopped.value.code == 0
    return capsys.readouterr().out


def refused(capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    said = capsys.readouterr()
    assert stopped.value.code == 2 and said.err.count("\n") == 1 and not said.out
    return said.err


def test_every_field_is_in_one_group():
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(field.name for field in dataclasses.fields(Config))


def test_help_is_in_groups_under_a_short_usage_line(capsys):
    text = shown(capsys, "train", "--help")
    assert text.startswith("usage: trimtab train [ENV] [options]\n")
    assert all(f"\n{title}:\n" in text for title in GROUPS)
    assert "--batch N×T ENV" in shown(capsys, "split", "--help")


@pytest.mark.parametrize("words", ["train Pendulum-v1", "tune --env-id Pendulum-v1", "split --gamma 0.9 Pendulum-v1"])
def test_help_shows_what_the_preset_gives(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = shown(capsys, *words.split(), "--help")
    preset = presets.load("ppo/Pendulum-v1")
    assert f"in parallel. (preset: {preset['num_envs']}; otherwise {Config.num_envs})" in text
    assert "The preset is ppo/Pendulum-v1" in text
    assert "(preset: " not in shown(capsys, *words.split(), "--preset", "none", "--help")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_of_another_library_is_answered_with_the_one_here(name, capsys):
    said = refused(capsys, "train", "CartPole-v1", f"--{name}", "3")
    assert f"--{name}: no such option; here: {ELSEWHERE[name]}" in said


def test_names_of_other_libraries_are_no_options_and_lead_to_ones():
    options = {option for action in parser_of("train")._actions for option in action.option_strings}
    for name, answer in ELSEWHERE.items():
        assert f"--{name}" not in options
        assert {word.strip(",:") for word in answer.split() if word.startswith("--")} <= options


def test_a_command_without_such_options_does_not_suggest_them(capsys):
    assert "--learning-rate" not in refused(capsys, "show", "run", "--lr", "3")


def test_every_command_has_a_parser_and_describing_one_runs_nothing(runs):
    assert set(parsers()) == set(HELP)
    assert not list(runs.iterdir())


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory):
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        cli.main(["completion", "bash"])
    path = tmp_path_factory.mktemp("shell") / "completion.sh"
    path.write_text(said.getvalue())
    return path


@pytest.mark.parametrize(
    "words, offered",
    [
        (["tra"], ["train", "translate"]),
        (["train", "MountainCarC"], ["MountainCarContinuous-v0"]),
        (["train", "CartPole-v1", "--num-m"], ["--num-minibatches"]),
        (["train", "--algo", "pp"], ["ppo", "ppo-ewma", "ppg", "ppg-ewma"]),
        (["train", "--algo", "=", "ppg"], ["ppg", "ppg-ewma"]),
        (["plan", "--preset", "reinforce/"], ["reinforce/CartPole-v1"]),
        (["presets", "reinforce/"], ["reinforce/CartPole-v1"]),
        (["show", "--json", ""], ["true", "false"]),
        (["show", "runs"], ["runs one"]),
        (["study", "cl"], ["claims"]),
        (["train", "--num-envs", ""], []),
    ],
)
def test_completion_in_bash(words, offered, bash_script, runs):
    (runs / "runs one").mkdir()
    (runs / "runs.txt").touch()
    script = (
        f'source {bash_script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trimtab; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    command = ["bash", "--norc", "-c", script, "bash", "trimtab", *words]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=20, cwd=runs, env={"PATH": "/usr/bin:/bin"}
    )
    assert result.stderr == ""
    assert [line for line in result.stdout.split("\n") if line] == offered


def test_completion_of_zsh_and_fish_names_the_same_options(capsys):
    options = [o for a in parser_of("train")._actions for o in a.option_strings if o.startswith("--")]
    for shell, spelled in (("zsh", "{}"), ("fish", "-l {}")):
        text = shown(capsys, "completion", shell)
        assert all(spelled.format(o if shell == "zsh" else o[2:]) in text for o in options)
