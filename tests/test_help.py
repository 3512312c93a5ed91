"""Help in groups with the preset's values, names of other libraries, and completion in a real shell."""

import contextlib
import dataclasses
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from trimtab import cli, presets
from trimtab.config import Config
from trimtab.config.settings import Settings
from trimtab.core.fields import declaration
from trimtab.libraries.common.translation import ALIASES, SENTENCES, option_here
from trimtab.operations import HELP, parser_of, parsers


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


GROUPS = [group for item in dataclasses.fields(Settings) if (group := declaration(item).group)]


def test_every_field_is_in_one_group():
    assert len(set(GROUPS)) == len(GROUPS) > 10
    assert declaration(dataclasses.fields(Settings)[0]).group


def test_help_is_in_groups_under_a_short_usage_line(capsys):
    text = shown(capsys, "train", "--help")
    assert text.startswith("usage: trimtab train [ENV] [options]\n")
    assert all(f"\n{title}:\n" in text for title in GROUPS)
    assert "export --to numpy|onnx|torch RUN [options]" in shown(capsys, "export", "--help")


@pytest.mark.parametrize("words", ["train Pendulum-v1", "tune --env-id Pendulum-v1", "split --gamma 0.9 Pendulum-v1"])
def test_help_shows_what_the_preset_gives(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    text = shown(capsys, *words.split(), "--help")
    preset = presets.load("ppo/Pendulum-v1")
    assert f"in parallel. (preset: {preset['num_envs']}; otherwise {Config.num_envs})" in text
    assert "The preset is ppo/Pendulum-v1" in text
    assert "(preset: " not in shown(capsys, *words.split(), "--preset", "none", "--help")


@pytest.mark.parametrize("name", [*ALIASES, *SENTENCES, "n_steps", "horizon-length", "num_mini_batches", "e_clip"])
def test_a_name_of_another_library_is_answered_with_the_one_here(name, capsys):
    flag = f"--{name.replace('_', '-')}"
    options = [option for action in parser_of("train")._actions for option in action.option_strings]
    answer = option_here(flag, options)
    assert answer is not None and flag not in options
    assert {word.strip(",:") for word in answer.split() if word.startswith("--")} <= set(options)
    assert f"{flag}: no such option; here: {answer}" in refused(capsys, "train", "CartPole-v1", flag, "3")


def test_a_command_without_such_options_does_not_suggest_them(capsys):
    assert "--learning-rate" not in refused(capsys, "show", "run", "--lr", "3")


def test_every_command_has_a_parser_and_describing_one_runs_nothing(runs):
    assert set(parsers()) == set(HELP)
    assert not list(runs.iterdir())


# Completion ----------------------------------------------------------------------------------------------------

ANSWERS = [
    (["tra"], ["train", "translate"]),
    (["train", "MountainCarC"], ["MountainCarContinuous-v0"]),
    (["train", "CartPole-v1", "--num-m"], ["--num-minibatches"]),
    (["train", "--algo", "pp"], ["ppo", "ppo-ewma", "ppg", "ppg-ewma"]),
    (["plan", "--preset", "reinforce/C"], ["reinforce/CartPole-v1"]),
    (["presets", "reinforce/"], ["reinforce/CartPole-v1", "reinforce/continuous", "reinforce/discrete"]),
    (["translate", "b"], ["brax"]),
    (["export", "runs one", "--to", "o"], ["onnx"]),
    (["show", "runs"], ["runs one"]),
    (["show", "--json", "runs"], ["runs one"]),  # an option that may stand alone
    (["train", "--from", "runs"], ["runs one"]),
    (["train", "--config", "runs"], ["runs one", "runs.txt"]),
    (["study", "cl"], ["claims"]),
    (["study", "run", "post/sp"], ["post/split"]),
    (["train", "--num-envs", ""], []),
]
# Each says, a line each, what it would offer for the words it is given. zsh itself keeps what begins like the last.
ASK = {
    "bash": 'source {}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trimtab; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": (
        "compdef() {{}}; compadd() {{ shift; print -rl -- $@; }}; "
        '_files() {{ if [[ "$1" == -/ ]]; then print -rl -- *(/N); else print -rl -- *(N); fi; }}; '
        'source {}; words=("$@"); CURRENT=$#; _trimtab'
    ),
    "fish": "source {}; complete -C (string join -- ' ' (string escape -- $argv[1..-2]))' '$argv[-1]",
}
HERE = [shell for shell in ASK if shutil.which(shell)]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shells")
    for shell in ASK:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            cli.main(["completion", shell])
        (folder / shell).write_text(said.getvalue())
    return folder


def offered(shell: str, script: Path, words: list[str], folder: Path) -> list[str]:
    start = {"bash": ["bash", "--norc", "-c"], "zsh": ["zsh", "-f", "-c"], "fish": ["fish", "--no-config", "-c"]}
    name = [] if shell == "fish" else [shell]  # what $0 is
    done = subprocess.run(
        [*start[shell], ASK[shell].format(script), *name, "trimtab", *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"},
    )
    assert done.stderr == ""
    lines = [line.split("\t")[0].rstrip("/").replace("\\ ", " ") for line in done.stdout.split("\n") if line]
    return sorted(line for line in lines if line.startswith(words[-1]))


@pytest.mark.parametrize("shell", HERE)
def test_completion_in_every_shell_that_is_here(shell, scripts, runs):
    (runs / "runs one").mkdir()
    (runs / "runs.txt").touch()
    for words, wanted in ANSWERS:
        assert offered(shell, scripts / shell, words, runs) == sorted(wanted), words


def test_completion_after_an_equals_sign_in_bash(scripts, runs):
    assert offered("bash", scripts / "bash", ["train", "--algo", "=", "ppg"], runs) == ["ppg", "ppg-ewma"]
    assert offered("bash", scripts / "bash", ["show", "--json", ""], runs) == ["false", "true"]


@pytest.mark.parametrize("shell", ASK)
def test_every_script_names_every_option_and_long_lists_once(shell, scripts):
    text = (scripts / shell).read_text()
    for name, made in parsers().items():
        options = [o for a in made._actions for o in a.option_strings if o.startswith("--")]
        spelled = [f"from {name}' -l {o[2:]}" if shell == "fish" else o for o in options]
        assert all(spelling in text for spelling in spelled), name
    assert text.count(" AcrobotSwingup-v1 ") == 1 and len(text) < 200_000
