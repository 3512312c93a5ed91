"""The short part of the standing tools (`make fuzz`): a few cases of each, from a seed that does not change."""

import json

import pytest

from benchmarks.fuzz import __main__ as tools
from benchmarks.fuzz import damage, files, ledger
from benchmarks.fuzz.ledger import Cases, Tally


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))


def tally_of(tool: str, count: int, seed: int = 1) -> Tally:
    tally = Tally()
    tools.TOOLS[tool](Cases(tool, seed, count, 300), tally)
    return tally


def test_damaged_files_cost_their_damaged_parts_only():
    tally = tally_of("files", 400)
    assert not tally.problems and tally.counts["damaged files"] == 400
    assert tally.counts["read in part or whole"] > 100 and tally.counts["one-line errors"] > 50


def test_commands_on_damaged_files_end_in_one_line():
    assert not tally_of("commands", 2).problems


def test_a_wrong_answer_is_a_problem(monkeypatch):
    """What a reading gives of damaged episodes is compared with what was written."""
    monkeypatch.setattr("trimtab.core.reading._refuse_damaged_table", lambda file, path: None)
    only = [subject for subject in files.SUBJECTS if subject.name == "episodes"]
    monkeypatch.setattr(files, "SUBJECTS", tuple(only))
    monkeypatch.setattr("benchmarks.fuzz.readings.SUBJECTS", tuple(only))
    assert any("some of them other ones" in what for _, what in tally_of("files", 300).problems)


def test_counts_add_up_over_invocations(tmp_path):
    record = tmp_path / "robustness.json"
    for seed in (1, 2):
        tally = Tally(members={"shapes": {f"{seed:08x}", "0000000f"}})
        tally.counts["cases"] = 5
        tally.problem(f"{seed}:3", "wrong")
        ledger.add("files", Cases("files", seed, 5, 1.0), tally, record)
    entry = json.loads(record.read_text())["tools"]["files"]
    assert entry["counts"] == {"cases": 10, "problems": 2} and len(entry["members"]["shapes"]) == 3 * ledger.HASH
    assert [i["seeds"] for i in entry["invocations"]] == [[1, 2]] and ledger.next_seed("files", record) == 3
    assert ledger.settle("files", lambda case: case == "1:3", record) == 1


def test_a_case_follows_from_its_number():
    def results(first: int) -> list[bytes]:
        cases = Cases("files", 7, 6 - first, 60, first)
        return [rng.choice(damage.BYTES)(bytes(range(200)), rng) for _, rng in cases]

    assert results(0)[4:] == results(4)
