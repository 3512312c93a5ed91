"""What the documents say can be typed: the commands and options in their examples exist. `make docs` checks links."""

import functools
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import trimtab
from docs import front_figure
from trimtab.advise.rules import RULES
from trimtab.operations import HELP, parsers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


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


def test_the_tables_of_the_playbook_are_the_rules_as_they_are_declared():
    """In the order of work; a line that differs is shown as it should be."""
    lines = (ROOT / "docs" / "playbook.md").read_text().splitlines()
    places = []
    for rule in RULES:
        source = {"own": "trimtab"}.get(rule.source, rule.source)
        when, tries = rule.documentation
        cells = [rule.name, when, source] if rule.topic in ("sizes", "plan") else [rule.name, when, tries, source]
        line = f"| {' | '.join(cells)} |"
        assert line in lines
        places.append(lines.index(line))
    assert places == sorted(places)


def test_numbers_of_a_split_in_the_readme_are_those_of_its_page():
    told = (
        (ROOT / "README.md").read_text().partition("docs/results/split-pendulum-099.md)")[2].partition("What `split")[0]
    )
    page = (ROOT / "docs/results/split-pendulum-099.md").read_text()
    estimates = re.findall(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", told)
    assert len(estimates) >= 4
    assert [e for e in estimates if f"{e[0]}<br>{e[1]} to {e[2]} |" not in page] == []
    assert [share for share in re.findall(r"\d+%", told) if share not in page] == []


def plain_numbers(text: str) -> str:
    """Estimates in one form, 'value [lo, hi]', with ASCII minus signs: split pages write 'value<br>lo to hi'."""
    return re.sub(r"(-?[\d.]+)<br>(-?[\d.]+) to (-?[\d.]+) \|", r"\1 [\2, \3] |", text.replace("−", "-"))


def cited_estimates() -> list[tuple[str, str]]:
    """Every estimate in the guide with the results pages that its sentence, bullet or row cites."""
    found = []
    for block in re.split(r"\n(?=[-|#\n])", (ROOT / "docs/choose.md").read_text()):
        pages = re.findall(r"\(results/([\w-]+\.md)\)", block)
        text = "".join((ROOT / "docs/results" / page).read_text() for page in pages)
        estimates = re.findall(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]", plain_numbers(block))
        found += [(estimate, plain_numbers(text)) for estimate in estimates]
    return found


def negated(estimate: str) -> str:
    """The same estimate of the opposite difference: 190 [180, 200] for -190 [-200, -180]."""
    value, lo, hi = re.findall(r"-?[\d.]+", estimate)
    flipped = [number[1:] if number.startswith("-") else f"-{number}" for number in (value, hi, lo)]
    return f"{flipped[0]} [{flipped[1]}, {flipped[2]}]"


def test_estimates_of_the_guide_are_on_the_pages_it_cites():
    cited = cited_estimates()
    assert len(cited) >= 15
    assert [estimate for estimate, text in cited if estimate not in text and negated(estimate) not in text] == []


def test_the_rule_for_long_enough_rollouts_is_what_its_figure_shows():
    """Squared bias at some T over that at T = 512, on three environments at three stages."""
    figure = (ROOT / "docs/results/post-bias-exact.svg").read_text()
    points = r"bias² / \|true gradient\|²: ([\d.e−]+); series: (\w+); num_steps: (\d+);"
    bias: dict[tuple[str, int], list[float]] = {}
    for value, stage, steps in re.findall(points, figure):
        bias.setdefault((stage, int(steps)), []).append(float(value.replace("−", "-")))
    ratios = {
        steps: [
            short / long
            for stage in ("early", "middle", "late")
            for short, long in zip(bias[stage, steps], bias[stage, 512], strict=True)
        ]
        for steps in (4, 16, 64, 128)
    }
    shown = {steps: f"{min(r):.2g} to {max(r):.2g} times" for steps, r in ratios.items()}
    assert shown == {4: "6.1 to 15 times", 16: "2.4 to 3.8 times", 64: "1.3 to 1.5 times", 128: "1.1 to 1.2 times"}
    for page in ("README.md", "docs/index.md", "docs/choose.md"):
        assert all(shown[steps] in " ".join((ROOT / page).read_text().split()) for steps in (16, 64)), page


def test_the_figure_of_the_front_page_says_what_its_points_say():
    """The published answers of `split`; the title is refused where a split with long rollouts learned less."""
    drawn = front_figure.points()
    assert front_figure.title(drawn).startswith("How short may rollouts be?")
    less = [point for point in drawn if point.outcome == front_figure.LESS]
    assert len(drawn) == 15 and len(less) == 5 and max(point.horizons for point in less) < 2.4
    text = (ROOT / "docs/results/how-to-split.svg").read_text()
    assert text.count("learned significantly less;") == len(less)  # as each of its points says to a screen reader
    with pytest.raises(ValueError, match="another title"):
        front_figure.title([*drawn, replace(less[0], horizons=4.0)])


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys() and citation["license"] == "MIT"
    assert citation["version"] == trimtab.__version__.partition(".dev")[0]
    assert len(citation["references"]) == 2
