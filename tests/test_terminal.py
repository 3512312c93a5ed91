"""What is printed is text: brackets, emoji names and control characters of files and paths mean nothing."""

import ast
import contextlib
import io
import sys
from pathlib import Path

import pytest
import yaml
from test_reading import a_run

import trimtab
from trimtab import cli
from trimtab.core.terminal import new_console, safe_streams, styled, visible

NASTY = "[/x] [red]y[/red] :smile: \\[bold] \x1b]0;title\x07\x1b[2J\x9b1m\r\u202e z"
SHOWN = "[/x] [red]y[/red] :smile: \\[bold] \\x1b]0;title\\x07\\x1b[2J\\x9b1m\\x0d\\u202e z"


@pytest.mark.parametrize("name", ["[red]a", "a[", ":smile:", "a\x1b[31m"])
@pytest.mark.parametrize("command", ["show", "doctor", "compare", "plan", "rescale"])
def test_names_and_values_are_printed_as_they_are(runs, capsys, monkeypatch, command, name):
    monkeypatch.setenv("COLUMNS", "300")
    place = Path(name, "]") if name == "a[" else Path(name)  # the path a[/], a closing tag without an opening one
    path = a_run(runs / place).path
    a_run(runs / "other")
    config = path / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"env_id": NASTY}))
    words = {"show": [place], "doctor": [place], "compare": [place, "other"], "plan": ["CartPole-v1"]}
    words |= {"plan": ["--config", config, "--env-id", "CartPole-v1"], "rescale": [place, "--num-envs", "8"]}
    assert cli.main([command, *map(str, words[command])]) == 0
    out = capsys.readouterr().out
    assert out.isprintable() or set(filter(lambda c: not c.isprintable(), out)) == {"\n"}
    if command in ("show", "doctor", "rescale"):
        assert visible(str(place)) in out
    if command in ("show", "compare"):
        assert SHOWN in out


def test_a_console_styles_what_it_is_given_to_style_and_nothing_else():
    file = io.StringIO()
    console = new_console(file=file, force_terminal=True, color_system="standard", width=200)
    console.print(styled((NASTY, "red"), " ", NASTY))
    console.print(NASTY)
    red, plain = file.getvalue().splitlines()
    assert red == f"\x1b[31m{SHOWN}\x1b[0m {SHOWN}" and plain == SHOWN


def test_plain_printing_shows_control_characters():
    out = io.StringIO()
    with contextlib.redirect_stdout(out), safe_streams():
        print(NASTY, "tab\there", "two\nlines", sep="|")
        new_console().print("through rich")
        assert sys.stdout.getvalue()
    assert out.getvalue() == f"{SHOWN}|tab\there|two\nlines\nthrough rich\n"


def test_every_command_prints_through_the_literal_console():
    root = Path(trimtab.__file__).parent
    for file in sorted(root.rglob("*.py")):
        if file == root / "core" / "terminal.py":
            continue
        modules = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not modules & {"rich.console", "rich.markup"}, file
