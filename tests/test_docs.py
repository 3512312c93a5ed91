"""What the documents say can be typed: the commands and options in their examples exist. `make docs` checks links."""

import functools
import re
import shlex
from pathlib import Path

import pytest

from trimtab.commands import HELP
from trimtab.commands.described import parsers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def spoken(text: str) -> list[str]:
    """Command lines in fenced blocks and in code within sentences."""
    blocks = re.findall(r"```(?:sh|bash)?\n(.*?)```", text, re.DOTALL)
    lines = [line.split(" #")[0] for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [
        *lines,
        *(code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))),
    ]


@functools.cache
def options() -> dict[str, set[str]]:
    """Each command's options; building the parsers takes longer than reading all pages."""
    return {name: {o for a in made._actions for o in a.option_strings} for name, made in parsers().items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_documents_exist(page):
    for line in spoken(page.read_text()):
        for part in re.split(r"&&|\||;|\$\(", line):
            words = shlex.split(part, posix=False) if part.count("'") % 2 == 0 else part.split()
            if words[:1] == ["make"] and len(words) > 1 and words[1].islower():
                assert words[1] in TARGETS, line
            if words[:1] != ["trimtab"] or len(words) < 2 or not words[1].isalpha() or not words[1].islower():
                continue
            assert words[1] in HELP, line
            for word in (word for word in words[2:] if word.startswith("--")):
                assert word.split("=")[0] in options()[words[1]], line


def test_the_examples_are_found():
    """The test above would see a command that does not exist."""
    found = [line for page in PAGES for line in spoken(page.read_text()) if line.strip().startswith("trimtab ")]
    assert len(found) > 40


def test_every_check_of_plan_and_doctor_is_in_the_playbook():
    rooms = [
        ROOT / "src" / "trimtab" / "playbook" / f"{name}.py" for name in ("doctor", "plan", "sizes", "signs", "course")
    ]
    checks = {name for room in rooms for name in re.findall(r'Finding\(\s*"([a-z ]+)"', room.read_text())}
    told = set(re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs" / "playbook.md").read_text(), re.MULTILINE))
    assert len(checks) > 18 and checks <= told, checks - told


def test_numbers_of_a_split_in_the_readme_are_those_of_its_page():
    told = (
        (ROOT / "README.md").read_text().partition("docs/results/split-pendulum-099.md)")[2].partition("What `split")[0]
    )
    page = (ROOT / "docs/results/split-pendulum-099.md").read_text()
    estimates = re.findall(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", told)
    assert len(estimates) >= 4
    assert [e for e in estimates if f"{e[0]}<br>{e[1]} to {e[2]} |" not in page] == []
    assert [share for share in re.findall(r"\d+%", told) if share not in page] == []
